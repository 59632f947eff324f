"""How the lines of a page run, found from its pixels alone.

The rows of a page of text are by turns dark and light, the more sharply so the better they follow the lines (Postl,
1986). So the page is sheared by one angle after the other, and the sharpest rows tell its skew. Columns instead of rows
tell a page that lies on its side. To make that cheap, the page is first reduced to a few tall strips: sheared, they
only move up and down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from PIL import Image

SEARCHED_DPI: Final = 75
"""A ten-point line has a pitch of 12 pixels then, and half a degree moves one end of an A4 page by 5."""

MOST_DEGREES: Final = 12.0
"""Looked for to either side on every page. More is no feeder's doing."""

STEEPEST: Final = 45.0
"""Looked for where there is reason to: beyond, lines are found as those of a page on its side."""

SURE: Final = 6.0
"""Sharpness at the best angle over that at the median one, from which on the lines are believed. See `find_lines`."""

_BESIDE_LEVEL: Final = (0.25, 2.0, 4.0, 6.0)
_STEP: Final = 0.5
_FINEST: Final = 0.05
_STRIP: Final = 16  # pixels at SEARCHED_DPI: at 12 degrees a line rises by 3 of them within a strip
_LEAST_SIZE: Final = 40  # pixels: fewer show no lines
_TURNS: Final = (-20.0, 20.0, -42.0, 42.0)  # around each of them less than MOST_DEGREES are looked for


@dataclass(frozen=True, slots=True)
class Lines:
    """How the lines of text run.

    Attributes:
        downwards: from top to bottom of the page, as on one that lies on its side (which, is not told).
        degrees: turn the page clockwise by these to make them level (or upright).
        confidence: how much sharper they are so than in other directions; 1 is nothing.
    """

    downwards: bool
    degrees: float
    confidence: float


def find_lines(image: Image.Image, dpi: int) -> Lines | None:
    """How the lines run; None when that cannot be told with confidence. Takes 6 ms for a level page, else 15 to 30.

    Args:
        image: mode "L".
    """
    small = image.reduce(max(1, round(dpi / SEARCHED_DPI)))
    for downwards in (False, True):
        page = small.transpose(Image.Transpose.TRANSPOSE) if downwards else small
        if min(page.size) < _LEAST_SIZE:
            return None
        sharpness = _sharpness_of(page)
        found = _as_level(sharpness) or _searched(sharpness)
        if found is not None and found[1] >= SURE:
            # Mirrored at its diagonal, the page's skew goes the other way.
            return Lines(downwards, -found[0] if downwards else found[0], found[1])
    return None


def find_steep_lines(image: Image.Image, dpi: int) -> Lines | None:
    """The same for lines that are further from level, up to `STEEPEST`: the page is turned, and looked at again.

    Takes 0.2 to 0.4 s, so it is for pages where `find_lines` found none, and recognition hardly a word.
    """
    small = image.reduce(max(1, round(dpi / SEARCHED_DPI)))
    best: Lines | None = None
    for turn in _TURNS:
        turned = straightened(small, turn)
        for downwards in (False, True):
            page = turned.transpose(Image.Transpose.TRANSPOSE) if downwards else turned
            found = _searched(_sharpness_of(page)) if min(page.size) >= _LEAST_SIZE else None
            if found is not None and found[1] >= max(SURE, best.confidence if best else 0.0):
                degrees = turn + (-found[0] if downwards else found[0])
                if abs(degrees) <= STEEPEST:
                    best = Lines(downwards, degrees, found[1])
    return best


def straightened(image: Image.Image, degrees: float) -> Image.Image:
    """The page turned clockwise; it grows so that nothing is lost, and what is new has the colour of its paper."""
    histogram = image.reduce(8).histogram()
    paper = histogram.index(max(histogram))
    return image.rotate(-degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=paper)


def _as_level(sharpness: Callable[[float], float]) -> tuple[float, float] | None:
    """Zero degrees and its confidence if that is the peak, which is what most pages are; it spares the search."""
    level = sharpness(0.0)
    others = [sharpness(side * angle) for angle in _BESIDE_LEVEL for side in (-1, 1)]
    usual = median(others)
    if usual <= 0 or level < SURE * usual or level <= max(others):
        return None
    return 0.0, level / usual


def _searched(sharpness: Callable[[float], float]) -> tuple[float, float] | None:
    """The best angle and its confidence; None where that is no peak."""
    steps = round(MOST_DEGREES / _STEP)
    coarse = {step * _STEP: sharpness(step * _STEP) for step in range(-steps, steps + 1)}
    usual = median(coarse.values())
    if usual <= 0:
        return None
    best = max(coarse, key=coarse.__getitem__)
    top, width = coarse[best], _STEP / 2
    while width >= _FINEST:
        for angle in (best - width, best + width):
            if (value := sharpness(angle)) > top:
                best, top = angle, value
        width /= 2
    # Still rising where the search ends, it is no peak: what little lies on a page is cut off there.
    return (best, top / usual) if abs(best) < MOST_DEGREES else None


def _sharpness_of(page: Image.Image) -> Callable[[float], float]:
    """A function of degrees: the mean squared step from row to row, with the strips moved so as to level such lines."""
    count = max(8, page.width // _STRIP)
    strip_width, height = page.width / count, page.height
    strips = page.convert("F").resize((count, height), Image.Resampling.BOX)
    # The same rows for all angles, those that stay within the page at the greatest.
    edge = min(height // 4, math.ceil(math.tan(math.radians(MOST_DEGREES)) * page.width / 2))

    def sharpness(degrees: float) -> float:
        rise = -math.tan(math.radians(degrees)) * strip_width
        moves = (1, 0, 0, rise, 1, -rise * count / 2)
        moved = strips.transform(strips.size, Image.Transform.AFFINE, moves, Image.Resampling.BILINEAR)
        rows = moved.resize((1, height), Image.Resampling.BOX).tobytes()
        levels = memoryview(rows).cast("f")[edge : height - edge].tolist()
        return sum((above - below) ** 2 for above, below in pairwise(levels)) / len(levels)

    return sharpness
