"""Whose turn it is among the lanes: smooth weighted round robin, the debt carried from choice to choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class LaneTurns:
    """Of turns that several lanes could take, each gets its weight's share; none waits longer than that says."""

    def __init__(self, weights: Mapping[int, float]) -> None:
        self._weights = dict(weights)
        self._debts = dict.fromkeys(self._weights, 0.0)

    def due(self, competing: Sequence[int]) -> int:
        """The lane whose turn it is among these; of equal ones the first."""
        if len(competing) == 1:
            return competing[0]
        return max(competing, key=lambda lane: self._debts[lane] + self._weights[lane])

    def charge(self, served: int, competing: Sequence[int]) -> None:
        """``served`` took the turn. A lane that does not compete gathers no debt, and is owed none any more."""
        total = sum(self._weights[lane] for lane in competing) if len(competing) > 1 else self._weights[served]
        for lane in self._debts:
            if lane not in competing:
                self._debts[lane] = 0.0
            else:
                self._debts[lane] += self._weights[lane] - (total if lane == served else 0.0)

    def take_back(self, served: int, competing: Sequence[int], still: Sequence[int]) -> None:
        """A turn that ``served`` was charged among ``competing`` gave no job: nobody owes anything for it.

        Args:
            still: who competed for the last turn that was charged; the others' debts were dropped since.
        """
        if len(competing) > 1:
            total = sum(self._weights[lane] for lane in competing)
            for lane in competing:
                if lane in still:
                    self._debts[lane] -= self._weights[lane] - (total if lane == served else 0.0)
