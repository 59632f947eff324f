"""How long jobs of each kind are expected to take, from what earlier days and this run have seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

PAST_COUNTS_AS = 20
"""So many attempts of this run weigh as much as all that earlier days know: a release or an archive may be another."""


@dataclass(frozen=True, slots=True)
class Usual:
    """What earlier days saw of a kind: so many attempts, of so many worker seconds together."""

    attempts: int
    seconds: float


class Expectations:
    """The mean seconds of an attempt, by kind."""

    def __init__(self) -> None:
        self._past: dict[str, Usual] = {}
        self._attempts: dict[str, int] = {}
        self._seconds: dict[str, float] = {}

    def remember(self, past: Mapping[str, Usual]) -> None:
        """What earlier days know."""
        self._past.update(past)

    def note(self, kind: str, seconds: float) -> None:
        """An attempt of this run has ended by itself after so many seconds."""
        self._attempts[kind] = self._attempts.get(kind, 0) + 1
        self._seconds[kind] = self._seconds.get(kind, 0.0) + seconds

    def seconds(self, kind: str) -> float | None:
        """Of one attempt; None when nobody has seen one."""
        past = self._past.get(kind)
        attempts, seconds = float(self._attempts.get(kind, 0)), self._seconds.get(kind, 0.0)
        if past is not None and past.attempts > 0:
            weight = min(PAST_COUNTS_AS, past.attempts)
            attempts += weight
            seconds += weight * past.seconds / past.attempts
        return seconds / attempts if attempts else None

    def longer_than(self, seconds: float) -> frozenset[str]:
        """Kinds whose jobs are expected to take longer; those that nobody has seen are not."""
        return frozenset(kind for kind in self._past | self._seconds if (self.seconds(kind) or 0.0) > seconds)

    @property
    def worked(self) -> float:
        """Worker seconds that this run has spent."""
        return sum(self._seconds.values())

    def windows(self, left: Mapping[str, int], *, workers: int, length: float, claiming: float) -> int | None:
        """How many windows like this one the jobs that are left will take, rounded up; None when nobody can say.

        A window is worth what this one has done: it may have waited for limits, or for a slow archive. One that has
        done nothing is worth what its workers could have. Nobody can say it of one that is mostly its end, in which
        nothing is claimed any more: what that gets done says how its last jobs fell, and nothing of a night. Kinds that
        do not fit a window are left out; those that nobody has seen take as long as the others.

        Args:
            left: jobs by kind.
            length: of the window, in seconds.
            claiming: seconds of it in which jobs are claimed: not before the run is up, nor shortly before its end.
        """
        jobs = {kind: count for kind, count in left.items() if count and kind not in self.longer_than(length)}
        known = {kind: seconds for kind in jobs if (seconds := self.seconds(kind)) is not None}
        counted = sum(jobs[kind] for kind in known)
        if not counted or claiming < length / 2:
            return None
        needed = sum(jobs[kind] * seconds for kind, seconds in known.items())
        needed *= sum(jobs.values()) / counted
        worth = self.worked or workers * claiming
        return max(1, math.ceil(round(needed / worth, 6))) if worth > 0 else None
