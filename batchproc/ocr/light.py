"""Evening out the light of a page whose ink a single threshold cannot tell from its paper.

Tesseract parts ink from paper by Otsu's threshold over the whole page (1979). It fails where a shadow is darker than
ink elsewhere, and where the ink is so faint that the threshold goes through the paper's grain: no words or half of
them, with a high confidence, after up to a minute. Such a page shows it: too much of it would be ink.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Final

from PIL import Image, ImageFilter, ImageMath

TOO_MUCH_INK: Final = 0.2
"""Part of a page below Otsu's threshold. Drawn and real pages of text had 0.14 at most, and with photographs 0.19;
pages that came out empty or halved 0.23 and more."""

SOLID: Final = 0.05
"""Part of a page in tiles that would be all ink: a shadow in a corner does not reach `TOO_MUCH_INK`. Photographs do so
as well (0.05 to 0.11); evening them out changes nothing in the words around them."""

CLEAR_OF_GRAIN: Final = 9.0
"""The step from paper to ink, in standard deviations of the paper's grain, from which on grain does no harm. Drawn
letters lost nothing at 9.4, a word in a hundred at 7.7, seven at 6.5, all at 5; real pages had 21 and more."""

LEAST_INK: Final = 5.5
"""The step from paper to the darkest pixels, in standard deviations of the smoothed grain, from which on they are ink.
Blank pages with grain, specks and shadows gave 4.8 at most; the faintest letters that could still be read 10."""

_TILE: Final = 0.3  # inches: larger than any letter of a text
_ALL_INK: Final = 204  # of 255: the mean of a tile that is ink but for a fifth
_SAMPLE: Final = 4  # every fourth pixel of every fourth row is looked at
_PAPER_DPI: Final = 50
_CLOSED: Final = 7  # pixels at _PAPER_DPI, 3.5 mm: wider than the strokes of a text
_SPREAD: Final = 6
_PAPER: Final = 192  # the level that paper gets before it is cut off at white, so that its grain stays whole
_BAND: Final = 256  # rows
_GRAIN_RADIUS: Final = 1.0  # pixels at 300 dpi: of 0 to 1 the best for grainy pages, and no loss on others
_INK_SHARE: Final = 0.002
_GRAINS: Final = 2.0
_MEDIAN_OF_NORMAL: Final = 0.6745  # half of a normal distribution is within so many deviations


def is_poor(image: Image.Image, dpi: int) -> bool:
    """Whether the page (mode "L") needs `evened`. Takes about 1 ms; a page of black and white alone never does."""
    size = (max(1, image.width // _SAMPLE), max(1, image.height // _SAMPLE))
    sample = image.resize(size, Image.Resampling.NEAREST)
    levels = sample.histogram()
    threshold = _otsu(levels)
    ink = sum(levels[: threshold + 1])
    if ink == 0 or sum(count > 0 for count in levels) <= 2:
        return False
    if ink > TOO_MUCH_INK * sum(levels) or _clear_of_grain(levels, threshold) < CLEAR_OF_GRAIN:
        return True
    tile = max(1, round(dpi * _TILE / _SAMPLE))
    shares = sample.point([255 * (level <= threshold) for level in range(256)]).reduce(tile).histogram()
    return sum(shares[_ALL_INK:]) > SOLID * sum(shares)


def evened(image: Image.Image, dpi: int) -> Image.Image:
    """The page on white paper with black ink, its grain smoothed. Takes 0.2 s for an A4 page at 300 dpi.

    A page without `LEAST_INK` is returned as it is: its grain would become specks, which took minutes to recognise.
    """
    flat = _over_paper(image, _paper(image, dpi)).filter(ImageFilter.GaussianBlur(_GRAIN_RADIUS * dpi / 300))
    levels = flat.histogram()
    total = sum(levels)
    ink = next(level for level, below in enumerate(accumulate(levels)) if below >= _INK_SHARE * total)
    paper = max(range(1, 255), key=levels.__getitem__)
    lighter = sum(levels[paper:])
    grain = math.sqrt(sum((level - paper) ** 2 * levels[level] for level in range(paper, 256)) / max(1, lighter))
    if paper - ink < LEAST_INK * max(1.0, grain):
        return image
    white = max(paper - _GRAINS * grain, (ink + paper) / 2)
    return flat.point([round(min(255.0, max(0.0, (level - ink) * 255 / (white - ink)))) for level in range(256)])


def _paper(image: Image.Image, dpi: int) -> Image.Image:
    """What the page would look like without its ink: darker marks than around them closed, in the page's size."""
    small = image.reduce(max(1, round(dpi / _PAPER_DPI)))
    closed = small.filter(ImageFilter.MaxFilter(_CLOSED)).filter(ImageFilter.MinFilter(_CLOSED))
    return closed.filter(ImageFilter.BoxBlur(_SPREAD)).resize(image.size, Image.Resampling.BILINEAR)


def _over_paper(image: Image.Image, paper: Image.Image) -> Image.Image:
    """Each pixel as a part of its paper's light, in bands: the numbers between take 4 bytes each."""
    even = Image.new("L", image.size)
    for top in range(0, image.height, _BAND):
        band = (0, top, image.width, min(top + _BAND, image.height))
        part = ImageMath.lambda_eval(
            lambda names: names["convert"](names["min"](names["i"] * _PAPER / names["max"](names["p"], 1), 255), "L"),
            i=image.crop(band),
            p=paper.crop(band),
        )
        even.paste(part, band)
    return even


def _clear_of_grain(levels: list[int], threshold: int) -> float:
    """The step from the most usual level of paper to the mean of ink, in deviations of paper (estimated by medians)."""
    paper = max(range(threshold + 1, 256), key=levels.__getitem__)
    off = [0] * 256
    for level in range(threshold + 1, 256):
        off[abs(level - paper)] += levels[level]
    half = sum(off) / 2
    grain = next(distance for distance, below in enumerate(accumulate(off)) if below >= half) / _MEDIAN_OF_NORMAL
    ink = sum(level * levels[level] for level in range(threshold + 1)) / sum(levels[: threshold + 1])
    return (paper - ink) / grain if grain else math.inf


def _otsu(levels: list[int]) -> int:
    """The level up to which pixels are dark, so that dark and light differ most; 0 on a page of one level."""
    total, weighted = sum(levels), sum(level * count for level, count in enumerate(levels))
    dark = dark_weighted = best = 0
    most = 0.0
    for level, count in enumerate(levels):
        dark += count
        dark_weighted += level * count
        if 0 < dark < total:
            apart = (dark_weighted * total - weighted * dark) ** 2 / (dark * (total - dark))
            if apart > most:
                most, best = apart, level
    return best
