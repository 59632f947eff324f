"""What applications and handlers import: ``from batchproc import Queue, handler, Context, Failure, Snooze``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import KindSpec, Lane, NewJob
from batchproc.database import SCHEMA, connect
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure, Snooze, StorageUnavailable
from batchproc.handlers.registry import handler
from batchproc.ops.enqueueing import of_tenant, refuse_range, storable_args
from batchproc.queue.store import Enqueued, JobStore

__all__ = ["Context", "Enqueued", "Failure", "Lane", "NewJob", "Queue", "Snooze", "StorageUnavailable", "handler"]


class Queue:
    """Enqueues from an application, in the application's own transaction if it passes its connection.

    Args:
        dsn: a libpq URL or keyword string.
        schema: the schema of batchproc's tables.
        specs: settings of kinds by name, for ``max_attempts`` and ``unique_while_running``.
    """

    def __init__(self, dsn: str, *, schema: str = SCHEMA, specs: dict[str, KindSpec] | None = None) -> None:
        self._dsn = dsn
        self._store = JobStore(schema)
        self._specs = specs or {}

    def enqueue(
        self,
        kind: str,
        *,
        tenant: str,
        args: dict[str, Any] | None = None,
        document_id: int | None = None,
        lane: Lane = Lane.BULK,
        priority: int = 5,
        run_at: datetime | None = None,
        unique_key: str | None = None,
        connection: Connection[Any] | None = None,
    ) -> Enqueued:
        """Adds one job. With ``connection`` it joins that transaction, else it is committed at once.

        Args:
            args: a JSON object of ids and options, at most 64 kB; validated when the job runs.
            run_at: not before this time; must have a time zone.

        Raises:
            UsageError: no such tenant, the document is another tenant's, the args cannot be stored, or they name a page
                range.
            EnvironmentFault: the database cannot be reached.
        """
        if run_at is not None and run_at.tzinfo is None:
            raise ValueError("run_at has no time zone")
        stored = storable_args(args or {})
        refuse_range(kind, stored)
        job = NewJob(0, kind, stored, document_id, lane, priority, run_at, unique_key)
        if connection is not None:
            return self._enqueue(connection, tenant, job)
        with connect(self._dsn) as own, own.transaction():
            return self._enqueue(own, tenant, job)

    def enqueue_many(self, jobs: Iterable[NewJob], *, tenant: str, connection: Connection[Any] | None = None) -> int:
        """Streams jobs of one tenant through COPY, all or none, and returns how many.

        Args:
            jobs: their ``tenant_id`` is replaced by that of ``tenant``.

        Raises:
            UsageError: no such tenant, a foreign document, args that cannot be stored or that name a page range, or a
                unique key that already waits.
        """
        if connection is not None:
            return self._enqueue_many(connection, tenant, jobs)
        with connect(self._dsn) as own, own.transaction():
            return self._enqueue_many(own, tenant, jobs)

    def _enqueue(self, connection: Connection[TupleRow], tenant: str, job: NewJob) -> Enqueued:
        owner = self._store.tenant(connection, tenant)
        return self._store.enqueue(connection, replace(job, tenant_id=owner.tenant_id), self._specs.get(job.kind))

    def _enqueue_many(self, connection: Connection[TupleRow], tenant: str, jobs: Iterable[NewJob]) -> int:
        owner = self._store.tenant(connection, tenant)
        return self._store.enqueue_many(connection, of_tenant(jobs, owner.tenant_id), self._specs)
