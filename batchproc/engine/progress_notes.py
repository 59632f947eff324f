"""What the slots are at and how far their jobs are, written to the database now and then for those who look."""

from __future__ import annotations

import time

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import BatchprocError
from batchproc.core.throughput import Window, per
from batchproc.engine.counts import Counts
from batchproc.engine.pool import process_title
from batchproc.engine.pool.worker_pool import Running, WorkerPool
from batchproc.queue.node_store import NodeStore
from batchproc.queue.slot_store import SlotNote

_INTERVAL = 2.0


class ProgressNotes:
    """Writes what the pool's progress records say; nothing depends on it, so a failure costs one note.

    Args:
        counts: of the run, for its rate.
    """

    def __init__(self, store: NodeStore, pool: WorkerPool, counts: Counts, run_id: int) -> None:
        self._store = store
        self._pool = pool
        self._counts = counts
        self._slots = store.slots
        self._run_id = run_id
        now = time.monotonic()
        self._next = now + _INTERVAL
        self._lately: Window[int] = Window()
        self._lately.add(now, self._ended())

    def write_if_due(self, connection: Connection[TupleRow]) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        running = self._pool.running()
        process_title.refresh(f"batchproc node: {len(running)} busy, {self._ended()} ended")
        rows = [
            (at.work.job_id, at.work.claim_id, at.progress.done, at.progress.total)
            for at in running
            if at.progress.total
        ]
        rate = self._jobs_per_minute(now)
        try:
            with connection.pipeline():
                self._store.write_progress(connection, rows)
                self._slots.write(
                    connection,
                    self._store.node_id,
                    [_note(at, now) for at in running],
                    run_id=self._run_id,
                    ended=self._ended(),
                    jobs_per_minute=rate,
                )
        except (psycopg.Error, BatchprocError) as error:
            logger.debug("progress was not written: {}", type(error).__name__)

    def _ended(self) -> int:
        counts = self._counts
        return counts.completed + counts.retried + counts.snoozed + counts.discarded + counts.cancelled

    def _jobs_per_minute(self, now: float) -> float | None:
        """Of the last minute; None before a whole one was seen."""
        self._lately.add(now, self._ended())
        # Not below none: jobs that something else tells of are taken back (`Counts.forget_discarded`).
        return per(60, max(0, self._lately.last - self._lately.first), self._lately.seconds)


def _note(at: Running, now: float) -> SlotNote:
    # One that was sent a moment ago has not begun.
    begun = at.progress.begun_monotonic or now
    return SlotNote(at.slot, at.work.job_id, at.work.claim_id, at.worker_pid, max(0.0, now - begun), at.resident_bytes)
