"""Claiming ahead: what a slot gets while it is still at quick jobs, so that its worker need not wait for the node.

A round trip of settle and claim takes about a millisecond, and a worker whose jobs take less than that waits for it
longer than it works. What takes longer gains nothing by it, and would wait behind its slot's jobs while another one is
free: nothing is claimed ahead then.
"""

from __future__ import annotations

from collections.abc import Sequence

from batchproc.core.job import Claim
from batchproc.core.prices import WorkTimes
from batchproc.core.queues import Queue

QUICK_SECONDS = 0.1
"""Expected of all jobs of a slot together; with a round trip of 1 ms there is 1 % to be gained above it."""

STREAK = 10
"""After so many fillings of slots in a row that were all quick, the next one is taken to be quick, too."""


class Ahead:
    """Knows by the jobs that were completed which slots are at quick jobs."""

    def __init__(self) -> None:
        self._times = WorkTimes()
        self._streak = 0

    @property
    def only_quick(self) -> bool:
        """Whether all that slots got of late was quick: a free one may get jobs to begin with, and others ahead."""
        return self._streak >= STREAK

    def completed(self, claim: Claim, seconds: float) -> None:
        """A job took that long to its end."""
        self._times.learn(_queue(claim), seconds)

    def is_quick(self, bundle: Sequence[Claim]) -> bool:
        """Whether something may be claimed ahead while these jobs, which a slot gets now, run one after the other."""
        expected = 0.0
        for claim in bundle:
            expected += self._times.guess(_queue(claim))
            if expected > QUICK_SECONDS:
                self._streak = 0
                return False
        self._streak += 1
        return True


def _queue(claim: Claim) -> Queue:
    return Queue(claim.lane, claim.tenant_id, claim.kind)
