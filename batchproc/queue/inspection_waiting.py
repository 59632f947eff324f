"""What may keep one job from running, as facts; ``ops.why`` makes reasons of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, class_row, dict_row

from batchproc.core.errors import UsageError
from batchproc.core.languages import Able
from batchproc.database import SqlFolder
from batchproc.queue.nights import PAST_DAYS

MOST_AHEAD = 10_000
"""Further ahead nobody counts: that would read every job that waits."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One job and all that belongs to it. Columns as in the tables; limits and rates are those that hold."""

    job_id: int
    tenant_id: int
    tenant: str
    kind: str
    lane: int
    priority: int
    state: str
    run_at: datetime
    attempt: int
    max_attempts: int
    node_losses: int
    document_id: int | None
    failure_code: str | None
    finished_at: datetime | None
    campaign_id: int | None
    unique_key: str | None
    languages: list[str] | None
    now: datetime
    tenant_paused: bool
    tenant_limit: int | None
    tenant_languages: list[str]
    tenant_running: int
    kind_known: bool
    kind_paused: bool
    kind_paused_code: str | None
    kind_paused_reason: str | None
    kind_paused_at: datetime | None
    kind_limit: int | None
    kind_running: int
    kind_rate: float | None
    campaign_paused: bool | None
    campaign_command: str | None
    cancel_requested_at: datetime | None
    done: int | None
    total: int | None
    claimed_at: datetime | None
    node_host: str | None
    node_pid: int | None
    node_lease_until: datetime | None
    node_alive: bool
    slot: int | None
    worker_pid: int | None
    last_detail: str | None
    last_outcome: str | None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node that lives.

    ``scope``: which jobs its run serves, empty lists mean all; None is unknown. ``is_single``: that runs one job alone,
    and takes no other.
    """

    node_id: Any
    host: str
    pid: int
    slots: int
    kinds: list[str]
    languages: list[str]
    default_languages: list[str]
    jobs_per_minute: float | None
    scope: dict[str, Any] | None
    running: int
    is_single: bool = False

    @property
    def able(self) -> Able:
        return Able(frozenset(self.kinds), frozenset(self.languages), tuple(self.default_languages))

    def serves(self, job: JobFacts) -> bool:
        """Whether the job is one of those that its run is for."""
        scope = self.scope or {}
        wanted = (("tenant_ids", job.tenant_id), ("kinds", job.kind), ("lanes", job.lane))
        return not self.is_single and all(not scope.get(name) or value in scope[name] for name, value in wanted)


@dataclass(frozen=True, slots=True)
class Ahead:
    """What will be claimed before a job: ``own`` of its queue, ``of_others`` of so many ``tenants`` in its lane, and
    ``interactive`` jobs if its lane is bulk. Of each tenant, and of that lane, ``MOST_AHEAD`` are counted."""

    own: int
    tenants: int
    of_others: int
    interactive: int

    @property
    def jobs(self) -> int:
        return self.own + self.of_others + self.interactive


@dataclass(frozen=True, slots=True)
class Waiting:
    """All facts. ``ahead`` and ``locked`` only of a job that is due; ``token_seconds``: until its kind has a token.

    ``seconds``: of a worker, that an attempt at such a job takes; None when none was made in ``PAST_DAYS``.
    """

    job: JobFacts
    nodes: tuple[NodeFacts, ...]
    ahead: Ahead | None
    locked: bool
    token_seconds: float | None
    seconds: float | None


def look_at_job(connection: Connection[TupleRow], schema: str, job_id: int) -> JobFacts:
    """One job alone.

    Raises:
        UsageError: there is no such job.
    """
    with connection.cursor(row_factory=class_row(JobFacts)) as cursor:
        job = cursor.execute(SqlFolder("batchproc.queue", schema)["why_job"], {"job_id": job_id}).fetchone()
    if job is None:
        raise UsageError(f"there is no job {job_id}", "see: batchproc jobs list")
    return job


def look_at_waiting(connection: Connection[TupleRow], schema: str, job_id: int) -> Waiting:
    """The facts of one job.

    Raises:
        UsageError: there is no such job.
    """
    sql = SqlFolder("batchproc.queue", schema)
    job = look_at_job(connection, schema, job_id)
    with connection.cursor(row_factory=class_row(NodeFacts)) as nodes:
        found = tuple(nodes.execute(sql["why_nodes"]).fetchall())
    is_due = job.state == "available"
    return Waiting(
        job,
        found,
        _ahead(connection, sql, job) if is_due else None,
        is_due and _is_locked(connection, sql, job_id),
        _token_seconds(connection, sql, job) if job.kind_rate is not None else None,
        _seconds(connection, sql, job.kind),
    )


def _ahead(connection: Connection[TupleRow], sql: SqlFolder, job: JobFacts) -> Ahead:
    values = {
        "job_id": job.job_id,
        "lane": job.lane,
        "tenant_id": job.tenant_id,
        "kind": job.kind,
        "priority": job.priority,
        "most": MOST_AHEAD,
    }
    with connection.cursor(row_factory=class_row(Ahead)) as cursor:
        ahead = cursor.execute(sql["why_ahead"], values).fetchone()
    assert ahead is not None
    return ahead


def _is_locked(connection: Connection[TupleRow], sql: SqlFolder, job_id: int) -> bool:
    row = connection.execute(sql["locked_jobs"], {"job_ids": [job_id]}).fetchone()
    return bool(row and row[0])


def _token_seconds(connection: Connection[TupleRow], sql: SqlFolder, job: JobFacts) -> float | None:
    with connection.cursor(row_factory=dict_row) as cursor:
        rooms = cursor.execute(sql["rooms"]).fetchall()
    return next((room["seconds"] for room in rooms if room["kind"] == job.kind), None)


def _seconds(connection: Connection[TupleRow], sql: SqlFolder, kind: str) -> float | None:
    row = connection.execute(sql["why_seconds"], {"kind": kind, "days": PAST_DAYS}).fetchone()
    return None if row is None or row[0] is None else float(row[0])
