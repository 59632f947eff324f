"""Where text stands: words and lines with their places, and how places move when a page is turned.

Places are in pixels of a page, from its upper left corner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle; its right and bottom edge are no part of it."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def area(self) -> float:
        return max(0.0, self.width) * max(0.0, self.height)

    @property
    def centre(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def shared(self, other: Box) -> float:
        """The area that lies in both."""
        return max(0.0, overlap(self.left, self.right, other.left, other.right)) * max(
            0.0, overlap(self.top, self.bottom, other.top, other.bottom)
        )

    def holds(self, point: tuple[float, float]) -> bool:
        return self.left <= point[0] <= self.right and self.top <= point[1] <= self.bottom


def overlap(start: float, end: float, other_start: float, other_end: float) -> float:
    """The length that two intervals share; negative, the distance between them."""
    return min(end, other_end) - max(start, other_start)


def around(boxes: Iterable[Box]) -> Box:
    """The smallest box around others, of which there is one at least."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return Box(min(lefts), min(tops), max(rights), max(bottoms))


@dataclass(frozen=True, slots=True)
class Word:
    """A word and its place.

    Attributes:
        text: without white space.
        box: of what is seen of it.
        confidence: 0 to 100, of a recognised word; None in a text layer.
    """

    text: str
    box: Box
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """Words that follow each other in one line.

    Attributes:
        words: one at least.
        block: number of the paragraph or the like, unique within one reading; lines of two are set apart.
        row: number of the line that a source wrote in one go, of which this may be a part; None when it is whole.
    """

    words: tuple[Word, ...]
    block: int = 0
    row: int | None = None

    @property
    def box(self) -> Box:
        return around(word.box for word in self.words)

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    def scaled(self, factor: float, *, right: float = 0.0, down: float = 0.0) -> Line:
        """With all places multiplied, then moved."""
        return self.placed(
            lambda box: Box(
                box.left * factor + right,
                box.top * factor + down,
                box.right * factor + right,
                box.bottom * factor + down,
            )
        )

    def placed(self, place: Callable[[Box], Box]) -> Line:
        """With its words at other places."""
        return replace(self, words=tuple(replace(word, box=place(word.box)) for word in self.words))


@dataclass(frozen=True, slots=True)
class Layout:
    """The lines that were recognised, in reading order, and the size in pixels of the picture they stand in."""

    size: tuple[int, int]
    lines: tuple[Line, ...]
    rotation: int = 0
    """Degrees clockwise by which that picture still has to be turned to be upright: 0, 90, 180 or 270."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A picture turned clockwise, grown so that nothing is lost: its middle stays the middle.

    Attributes:
        degrees: clockwise.
        size: of the picture before.
        turned_size: of the picture after.
    """

    degrees: float
    size: tuple[float, float]
    turned_size: tuple[float, float]

    @classmethod
    def by_quarters(cls, degrees: int, size: tuple[float, float]) -> Turn:
        """A turn by a multiple of 90 degrees."""
        return cls(degrees, size, size if degrees % 180 == 0 else (size[1], size[0]))

    def back(self) -> Turn:
        return Turn(-self.degrees, self.turned_size, self.size)

    def box(self, box: Box) -> Box:
        """The place after the turn; of a slanting one, the box of its width and height around the middle."""
        radians = math.radians(self.degrees)
        across, down = math.cos(radians), math.sin(radians)
        x, y = box.centre
        x, y = x - self.size[0] / 2, y - self.size[1] / 2
        x, y = x * across - y * down + self.turned_size[0] / 2, x * down + y * across + self.turned_size[1] / 2
        upright = round(self.degrees / 90) % 2 == 0
        width, height = (box.width, box.height) if upright else (box.height, box.width)
        return Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    def line(self, line: Line) -> Line:
        return line.placed(self.box)
