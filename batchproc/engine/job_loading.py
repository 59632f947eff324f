"""What a worker must know of a job before it can begin, loaded by its id; with a bundle's first job the others, too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from uuid import UUID

import psycopg
from psycopg.rows import TupleRow

from batchproc.database import SqlFolder, Unreachable, is_lost
from batchproc.engine.worker_progress import WorkerProgress
from batchproc.engine.worker_session import CONNECT_SECONDS, WorkerSession
from batchproc.handlers.errors import StorageUnavailable

_PATIENCE = 15.0
_PATIENT_PART = 0.5
"""Of the job's smaller limit: its handler is to have as much left of it."""

_PAUSE = 0.1

_BELIEVED_SECONDS = 5.0
"""For so long after it was loaded with its bundle a job is taken to be held: well below any lease that is of use, and
within that the node kills this worker before it loses a claim."""


class JobLoader:
    """Loads jobs, and keeps those that come next."""

    def __init__(self, session: WorkerSession, progress: WorkerProgress, schema: str) -> None:
        self._session = session
        self._progress = progress
        self._sql = SqlFolder("batchproc.queue", schema)
        self._loaded: dict[tuple[int, UUID], TupleRow] = {}
        self._loaded_at = 0.0

    def row(
        self, job_id: int, claim_id: UUID, shortest_limit: float, coming: Sequence[tuple[int, UUID]]
    ) -> TupleRow | None:
        """The job, when it is still held by that claim: loaded with the first of its bundle, or a moment ago.

        What was loaded is believed for a moment only. A claim may be lost meanwhile all the same, as it may be while
        its handler runs: whatever that writes is fenced.

        Args:
            shortest_limit: seconds; the smaller one of the job's limits.
            coming: job and claim ids of what this worker is to run next.

        Raises:
            StorageUnavailable: as ``_load``.
        """
        row = self._loaded.pop((job_id, claim_id), None)
        if row is not None and time.monotonic() < self._loaded_at + _BELIEVED_SECONDS:
            return row
        patience = min(_PATIENCE, _PATIENT_PART * shortest_limit)
        try:
            # Should a limit pass meanwhile, the node ends this worker, and charges the job with nothing.
            self._progress.loading(True)
            self._loaded = self._load([(job_id, claim_id), *coming], patience)
            self._loaded_at = time.monotonic()
        finally:
            self._progress.loading(False)
        return self._loaded.pop((job_id, claim_id), None)

    def _load(self, wanted: Sequence[tuple[int, UUID]], patience: float) -> dict[tuple[int, UUID], TupleRow]:
        """Of these jobs those that are still held by their claims. A database that is away for a moment is waited for.

        Raises:
            StorageUnavailable: it is away for longer; the job has not begun, and its attempt does not count.
        """
        statement = self._sql["jobs_for_worker" if len(wanted) > 1 else "job_for_worker"]
        values = [list(ids) for ids in zip(*wanted, strict=True)] if len(wanted) > 1 else wanted[0]
        give_up = time.monotonic() + patience
        while True:
            try:
                connection = self._session.connect(within=max(1, min(CONNECT_SECONDS, int(patience))))
                connection.patience = patience
                rows = connection.execute(statement, values).fetchall()
                connection.patience = None  # a handler's statements have the time that its job has
                claims = dict(wanted)
                return {(row[0], claims[row[0]]): row[1:] for row in rows}
            except (psycopg.Error, Unreachable) as error:
                # The connection may have died while the worker was idle; a fresh one decides.
                self._session.close()
                if not is_lost(error):
                    raise
                if time.monotonic() > give_up or self._progress.stopping():
                    raise StorageUnavailable("the worker could not reach the database") from error
            self._progress.beat()
            time.sleep(_PAUSE)
