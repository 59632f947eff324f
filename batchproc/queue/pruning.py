"""Deleting jobs that ended long ago, with their attempts, and what is remembered of runs and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import JobState
from batchproc.core.limits import LONGEST_DELAY
from batchproc.database import SqlFolder
from batchproc.queue.apart import require_own_transactions, write_apart

FINISHED = (JobState.COMPLETED, JobState.DISCARDED, JobState.CANCELLED)
"""The states of jobs that can be pruned."""

# Small: each job takes its attempts with it, and whoever waits for one of the rows waits for the batch.
_BATCH = 500
# So many finished jobs are looked at by one statement, wanted or not: none reads for long, and holds old rows back.
_STRETCH = 5000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which finished jobs go: those of any state, kind and tenant where nothing is said of it."""

    states: tuple[JobState, ...] = ()
    kinds: tuple[str, ...] = ()
    tenant_id: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether every finished job is wanted."""
        return self == Wanted()

    def values(self) -> dict[str, Any]:
        """The parameters of the statements."""
        return {
            "states": [state.value for state in self.states or FINISHED],
            "kinds": list(self.kinds),
            "tenant_id": self.tenant_id,
        }


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went, or would go: jobs by the state they ended in, runs and nodes.

    ``left`` counts jobs that somebody held at that moment, or that the database refused to delete: they are for the
    next prune.
    """

    jobs: Counter[JobState] = field(default_factory=Counter)
    left: int = 0
    runs: int = 0
    nodes: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(self.jobs + other.jobs, self.left + other.left, self.runs + other.runs, self.nodes + other.nodes)


class _Found(NamedTuple):
    """A finished job; one that is not wanted only tells how far the look has come."""

    job_id: int
    finished_at: datetime
    state: JobState
    wanted: bool


class Pruning:
    """Prunes in small batches, each committed by itself: what was deleted stays deleted, whatever ends it."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def batches(
        self,
        connection: Connection[TupleRow],
        older_than: timedelta,
        wanted: Wanted = Wanted(),
        *,
        dry: bool = False,
    ) -> Iterator[Pruned]:
        """Deletes what ended longer ago than that, by the database's clock, oldest first, and tells of each batch.

        Whoever iterates may rest between batches, or stop: nothing is held meanwhile. The time is that of the first
        look, so that it ends. A batch may be empty. Attempts go with their jobs; usage, documents and their pages stay;
        so do the nodes and runs unless all jobs are wanted, which then come last, and always the last run that ended
        well and the newest, of each scope. What was cancelled of a campaign waits for the other jobs of its document.

        Args:
            connection: in autocommit mode, outside transactions.
            dry: only counts; a batch is then as many as one statement looks at.
        """
        require_own_transactions(connection, "a prune")
        until = self._until(connection, older_than)
        position = {"after_time": datetime(1, 1, 1, tzinfo=UTC), "after_id": 0}
        while stretch := self._look(connection, until, wanted, position):
            position = {"after_time": stretch[-1].finished_at, "after_id": stretch[-1].job_id}
            found = [job for job in stretch if job.wanted]
            if dry:
                yield Pruned(Counter(job.state for job in found))
                continue
            for start in range(0, max(1, len(found)), _BATCH):
                yield self._delete(connection, found[start : start + _BATCH], until)
        if wanted.is_all:
            yield from self._forget(connection, until, dry)

    def _until(self, connection: Connection[TupleRow], older_than: timedelta) -> datetime:
        if older_than < timedelta():
            raise ValueError("a job cannot have ended in the future")
        seconds = min(older_than.total_seconds(), LONGEST_DELAY)
        row = connection.execute(self._sql["prune_until"], {"seconds": seconds}).fetchone()
        assert row is not None
        until: datetime = row[0]
        return until

    def _look(
        self, connection: Connection[TupleRow], until: datetime, wanted: Wanted, position: dict[str, Any]
    ) -> list[_Found]:
        values = wanted.values() | position | {"until": until, "limit": _STRETCH}
        rows = connection.execute(self._sql["prunable"], values).fetchall()
        return [
            _Found(job_id, finished_at, JobState(state), is_wanted) for job_id, finished_at, state, is_wanted in rows
        ]

    def _delete(self, connection: Connection[TupleRow], found: list[_Found], until: datetime) -> Pruned:
        def write(job_ids: list[int]) -> list[TupleRow]:
            values = {"job_ids": job_ids, "until": until}
            with connection.transaction():
                # A statement of its own: the next sees which jobs of these campaigns another prune has deleted.
                connection.execute(self._sql["lock_campaigns"], values)
                return connection.execute(self._sql["prune_jobs"], values).fetchall()

        deleted, _ = write_apart(connection, sorted(job.job_id for job in found), write)
        return Pruned(Counter(JobState(state) for _, state in deleted), len(found) - len(deleted))

    def _forget(self, connection: Connection[TupleRow], until: datetime, dry: bool) -> Iterator[Pruned]:
        # What ends from here on is younger than the time, and can only be kept in place of one of these.
        values = {"until": until, "kept": [row[0] for row in connection.execute(self._sql["kept_runs"]).fetchall()]}
        if dry:
            row = connection.execute(self._sql["count_old_runs"], values).fetchone()
            yield Pruned(runs=row[0] if row else 0)
            return
        while runs := connection.execute(self._sql["prune_runs"], values | {"limit": _BATCH}).rowcount:
            yield Pruned(runs=runs)
        yield Pruned(nodes=connection.execute(self._sql["forget_nodes"]).rowcount)
