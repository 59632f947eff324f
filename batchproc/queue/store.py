"""Enqueueing, tenants and kinds: what callers outside the engine do with the job tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import UsageError
from batchproc.core.fairness import Queue
from batchproc.core.job import KindSpec, NewJob
from batchproc.core.languages import Able
from batchproc.database import SqlFolder
from batchproc.queue import hints
from batchproc.queue.campaigns import Campaigns, Released
from batchproc.queue.cancelling import Cancelling
from batchproc.queue.copying import Copying
from batchproc.queue.new_jobs import (
    UNSTORABLE,
    UnknownOwner,
    is_unique_while_running,
    languages,
    max_attempts,
    may_need_languages,
    reason,
    unknown_owner,
    unstorable,
)
from batchproc.queue.trace_context import current_traceparent
from batchproc.queue.unserved import able_nodes

__all__ = ["Enqueued", "JobStore", "Tenant", "UnknownOwner"]


@dataclass(frozen=True, slots=True)
class Enqueued:
    """``duplicate``: a job with that unique key already waits, and ``job_id`` is its id."""

    job_id: int
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Tenant:
    """One row of ``tenants``."""

    tenant_id: int
    slug: str
    weight: float
    max_running: int | None
    paused: bool
    settings: dict[str, Any]


class JobStore:
    """Writes jobs and tenants in the transaction of the caller's connection."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._sql = SqlFolder("batchproc.queue", schema)
        self._channel = hints.channel(schema)
        self._cancelling = Cancelling(schema)
        self._campaigns = Campaigns(schema)
        self._copying = Copying(schema)

    def enqueue(self, connection: Connection[TupleRow], job: NewJob, spec: KindSpec | None = None) -> Enqueued:
        """Adds one job in the caller's transaction.

        Args:
            spec: the kind's settings, for ``max_attempts``, ``unique_while_running`` and ``needs_languages``.

        Raises:
            UsageError: the tenant does not exist, the document is not that tenant's, or something of the job cannot
                be stored.
        """
        values = self._hinted_values(job, spec)
        while True:
            try:
                row = connection.execute(self._sql["enqueue"], values).fetchone()
            except psycopg.errors.ForeignKeyViolation:
                raise unknown_owner(job) from None
            except UNSTORABLE as error:
                raise unstorable(job, error) from None
            if row is not None:
                return Enqueued(row[0], duplicate=False)
            known = connection.execute(self._sql["find_unique"], values).fetchone()
            if known is not None:
                return Enqueued(known[0], duplicate=True)
            # The job that stood in the way was claimed in between; the next try finds the key free.

    def enqueue_new(
        self, connection: Connection[TupleRow], jobs: Sequence[NewJob], spec: KindSpec | None = None
    ) -> int:
        """Adds those of one kind's jobs whose unique key does not wait already, and returns how many, pipelined.

        Raises:
            UsageError: as ``enqueue``; the caller's transaction is lost then.
        """
        return sum(job_id is not None for job_id in self._enqueue_all(connection, jobs, spec))

    def enqueue_each(
        self, connection: Connection[TupleRow], jobs: Sequence[NewJob], spec: KindSpec | None = None
    ) -> list[Enqueued]:
        """As ``enqueue``, of one kind's jobs, pipelined; in order.

        Raises:
            UsageError: as ``enqueue``; the caller's transaction is lost then.
        """
        added = self._enqueue_all(connection, jobs, spec)
        return [
            Enqueued(job_id, duplicate=False) if job_id is not None else self.enqueue(connection, job, spec)
            for job, job_id in zip(jobs, added, strict=True)
        ]

    def _enqueue_all(
        self, connection: Connection[TupleRow], jobs: Sequence[NewJob], spec: KindSpec | None
    ) -> list[int | None]:
        """The ids of the jobs that were added; None of one whose unique key waits already."""
        added: list[int | None] = []
        try:
            with connection.cursor() as cursor:
                cursor.executemany(
                    self._sql["enqueue"], [self._hinted_values(job, spec) for job in jobs], returning=True
                )
                while len(added) < len(jobs):
                    row = cursor.fetchone()
                    added.append(None if row is None else row[0])
                    cursor.nextset()
        except psycopg.errors.ForeignKeyViolation:
            raise UsageError("a tenant or a document was deleted meanwhile", "enqueue the others again") from None
        except UNSTORABLE as error:
            raise UsageError(f"one of the jobs cannot be stored ({reason(error)})", "nothing was enqueued") from None
        return added

    def enqueue_many(
        self, connection: Connection[TupleRow], jobs: Iterable[NewJob], specs: Mapping[str, KindSpec] | None = None
    ) -> int:
        """Streams jobs through COPY in the caller's transaction and returns how many.

        Jobs with a ``unique_key`` that already waits fail the whole COPY: enqueue those one by one. ``jobs`` is
        read while the COPY runs and must not use ``connection`` itself.

        Raises:
            UsageError: a tenant does not exist, a document is another tenant's, a unique key is taken, or something
                of a job cannot be stored.
        """
        return self._copying.enqueue(connection, jobs, specs or {})

    def tenant(self, connection: Connection[TupleRow], slug: str) -> Tenant:
        """The tenant called ``slug``; raises UsageError when there is none."""
        row = connection.execute(self._sql["tenant_by_slug"], [slug]).fetchone()
        if row is None:
            raise UsageError(f"there is no tenant {slug!r}", f"add it with: batchproc tenants add {slug}")
        return Tenant(*row)

    def tenants(self, connection: Connection[TupleRow], *, after: int = 0, limit: int = 100) -> list[Tenant]:
        """Tenants by id, after the id ``after``."""
        rows = connection.execute(self._sql["list_tenants"], [after, limit]).fetchall()
        return [Tenant(*row) for row in rows]

    def add_tenant(self, connection: Connection[TupleRow], slug: str) -> Tenant:
        """Adds a tenant; raises UsageError when the slug is taken or not of the form ``[a-z0-9][a-z0-9_-]*``."""
        try:
            row = connection.execute(self._sql["add_tenant"], [slug]).fetchone()
        except psycopg.errors.CheckViolation:
            raise UsageError(
                f"{slug!r} cannot be a tenant's slug",
                "use at most 63 lower-case letters, digits, - and _, beginning with a letter or digit",
            ) from None
        if row is None:
            raise UsageError(f"tenant {slug!r} already exists", "change it with: batchproc tenants set")
        return Tenant(*row)

    def set_tenant(
        self,
        connection: Connection[TupleRow],
        slug: str,
        *,
        weight: float | None = None,
        max_running: int | None = None,
        unlimited: bool = False,
        paused: bool | None = None,
        settings: dict[str, Any] | None = None,
    ) -> Tenant:
        """Changes what is not None; ``settings`` are merged into what is stored, None values taken out."""
        row = connection.execute(
            self._sql["set_tenant"],
            {
                "slug": slug,
                "weight": weight,
                "max_running": max_running,
                "unlimited": unlimited,
                "paused": paused,
                "settings": json.dumps(settings or {}),
            },
        ).fetchone()
        if row is None:
            raise UsageError(f"there is no tenant {slug!r}", f"add it with: batchproc tenants add {slug}")
        connection.execute(self._sql["notify"], [self._channel, hints.REFRESH])
        return Tenant(*row)

    def known_kinds(self, connection: Connection[TupleRow]) -> set[str]:
        """The kinds that any live node can run."""
        return {row[0] for row in connection.execute(self._sql["known_kinds"]).fetchall()}

    def able_nodes(self, connection: Connection[TupleRow]) -> list[Able]:
        """What the nodes that live can do."""
        return able_nodes(connection, self._sql)

    def cancel(self, connection: Connection[TupleRow], job_ids: Iterable[int]) -> list[tuple[int, str]]:
        """Cancels jobs: those that wait at once, those that run as soon as their nodes have seen the request.

        Commits in small batches; never waits for a running job's row. A job that completes, or is given up on, before
        its node has stopped it stays completed or discarded. A cancelled job has no failure code, not even that of an
        attempt before: ``superseded`` alone tells that nobody asked for it.

        Args:
            connection: in autocommit mode, outside transactions.

        Returns:
            Per id (job_id, what happened), in the order of the ids: ``cancelled``; ``requested`` of one that runs;
            ``ended`` of one that was over; ``unknown``; ``unwritten`` of one whose row somebody held all the while, or
            that the database refused to change: ask again.
        """
        return self._cancelling.cancel(connection, job_ids)

    def hold(self, connection: Connection[TupleRow], campaign_id: int) -> int:
        """Pauses a campaign and returns how many jobs are held now that waited.

        Its running jobs go on; those that wait again afterwards, and whatever is enqueued into it, are held too.
        Commits in small batches; rows that somebody holds follow when a node next looks.

        Args:
            connection: in autocommit mode, outside transactions.

        Raises:
            UsageError: there is no such campaign.
        """
        return self._campaigns.hold(connection, campaign_id)

    def release(self, connection: Connection[TupleRow], campaign_id: int) -> Released:
        """Ends the pause of a campaign: what was held waits again, for its time if that is still to come.

        Of held jobs with one unique key the newest goes on; it and the others are cancelled as ``superseded`` where a
        job of that key waits already. Commits in small batches, as ``hold``.

        Args:
            connection: in autocommit mode, outside transactions.

        Raises:
            UsageError: there is no such campaign.
        """
        return self._campaigns.release(connection, campaign_id)

    def _hinted_values(self, job: NewJob, spec: KindSpec | None) -> dict[str, Any]:
        return self._values(job, spec) | {
            "channel": self._channel,
            "hint": hints.hint(Queue(job.lane, job.tenant_id, job.kind), job.priority),
            "hinting": job.document_id if may_need_languages(spec) else None,
        }

    def _values(self, job: NewJob, spec: KindSpec | None) -> dict[str, Any]:
        return {
            "tenant_id": job.tenant_id,
            "document_id": job.document_id,
            "kind": job.kind,
            "lane": int(job.lane),
            "priority": job.priority,
            "run_at": job.run_at,
            "args": json.dumps(job.args),
            "unique_key": job.unique_key,
            "unique_while_running": is_unique_while_running(spec),
            "max_attempts": max_attempts(job, spec),
            "campaign_id": job.campaign_id,
            "run_id": job.run_id,
            "traceparent": current_traceparent(),
            "languages": languages(job),
        }
