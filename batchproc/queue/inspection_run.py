"""What a run has before it, for the one who watches: how much waits and runs, what work that is, what comes later."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from batchproc.database import SqlFolder
from batchproc.queue.campaign_listing import LeftJobs

_ANYTHING: Final[Mapping[str, Any]] = {"language_kinds": [], "able": [], "has_defaults": True}
"""What `NodeStore.able` is of a node that no job asks too much of."""


class Due(NamedTuple):
    """Jobs that could begin at once, and those that run on nodes that live."""

    waiting: int
    running: int


class Retries(NamedTuple):
    """Jobs that are to be tried again later, and the seconds until the first of those that the run waits for; None when
    it waits for none."""

    jobs: int
    next_seconds: float | None


class NodeAtWork(NamedTuple):
    """A node that holds so many jobs: whether that is the run's own, until when its lease lasts, and for how many
    seconds more. None and 0 where it is gone."""

    node_id: UUID
    own: bool
    lease_until: datetime | None
    seconds: float
    jobs: int


class NextDue(NamedTuple):
    """A job that is due later: in so many seconds."""

    job_id: int
    kind: str
    tenant: str
    run_at: datetime
    seconds: float


@dataclass(frozen=True, slots=True)
class RunningJob:
    """One that runs: its pages as those of `LeftJobs`, what it told of its progress, and for how many seconds it runs.

    ``total`` is None when it told nothing yet.
    """

    tenant_id: int
    kind: str
    mode: str | None
    pages: int
    pages_unknown: int
    done: int | None
    total: int | None
    seconds: float


@dataclass(frozen=True)
class RunInspection:
    """Statements that only read, of the jobs of a scope; empty collections mean all.

    Attributes:
        able: what the node whose run is looked at has the languages for, as `NodeStore.able`; None: anything.
    """

    schema: str
    tenant_ids: Collection[int] = ()
    kinds: Collection[str] = ()
    lanes: Collection[int] = ()
    able: Mapping[str, Any] | None = None
    _sql: SqlFolder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sql", SqlFolder("batchproc.queue", self.schema))

    def due(self, connection: Connection[TupleRow]) -> Due:
        """It reads an entry of an index for each job that waits: 0.3 s where a million do."""
        row = connection.execute(self._sql["count_due"], self._scope()).fetchone()
        assert row is not None
        return Due(*row)

    def due_work(self, connection: Connection[TupleRow]) -> list[LeftJobs]:
        """What waits, as work. It reads each job and document: 1.5 s where a million jobs wait."""
        cursor = connection.cursor(row_factory=class_row(LeftJobs))
        return cursor.execute(self._sql["due_work"], self._scope()).fetchall()

    def running_work(self, connection: Connection[TupleRow]) -> list[RunningJob]:
        """What runs on nodes that live."""
        cursor = connection.cursor(row_factory=class_row(RunningJob))
        return cursor.execute(self._sql["running_work"], self._scope()).fetchall()

    def retries(self, connection: Connection[TupleRow], run_id: int, within: float) -> Retries:
        """Of jobs that failed in that run; it waits for those that are due ``within`` so many seconds and that its node
        has the languages for."""
        values = {"run_id": run_id, "drain_wait": within, **(self.able or _ANYTHING)}
        row = connection.execute(self._sql["retries_of_run"], values).fetchone()
        assert row is not None
        return Retries(*row)

    def at_work(self, connection: Connection[TupleRow], run_id: int) -> list[NodeAtWork]:
        """The nodes that hold jobs, of whatever scope."""
        rows = connection.execute(self._sql["nodes_at_work"], {"run_id": run_id}).fetchall()
        return [NodeAtWork(*row) for row in rows]

    def unserved(self, connection: Connection[TupleRow], language_kinds: Collection[str]) -> int:
        """How many of the jobs that wait no node has the languages of, of these kinds. Where there are none it looks at
        queues only, and else at each such job."""
        values = {"language_kinds": sorted(language_kinds), "skip": [], **self._scope()}
        rows = connection.execute(self._sql["language_gaps"], values).fetchall()
        if not rows:
            return 0
        gaps = {(kind, languages and tuple(languages), *queue) for kind, languages, *queue in rows}
        due = connection.execute(self._sql["due_languages"], values).fetchall()
        return sum(jobs for kind, named, *queue, jobs in due if (kind, named and tuple(named), *queue) in gaps)

    def next_due(self, connection: Connection[TupleRow]) -> NextDue | None:
        """The first of those that are due later and that nobody keeps back; None where there is none."""
        row = connection.execute(self._sql["next_due"], self._scope()).fetchone()
        return None if row is None else NextDue(*row)

    def _scope(self) -> dict[str, list[Any]]:
        return {"tenant_ids": list(self.tenant_ids), "kinds": list(self.kinds), "lanes": list(self.lanes)}
