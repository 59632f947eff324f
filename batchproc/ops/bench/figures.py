"""Figures of several runs: a machine's speed drifts, so the median counts, and the spread stands beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of several runs' figures, and the outermost of them."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Raises ValueError when there are none."""
        found = sorted(values)
        if not found:
            raise ValueError("no figures")
        return cls(median(found), found[0], found[-1])

    def plain(self, digits: int = 1) -> dict[str, Any]:
        """``median``, ``least`` and ``most``, rounded."""
        return {
            "median": round(self.median, digits),
            "least": round(self.least, digits),
            "most": round(self.most, digits),
        }

    def text(self, digits: int = 0) -> str:
        """``650 (620 to 700)``."""
        return f"{self.median:.{digits}f} ({self.least:.{digits}f} to {self.most:.{digits}f})"


def percentile(values: Sequence[float], share: float) -> float:
    """The value that at least ``share`` (0 to 1) of the values do not exceed: nearest rank, nothing interpolated."""
    found = sorted(values)
    return found[max(0, ceil(share * len(found)) - 1)]


def alternated(names: Sequence[str], number: int) -> list[str]:
    """The order of the sides in the given run (from 1): each goes first in every other run."""
    return list(names) if number % 2 else list(reversed(names))


def counted(number: int, name: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
