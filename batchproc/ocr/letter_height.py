"""How high the smallest letters of a page are, found from its pixels alone.

A page of level text, cut into strips a few letters wide, has dark bands in them: as high as the letters are that stand
side by side in it, and no lower than an x. What is low by accident, such as a hyphen or the end of a comma, stands
alone; letters have others as high beside them, at the same place of the next strip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from PIL import Image

LEAST, MOST = 8, 100
"""Pixels: lower bands are rules, leaders and dots, higher ones are pictures or text that runs downwards."""

ENOUGH: Final = 60
"""Bands with others beside them: fewer are hardly a few lines."""

MOSTLY_TEXT: Final = 0.88
"""Part of what is dark that has to be in such bands. Drawn letters, noisy and skewed ones too, had 0.9 and more; pages
with a stamp, pictures, rules, shadows or lines that run downwards 0.1 to 0.87."""

_STRIP: Final = 0.25  # inches
_INK: Final = 0.1  # of the step from paper to the darkest strips: a line of small grey print has more
_LEAST_INK: Final = 6  # grey levels
_DARK_SHARE: Final = 0.01
_SAME: Final = 0.3  # of a band's height: by so much its neighbour's ends may differ
_STRAY: Final = 5  # bands, and a hundredth of them: what is lower than the rest by accident all the same
_BAND: Final = re.compile(b"\x01+")


@dataclass(frozen=True, slots=True)
class _Bands:
    """Of a page: heights of those with another beside them, and which part of what is dark is as high as text."""

    heights: list[int]
    text: float


def least_letters(image: Image.Image, dpi: int) -> int | None:
    """Pixels from the baseline to the top of an x in the smallest print of a page; None where that cannot be told.

    One line of small print among forty is found. It takes 5 ms for a letter at 300 dpi.

    Args:
        image: mode "L", its lines level.
        dpi: its resolution.
    """
    bands = _bands(_strips(image, max(1, round(dpi * _STRIP))))
    if len(bands.heights) < ENOUGH or bands.text < MOSTLY_TEXT:
        return None
    heights = sorted(bands.heights)
    return heights[max(_STRAY, len(heights) // 100)]


def _strips(image: Image.Image, width: int) -> Iterable[list[tuple[int, int]]]:
    """Of each strip the places (top, bottom) where it is dark."""
    strips = image.reduce((width, 1))
    levels = strips.histogram()
    paper = max(range(256), key=levels.__getitem__)
    enough = _DARK_SHARE * sum(levels)
    darkest = next(level for level, count in enumerate(accumulate(levels)) if count >= enough)
    ink = paper - max(_LEAST_INK, (paper - darkest) * _INK)
    dark = strips.point([level < ink for level in range(256)]).transpose(Image.Transpose.TRANSPOSE)
    rows, data = dark.width, dark.tobytes()
    for begin in range(0, len(data), rows):
        yield [found.span() for found in _BAND.finditer(data[begin : begin + rows])]


def _bands(strips: Iterable[list[tuple[int, int]]]) -> _Bands:
    heights: list[int] = []
    dark = text = 0
    before: list[tuple[int, int]] = []
    for strip in strips:
        bands = [(top, bottom) for top, bottom in strip if LEAST <= bottom - top <= MOST]
        dark += sum(bottom - top for top, bottom in strip)
        text += sum(bottom - top for top, bottom in bands)
        beside = iter([*before, (1 << 62, 1 << 62)])
        other = next(beside)
        for top, bottom in bands:
            while other[1] <= top:
                other = next(beside)
            most = _SAME * (bottom - top)
            if abs(other[0] - top) <= most and abs(other[1] - bottom) <= most:
                heights.append(min(bottom - top, other[1] - other[0]))
        before = bands
    return _Bands(heights, text / dark if dark else 0.0)
