"""Where a page that is drawn without its text still shows what looks like words: outlines, patterns, unread scans.

Whatever means a PDF uses to draw letters, they leave marks of a letter's height that run on to the right. That is cheap
to see at a low resolution, and says only where to look: what stands there is left to recognition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from PIL import Image, ImageChops, ImageFilter

from batchproc.ocr.blank import BACKGROUND_RADIUS
from batchproc.ocr.coverage import Coverage, patches
from batchproc.ocr.layout import Box

LOOK_DPI: Final = 75
"""Letters of eight points are eight pixels high with this, and lines of them do not touch yet."""

MOST_PIXELS: Final = 4000
"""Along a side: a larger sheet is looked at with a lower resolution."""

CONTRAST: Final = 48
"""Grey levels between a letter's strokes and what is around it; the blurred rims of letters have less."""

LEAST_HEIGHT, MOST_HEIGHT = 4, 40
"""Pixels, of level words and of words that run downwards: letters of about 5 to 40 points. Rules are lower."""

LEAST_ASPECT: Final = 1.5
"""Length of a word by its height. The slanting labels and the markers of a chart have 1.4 at most."""

LEAST_FILLED, MOST_FILLED = 0.2, 0.93
"""Part of its box that a word's ink takes: less is a frame, more is a bar."""

FEW_WORDS: Final = 6
"""What looks like fewer words is not worth a look: markers of a chart, arrows, a lone piece of decoration."""

_AROUND: Final = 8.0
"""Points around a word that belong to it, or its height if that is more: so a paragraph's lines make one region."""

_SLACK: Final = 0.3
"""Of the height of a line in a layer: by so much it may stand beside the words it says."""


def look_dpi(size: tuple[float, float]) -> int:
    """The resolution to look at a page of this size (points) with."""
    return max(1, min(LOOK_DPI, int(72 * MOST_PIXELS / max(size))))


def unread_regions(
    picture: Image.Image, size: tuple[float, float], read: Iterable[Box], known: Iterable[Box]
) -> tuple[Box, ...]:
    """Boxes around what looks like words and is neither read nor known.

    Args:
        picture: of the whole page without its text, mode "L", at `look_dpi`.
        size: of the page in points, as all places are.
        read: the words of a layer that say what the picture shows.
        known: parts of the page that are recognised anyway.
    """
    darkest, lightest = picture.getextrema()
    if darkest == lightest:
        return ()
    strokes = _strokes(picture)
    across, down = picture.width / size[0], picture.height / size[1]
    for place, more in [*((box, _SLACK * box.height) for box in read), *((box, 0.0) for box in known)]:
        left, top = round((place.left - more) * across), round((place.top - more) * down)
        strokes.paste(0, (left, top, round((place.right + more) * across) + 1, round((place.bottom + more) * down) + 1))
    words, letters = _words_and_letters(strokes)
    if len(words) < FEW_WORDS:
        return ()
    coverage = Coverage(size)
    for box in [*words, *letters]:
        around = max(_AROUND, min(box.width, box.height) / down)
        coverage.add(
            Box(
                box.left / across - around,
                box.top / down - around,
                box.right / across + around,
                box.bottom / down + around,
            )
        )
    return coverage.regions()


def _strokes(picture: Image.Image) -> Image.Image:
    """255 where a pixel differs clearly from what is around it, else 0."""
    paper = picture.filter(ImageFilter.BoxBlur(BACKGROUND_RADIUS))
    return ImageChops.difference(picture, paper).point([255 * (level >= CONTRAST) for level in range(256)])


def _words_and_letters(strokes: Image.Image) -> tuple[list[Box], list[Box]]:
    """Boxes in pixels of what looks like words, and of other marks of a letter's size, which may be part of a text."""
    words: list[Box] = []
    letters: list[Box] = []
    if strokes.getbbox() is None:
        return words, letters
    rows = _rows_of_bits(strokes)
    for patch in patches([row | row << 1 | row >> 1 for row in rows]):
        box, ink = _measured(patch, rows)
        height, length = sorted((box.width, box.height))
        if _is_word(height, length, ink):
            words.append(box)
        elif LEAST_HEIGHT <= length <= MOST_HEIGHT or LEAST_HEIGHT <= height <= MOST_HEIGHT:
            letters.append(box)
    return words, letters


def _is_word(height: float, length: float, ink: int) -> bool:
    if not LEAST_HEIGHT <= height <= MOST_HEIGHT or length < LEAST_ASPECT * height:
        return False
    return LEAST_FILLED <= ink / (length * height) <= MOST_FILLED


def _measured(patch: dict[int, int], rows: list[int]) -> tuple[Box, int]:
    """The box around the ink of a patch, and how many pixels that is."""
    columns = 0
    ink = 0
    for row, bits in patch.items():
        columns |= bits & rows[row]
        ink += (bits & rows[row]).bit_count()
    return Box((columns & -columns).bit_length() - 1, min(patch), columns.bit_length(), max(patch) + 1), ink


def _rows_of_bits(picture: Image.Image) -> list[int]:
    """Each row as a number whose lowest bit is its left pixel."""
    flipped = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT).convert("1", dither=Image.Dither.NONE)
    data, stride = flipped.tobytes(), (picture.width + 7) // 8
    spare = stride * 8 - picture.width
    return [int.from_bytes(data[at : at + stride]) >> spare for at in range(0, len(data), stride)]
