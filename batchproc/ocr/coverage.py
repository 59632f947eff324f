"""Which parts of a page images cover, found on a coarse grid: quick for any number of images, whole or in strips."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from batchproc.ocr.layout import Box, around

CELL: Final = 6.0
"""Points. Images that are closer than this belong together; a line of readable text needs two cells."""

MOST_CELLS: Final = 400
"""Along a side: on a sheet longer than 2,400 points the cells are larger."""

LEAST_LENGTH: Final = 12.0
"""Points: a word is no shorter than this along its longer side ("YES" has 18); check marks and bullets have 8 to 10."""

MAX_REGIONS: Final = 8
"""Each is recognised on its own; more are taken as one, which is the whole page as a rule."""

_MOST_APART: Final = 200


class Coverage:
    """The covered part of a page of this size, in points."""

    def __init__(self, size: tuple[float, float]) -> None:
        self._size = size
        self._cell = max(CELL, max(size) / MOST_CELLS)
        self._columns, self._lines = (max(1, math.ceil(side / self._cell)) for side in size)
        self._rows = [0] * self._lines
        self._seen: set[tuple[int, int, int, int]] = set()
        self._short: defaultdict[tuple[int, int], list[Box]] = defaultdict(list)

    def add(self, box: Box) -> None:
        left, right = self._cells(box.left, box.right, self._columns)
        top, bottom = self._cells(box.top, box.bottom, self._lines)
        cells = left, top, right, bottom
        if left >= right or top >= bottom or cells in self._seen:
            return
        self._seen.add(cells)
        if max(box.width, box.height) < LEAST_LENGTH:
            self._short[left, top].append(box)
        bits = (1 << right) - (1 << left)
        for row in range(top, bottom):
            self._rows[row] |= bits

    def extent(self) -> Box | None:
        """The box around all that is covered; None for nothing."""
        found = patches(self._rows)
        return around(map(self._box, found)) if found else None

    def regions(self) -> tuple[Box, ...]:
        """Boxes around what is covered and hangs together, from top to bottom; none overlap, each can hold a word."""
        found = [box for box in map(self._box, patches(self._rows)) if self._can_hold_a_word(box)]
        if len(found) <= _MOST_APART:
            found = _apart(found)
        if len(found) > MAX_REGIONS:
            found = [around(found)]
        return tuple(sorted(found, key=lambda box: (box.top, box.left)))

    def _box(self, patch: dict[int, int]) -> Box:
        columns = 0
        for bits in patch.values():
            columns |= bits
        first = (columns & -columns).bit_length() - 1
        box = Box(first, min(patch), columns.bit_length(), max(patch) + 1)
        left, top, right, bottom = (edge * self._cell for edge in box)
        return Box(left, top, min(right, self._size[0]), min(bottom, self._size[1]))

    def _can_hold_a_word(self, box: Box) -> bool:
        """A rule, however long, covers one row of cells (that across two costs but a look); a bullet is too short."""
        return min(box.width, box.height) > self._cell and self._length(box) >= LEAST_LENGTH

    def _length(self, box: Box) -> float:
        """The longer side of a patch: of a short one, of what lies in its cells, which may be half as long as they."""
        length = max(box.width, box.height)
        if length >= LEAST_LENGTH + 2 * self._cell:
            return length
        left, top, right, bottom = (round(edge / self._cell) for edge in box)
        inside = [
            short
            for column in range(left, right + 1)
            for row in range(top, bottom + 1)
            for short in self._short.get((column, row), ())
        ]
        if not inside:
            return length
        whole = around(inside)
        return max(whole.width, whole.height)

    def _cells(self, start: float, end: float, count: int) -> tuple[int, int]:
        """The first cell that an interval touches, and the one after the last; equal if it lies outside the page."""
        if not start <= end:
            return 0, 0
        limit = count * self._cell
        first = math.floor(min(max(start, 0.0), limit) / self._cell)
        return first, math.ceil(min(max(end, 0.0), limit) / self._cell)


def patches(covered: Sequence[int]) -> list[dict[int, int]]:
    """The patches of covered cells that touch, each as its bits by row; given are all rows, as bits."""
    rows = list(covered)
    found = []
    for start in range(len(rows)):
        while rows[start]:
            patch = _flooded(rows, start)
            for row, bits in patch.items():
                rows[row] ^= bits
            found.append(patch)
    return found


def _flooded(rows: list[int], start: int) -> dict[int, int]:
    """The patch with the first covered cell of row `start`, as its bits by row."""
    patch = {start: _runs_with(rows[start], rows[start] & -rows[start])}
    waiting = [start]
    while waiting:
        row = waiting.pop()
        for near in (row - 1, row + 1):
            if 0 <= near < len(rows):
                bits = patch[row]
                found = _runs_with(rows[near], bits | bits << 1 | bits >> 1)
                if found & ~patch.get(near, 0):
                    patch[near] = patch.get(near, 0) | found
                    waiting.append(near)
    return patch


def _runs_with(row: int, cells: int) -> int:
    """Of the runs of covered cells in a row those that one of `cells` is in."""
    found = row & cells
    while (wider := (found | found << 1 | found >> 1) & row) != found:
        found = wider
    return found


def _apart(boxes: list[Box]) -> list[Box]:
    """The boxes, with those that overlap made one."""
    apart: list[Box] = []
    for box in boxes:
        while touched := [other for other in apart if other.shared(box) > 0]:
            box = around([box, *touched])
            apart = [other for other in apart if other not in touched]
        apart.append(box)
    return apart
