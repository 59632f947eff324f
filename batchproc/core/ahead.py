"""Claiming ahead: what a slot gets while it is still at quick jobs, so that its worker need not wait for the node.

A round trip of settle and claim takes about a millisecond, and twenty where it is for hundreds of jobs on a busy
machine; a worker whose jobs take less than that waits for it longer than it works. What takes longer gains nothing by
it, and would wait behind its slot's jobs while another one is free: nothing is claimed ahead then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from batchproc.core.job import Claim
from batchproc.core.prices import WorkTimes
from batchproc.core.queues import Queue

QUICK_SECONDS = 0.1
"""Expected of all jobs that a slot holds; with a round trip of 1 ms there is 1 % to be gained above it."""

BRIEF_SECONDS = 0.02
"""Expected of a filling that others wait behind in numbers."""

MOST_WAITING = 5
"""Fillings that wait in a slot. With no-op jobs one at a time on eight workers two cores did 1,170 jobs a second with
one that waits, 1,590 with three, 1,860 with five, and no more with eight; in bundles of 64 on three workers 8,500,
9,600, 9,900 and 10,000."""

MOST_TOGETHER = 8
"""Jobs of several fillings that wait in a slot and are sent to its worker in one go."""

STREAK = 10
"""After so many fillings of slots in a row that were all quick, the next one is taken to be quick, too."""

BRIEF_JOBS = 300
"""After so many jobs in a row of which none took long, the next ones are taken not to do so either. One in a hundred
that does would send all back that wait behind it, each time."""


class Ahead:
    """Knows by the jobs that were completed which slots are at quick jobs."""

    def __init__(self) -> None:
        self._times = WorkTimes()
        self._quick = self._brief = 0

    @property
    def only_quick(self) -> bool:
        """Whether all that slots got of late was quick: a free one may get jobs to begin with, and others ahead."""
        return self._quick >= STREAK

    @property
    def only_brief(self) -> bool:
        """Whether all of it should take next to nothing, and no job took long.

        Then more than one filling may wait in a slot. Else one that takes long comes between them, and those behind it
        have to go back.
        """
        return self._brief >= BRIEF_JOBS

    def completed(self, claim: Claim, seconds: float) -> None:
        """A job took that long to its end."""
        self._brief = self._brief + 1 if seconds <= QUICK_SECONDS else 0
        self._times.learn(_queue(claim), seconds)

    def expected(self, bundle: Sequence[Claim]) -> float:
        """Seconds that these jobs should take one after the other."""
        jobs = Counter((claim.lane, claim.tenant_id, claim.kind) for claim in bundle)
        return sum(count * self._times.mean(Queue(*queue)) for queue, count in jobs.items())

    def filled(self, expected: float) -> None:
        """A slot gets a filling that should take so many seconds."""
        self._quick = self._quick + 1 if expected <= QUICK_SECONDS else 0
        if expected > BRIEF_SECONDS:
            self._brief = 0


def room_behind(at_work: float, waiting: Sequence[float], *, fillings: int = 1, most: int = MOST_WAITING) -> int:
    """How many fillings more may wait in a slot, if they are like the last one that it got.

    Args:
        at_work: seconds expected of the fillings that its worker is at.
        fillings: how many these are.
        waiting: seconds expected of each that waits already.
        most: that may wait at all.
    """
    held, last = at_work + sum(waiting), waiting[-1] if waiting else at_work / fillings
    if at_work > QUICK_SECONDS:
        return 0
    fit = [more for more in range(1, most - len(waiting) + 1) if held + more * last <= QUICK_SECONDS]
    return max(fit, default=0 if waiting else 1)


def _queue(claim: Claim) -> Queue:
    return Queue(claim.lane, claim.tenant_id, claim.kind)
