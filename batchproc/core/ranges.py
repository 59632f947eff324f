"""A large document's pages as ranges that are read by jobs of their own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class PageRange(NamedTuple):
    """Pages from ``first`` to ``last``, both counted from 1 and both in it. Some may be done already."""

    first: int
    last: int

    def __contains__(self, page: object) -> bool:
        return isinstance(page, int) and self.first <= page <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


def balanced(pages: Sequence[int], most: int) -> list[PageRange]:
    """As few ranges as hold all of these pages with at most ``most`` in each; their sizes differ by one at most.

    A last range of two pages would keep all others waiting for as long as one of twenty.

    Args:
        pages: the pages that are to be read, ascending. What lies between them within a range is not read.
        most: at least 1.
    """
    count = -(-len(pages) // most)
    ends = [len(pages) * number // count for number in range(count + 1)] if count else []
    return [PageRange(pages[start], pages[end - 1]) for start, end in pairwise(ends)]
