"""Weighing a worker's tree: the nearer it may come to its limit before the next look, the sooner that is.

What grows without end is above its limit by what it takes within the last pause and a kill: tens of megabytes, and more
only as far as the node itself has to wait for a processor.
"""

from __future__ import annotations

import time
from typing import Final

from batchproc.core.outcome import ErrorClass, Failed
from batchproc.engine.pool.verdict import Verdict
from batchproc.engine.pool.worker_handle import WorkerHandle

MAX_PROCESSES: Final = 1000
"""A tree with more processes than this is a runaway and killed as a crash."""

LONGEST_PAUSE, SHORTEST_PAUSE = 0.5, 0.02
"""Seconds between two looks."""

FASTEST_GROWTH: Final = 4 << 30
"""Bytes per second: more than two threads reach that touch fresh memory as fast as they can, since the kernel clears
every page. A tree that was seen to grow faster is expected to go on like that."""

_COST_SHARE: Final = 0.1
"""Part of a processor that looking at one tree may take; a tree of very many processes is looked at less often."""


class Scales:
    """Weighs the workers of one slot, one after the other.

    Args:
        limit_mb: a tree above so many MiB of resident memory has to go; None is no limit.
    """

    def __init__(self, limit_mb: int | None) -> None:
        self._limit_mb = limit_mb
        self._limit = limit_mb << 20 if limit_mb is not None else 1 << 63
        self._worker: WorkerHandle | None = None
        self._weighed_at = self._next_at = 0.0
        self._resident = 0

    def weigh(self, worker: WorkerHandle, now: float) -> tuple[Verdict | None, float]:
        """The verdict on a tree that has too much memory or too many processes, and when to weigh it again.

        Before that time it is a cheap call that finds nothing. Times are those of ``time.monotonic``.
        """
        if worker is self._worker and now < self._next_at:
            return None, self._next_at
        busy = time.thread_time()
        count, resident = worker.weigh(self._limit)
        pause = self._pause(worker, count, resident, now)
        affordable = (time.thread_time() - busy) / _COST_SHARE
        self._worker, self._weighed_at, self._resident = worker, now, resident
        self._next_at = now + min(LONGEST_PAUSE, max(SHORTEST_PAUSE, pause, affordable))
        return self._verdict(count, resident), self._next_at

    def resident_bytes(self, worker: WorkerHandle | None) -> int:
        """What the tree of this worker held when it was weighed last; 0 when it never was."""
        return self._resident if worker is self._worker else 0

    def _verdict(self, count: int, resident: int) -> Verdict | None:
        if resident > self._limit:
            text = f"{resident >> 20} MiB resident, limit {self._limit_mb} MiB"
            return Verdict(f"has {text}", Failed(ErrorClass.OUT_OF_MEMORY, "out_of_memory", detail=text))
        if count > MAX_PROCESSES:
            text = f"more than {MAX_PROCESSES} processes"
            return Verdict(f"has {text}", Failed(ErrorClass.CRASHED, "poison", text))
        return None

    def _pause(self, worker: WorkerHandle, count: int, resident: int, now: float) -> float:
        growth = float(FASTEST_GROWTH)
        if worker is self._worker:
            growth = max(growth, (resident - self._resident) / max(now - self._weighed_at, SHORTEST_PAUSE))
        return 0.0 if 2 * count > MAX_PROCESSES else (self._limit - resident) / growth
