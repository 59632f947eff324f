"""How much a node may claim at the moment: slots, those of them for bulk jobs, and jobs."""

from __future__ import annotations

from batchproc.core.ahead import MOST_WAITING, Ahead
from batchproc.core.job import Lane
from batchproc.engine.alone import Alone
from batchproc.engine.dispatch_options import DispatchOptions
from batchproc.engine.pool.worker_pool import WorkerPool
from batchproc.engine.ready import ReadyQueues
from batchproc.engine.settling import Settling


class Allowance:
    """For the dispatcher's thread.

    Attributes:
        reserved: so many slots are for interactive jobs alone.
    """

    def __init__(
        self,
        options: DispatchOptions,
        pool: WorkerPool,
        settling: Settling,
        ready: ReadyQueues,
        alone: Alone,
        ahead: Ahead,
    ) -> None:
        self.reserved = options.reserved
        self._workers = options.workers
        self._max_jobs = options.max_jobs
        self._pool = pool
        self._settling = settling
        self._ready = ready
        self._alone = alone
        self._ahead = ahead

    @property
    def slots(self) -> int:
        """How many fillings of slots may be claimed: for those that are free, and for those still at others."""
        free = self._pool.free()
        if not self.may_claim_ahead:
            return free
        most = MOST_WAITING if self._ahead.only_brief else 1
        return free + self._pool.room_ahead(most) + (self._pool.free() if self._ahead.only_quick else 0)

    @property
    def may_claim_ahead(self) -> bool:
        """Not where what waits could take the place of what could begin elsewhere: under a limit, in reserved slots."""
        return not (self.reserved or self._alone.is_near or self._ready.may_be_limited)

    @property
    def bulk_slots(self) -> int | None:
        """How many of the free slots bulk jobs may take; None for all."""
        if not self.reserved:
            return None
        held = self._settling.held()
        # A bundle holds jobs of one lane; one whose claim is gone was settled a moment ago, and counts for one more.
        lanes = [held[bundle[0]].lane if bundle[0] in held else Lane.BULK for bundle in self._pool.bundles()]
        return max(0, self._workers - self.reserved - lanes.count(Lane.BULK))

    @property
    def jobs(self) -> int | None:
        """How many jobs may be claimed now; None if that does not matter."""
        left = None if self._max_jobs is None else max(0, self._max_jobs - self._jobs_done())
        if self._alone.is_near:
            return 1 if left is None else min(1, left)
        return left

    @property
    def is_used_up(self) -> bool:
        """Whether as many jobs were done as the run may do."""
        return self._max_jobs is not None and self._jobs_done() >= self._max_jobs

    def _jobs_done(self) -> int:
        """What counts of ``max_jobs``: of several jobs not those that went back because another one's worker died."""
        counts = self._settling.counts
        return counts.claimed if self._max_jobs == 1 else counts.claimed - counts.interrupted
