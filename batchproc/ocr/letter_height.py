"""How high the smallest letters of a page are, found from its pixels alone.

A page of level text, cut into strips a few letters wide, has dark bands in them: as high as the letters are that stand
side by side in it, and no lower than an x. Letters have others as high beside them, at the same place of the next
strip; what is low by accident, such as the end of a comma, has not. Of words too short for that it counts how high they
are as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Final

from PIL import Image

LEAST, MOST = 8, 100
"""Pixels: lower bands are rules, leaders and dots, higher ones are pictures or text that runs downwards."""

ENOUGH: Final = 60
"""Bands with others beside them: fewer are hardly a few lines."""

MOSTLY_TEXT: Final = 0.88
"""Part of what is dark that has to be in such bands. Drawn letters, noisy and skewed ones too, had 0.9 and more; pages
with a stamp, pictures, rules, shadows or lines that run downwards 0.1 to 0.87."""

MOST_SOLID: Final = 40
"""Spots of 2 mm that are ink for the most part. Letters with a bold head have 31 at most; one bar across the page, on
which white print may stand that shows no height, 80."""

LEAST_WORD: Final = 10
"""Pixels from the top to the bottom of a short word; and `_LEAST_WORD` of the height of most letters. What is lower and
stands alone are quotes and dots."""

_STRIP: Final = 0.25  # inches
_SPOT: Final = 0.08  # inches
_SOLID: Final = 0.5  # of the light of paper
_INK: Final = 0.1  # of the step from paper to the darkest strips: a line of small grey print has more
_LEAST_INK: Final = 6  # grey levels
_DARK_SHARE: Final = 0.01
_SAME: Final = 0.3  # of a band's height: by so much its neighbour's ends may differ
_STRAY: Final = 5  # bands, and a hundredth of them: what is lower than the rest by accident all the same
_LEAST_WORD: Final = 0.36
_DARK: Final = re.compile(b"\x01+")
_NOTHING: Final = (1 << 62, 1 << 62)


_Band = tuple[int, int]
"""Where in a strip it is dark: top and bottom."""


class _Stretch:
    """Bands that hang together; one that was absorbed by another is that other one."""

    __slots__ = ("bottom", "into", "least", "top")

    def __init__(self, top: int, bottom: int, least: int) -> None:
        self.top, self.bottom, self.least = top, bottom, least
        self.into: _Stretch | None = None

    @property
    def height(self) -> int:
        return self.bottom - self.top

    def root(self) -> _Stretch:
        found = self
        while found.into is not None:
            found = found.into
        return found

    def absorb(self, other: _Stretch) -> None:
        """Both are roots."""
        other = other.root()
        if other is not self:
            self.top, self.bottom = min(self.top, other.top), max(self.bottom, other.bottom)
            self.least = min(self.least, other.least)
            other.into = self


def least_letters(image: Image.Image, dpi: int) -> int | None:
    """Pixels from the baseline to the top of an x in the smallest print of a page; None where that cannot be told.

    One line of small print among forty is found, and so is a short word of it. Of print over 12 points what is found
    may be less than there is. It takes 10 ms for a letter at 300 dpi.

    Args:
        image: mode "L", its lines level.
        dpi: its resolution.
    """
    if _solid_spots(image, max(1, round(dpi * _SPOT))) > MOST_SOLID:
        return None
    strips = _strips(image, max(1, round(dpi * _STRIP)))
    heights = sorted(_beside_each_other(strips))
    dark = sum(bottom - top for strip in strips for top, bottom in strip)
    text = sum(bottom - top for strip in strips for top, bottom in strip if _may_be_text(top, bottom))
    if len(heights) < ENOUGH or text < MOSTLY_TEXT * dark:
        return None
    most = heights[max(_STRAY, len(heights) // 100)]
    least = max(LEAST_WORD, _LEAST_WORD * most)
    return min([most, *(stretch.least for stretch in _stretches(strips) if least <= stretch.height <= most)])


def _solid_spots(image: Image.Image, side: int) -> int:
    levels = image.reduce(side).histogram()
    paper = max(range(256), key=levels.__getitem__)
    return sum(levels[: round(paper * _SOLID)])


def _strips(image: Image.Image, width: int) -> list[list[_Band]]:
    """The dark bands of each strip, from top to bottom."""
    strips = image.reduce((width, 1))
    levels = strips.histogram()
    paper = max(range(256), key=levels.__getitem__)
    enough = _DARK_SHARE * sum(levels)
    darkest = next(level for level, count in enumerate(accumulate(levels)) if count >= enough)
    ink = paper - max(_LEAST_INK, (paper - darkest) * _INK)
    dark = strips.point([level < ink for level in range(256)]).transpose(Image.Transpose.TRANSPOSE)
    rows, data = dark.width, dark.tobytes()
    return [
        [found.span() for found in _DARK.finditer(data[begin : begin + rows])] for begin in range(0, len(data), rows)
    ]


def _beside_each_other(strips: list[list[_Band]]) -> Iterator[int]:
    """The heights of what is as high as text, and has a band like it at its place of the strip before."""
    for before, strip in pairwise(
        [[(top, bottom) for top, bottom in strip if _may_be_text(top, bottom)] for strip in strips]
    ):
        beside = iter([*before, _NOTHING])
        other = next(beside)
        for top, bottom in strip:
            while other[1] <= top:
                other = next(beside)
            most = _SAME * (bottom - top)
            if abs(other[0] - top) <= most and abs(other[1] - bottom) <= most:
                yield min(bottom - top, other[1] - other[0])


def _stretches(strips: list[list[_Band]]) -> Iterable[_Stretch]:
    """What hangs together from strip to strip: a line mostly, or a word that stands apart."""
    found: list[_Stretch] = []
    before: list[tuple[int, int, _Stretch]] = []
    for strip in strips:
        now = []
        begin = 0
        for top, bottom in strip:
            if bottom - top < LEAST:
                continue
            stretch = _Stretch(top, bottom, bottom - top)
            found.append(stretch)
            while begin < len(before) and before[begin][1] <= top:
                begin += 1
            for other_top, _, other in before[begin:]:
                if other_top >= bottom:
                    break
                other.root().absorb(stretch)
                stretch = stretch.root()
            now.append((top, bottom, stretch))
        before = now
    return (stretch for stretch in found if stretch.into is None)


def _may_be_text(top: int, bottom: int) -> bool:
    return LEAST <= bottom - top <= MOST
