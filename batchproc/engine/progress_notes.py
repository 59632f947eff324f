"""How far the running jobs are, written to the database now and then for those who look."""

from __future__ import annotations

import time

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import BatchprocError
from batchproc.engine.pool.worker_pool import WorkerPool
from batchproc.queue.node_store import NodeStore

_INTERVAL = 2.0


class ProgressNotes:
    """Writes what the pool's progress records say; nothing depends on it, so a failure costs one note."""

    def __init__(self, store: NodeStore, pool: WorkerPool) -> None:
        self._store = store
        self._pool = pool
        self._next = time.monotonic() + _INTERVAL

    def write_if_due(self, connection: Connection[TupleRow]) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        rows = [
            (running.work.job_id, running.work.claim_id, running.progress.done, running.progress.total)
            for running in self._pool.running()
            if running.progress.total
        ]
        try:
            self._store.write_progress(connection, rows)
        except (psycopg.Error, BatchprocError) as error:
            logger.debug("progress was not written: {}", type(error).__name__)
