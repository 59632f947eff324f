"""Whether there is anything on a page, before it is recognised."""

from __future__ import annotations

from typing import Final

from PIL import Image, ImageChops, ImageFilter

BLANK_DPI: Final = 75
"""Blankness is judged at this resolution: averaging takes scanner noise away, and leaves a letter its strokes."""

BACKGROUND_RADIUS: Final = 12
"""Pixels at `BLANK_DPI`: paper is what is around a mark, so uneven light or a coloured sheet is not one."""

MARK_CONTRAST: Final = 6
"""Grey levels by which a mark differs at least from the paper around it: faint pencil (240 on 250) does."""

MARK_GRAINS: Final = 5.0
"""Standard deviations of the paper's grain by which it does: about one pixel of grain in a page is that far off."""

MOST_GRAIN: Final = 60.0
"""Grey levels: on a page full of bold print half of the pixels are ink, whose contrast is no grain of the paper."""

LEAST_MARKS: Final = 7
"""Pixels at `BLANK_DPI` within a window of 3 mm: a ten-point digit has a dozen, a speck of dust one to four."""

_WINDOW_RADIUS: Final = 4
_MARGIN: Final = 59  # pixels at BLANK_DPI, 20 mm: where holes are punched
_HOLE_RADIUS: Final = 4  # a square of 3 mm: thicker than a stroke of a text, and fits into a hole (5.5 mm)
_HOLE_RIMS, _HOLE_RIM = 3, 6  # to beyond where a hole makes the paper around it look lighter than paper
_SOLID: Final = 230  # of 255: but for a white speck
_MEDIAN_OF_NORMAL: Final = 0.6745  # half of a normal distribution is within so many deviations


def is_blank(image: Image.Image, dpi: int) -> bool:
    """Whether nothing is on a page (mode "L") but specks, punched holes and the dark edges of a scan.

    In doubt it is not blank, since that costs only a read: so not with what shows through from the back, hundreds of
    specks, or a slanting shadow at an edge. A uniformly dark page is blank. An A4 page at 300 dpi takes 10 ms, or 2 if
    its middle has text.
    """
    factor = max(1, round(dpi / BLANK_DPI))
    middle = image.crop((image.width // 4, image.height // 3, image.width * 3 // 4, image.height * 2 // 3))
    if min(middle.size) >= factor and _has_writing(_marks(_reduced(middle, factor))):
        return False
    page = _without_edges(_reduced(image, factor))
    marks = _marks(page)
    if not _has_writing(marks):
        return True
    margin = min(_MARGIN, min(page.size) // 4)
    holes = _solid(page)
    # Elsewhere than at the sides they might be the strokes of a very large letter.
    holes.paste(0, (margin, margin, page.width - margin, page.height - margin))
    return not _has_writing(ImageChops.subtract(marks, holes))


def marks_on(image: Image.Image, dpi: int) -> Image.Image:
    """A picture at about `BLANK_DPI` of a part of a page (mode "L"): 255 where there is a mark, else 0."""
    return _marks(image.reduce(max(1, round(dpi / BLANK_DPI))))


def is_empty(image: Image.Image, dpi: int) -> bool:
    """Whether nothing is on a part of a page (mode "L"), where there are no punched holes, nor edges of a scan."""
    return not _has_writing(marks_on(image, dpi))


def paper_level(page: Image.Image) -> int:
    """The most usual grey level of a page, or of a part of one (mode "L")."""
    return max(range(256), key=page.histogram().__getitem__)


def _reduced(image: Image.Image, factor: int) -> Image.Image:
    """Without what is left over at the right and the bottom: the mean of fewer pixels has more grain."""
    whole = (image.width // factor * factor, image.height // factor * factor)
    return image.reduce(factor, (0, 0, *whole)) if min(whole) else image


def _without_edges(page: Image.Image) -> Image.Image:
    """Without the rows and columns at its sides that are mostly black: what a scanner sees beside the sheet.

    Of a row through a bold line a third is ink, so half as light as paper are only shadows.
    """
    least = paper_level(page) // 2
    top, bottom = _lit(page.resize((1, page.height), Image.Resampling.BOX).tobytes(), least)
    left, right = _lit(page.resize((page.width, 1), Image.Resampling.BOX).tobytes(), least)
    return page.crop((left, top, right, bottom)) if left < right and top < bottom else page


def _lit(levels: bytes, least: int) -> tuple[int, int]:
    """The first and after the last level that is at least so light, without the half-lit ones beside darker ones."""
    lit = [index for index, level in enumerate(levels) if level >= least]
    if not lit:
        return 0, 0
    first, last = lit[0], lit[-1]
    return first + (first > 0), last + (last == len(levels) - 1)


def _marks(page: Image.Image) -> Image.Image:
    """255 where a pixel differs from the paper around it by more than grain does."""
    off = ImageChops.difference(page, page.filter(ImageFilter.BoxBlur(BACKGROUND_RADIUS)))
    usual = max(0.0, _median(off.histogram()))
    least = max(MARK_CONTRAST, min(MOST_GRAIN, MARK_GRAINS * usual / _MEDIAN_OF_NORMAL))
    return off.point([255 * (level >= least) for level in range(256)])


def _has_writing(marks: Image.Image) -> bool:
    """Whether there are enough marks within some window."""
    dense = marks.filter(ImageFilter.BoxBlur(_WINDOW_RADIUS)).histogram()
    return any(dense[255 * LEAST_MARKS // (2 * _WINDOW_RADIUS + 1) ** 2 :])


def _solid(page: Image.Image) -> Image.Image:
    """255 in and around spots that are black without a gap."""
    half = paper_level(page) // 2
    black = page.point([255 * (level < half) for level in range(256)]).filter(ImageFilter.BoxBlur(_HOLE_RADIUS))
    spots = black.point([255 * (level >= _SOLID) for level in range(256)])
    for _ in range(_HOLE_RIMS):
        spots = spots.filter(ImageFilter.BoxBlur(_HOLE_RIM)).point([255 * (level > 0) for level in range(256)])
    return spots


def _median(levels: list[int]) -> float:
    """Between the whole levels, by how many lie on either side of the half."""
    half, below = sum(levels) / 2, 0
    for level, count in enumerate(levels):
        if below + count >= half:
            return level - 0.5 + (half - below) / count
        below += count
    return 0.0
