"""Choosing jobs by what they are, for a change of many: counted first, then given out in slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, dict_row

from batchproc.core.job import JobState
from batchproc.database import SqlFolder

_SLICE = 500


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What a job has to be, all of it; None leaves a point open.

    ``older_than`` and ``newer_than`` are the age of a job: since its end, or where it has none yet, since it was
    enqueued. ``ended_since`` and ``ended_until`` are times of its end alone. Jobs that were superseded are left out
    unless ``failure_codes`` names that code.
    """

    states: tuple[JobState, ...]
    tenant_id: int | None = None
    kinds: tuple[str, ...] | None = None
    failure_codes: tuple[str, ...] | None = None
    campaign_id: int | None = None
    document_id: int | None = None
    older_than: timedelta | None = None
    newer_than: timedelta | None = None
    ended_since: datetime | None = None
    ended_until: datetime | None = None


class ChosenJobs:
    """The jobs that fit a filter at the moment of the call, and none that is enqueued later.

    Ages count from then, by the database's clock, so that what is counted is what is changed, save for what has
    meanwhile become something else by itself.
    """

    def __init__(self, schema: str, connection: Connection[TupleRow], chosen: JobFilter) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)
        self._connection = connection
        now, last_id = self._begin()
        self._values: dict[str, Any] = {
            "until": last_id,
            "states": [str(state) for state in chosen.states],
            "tenant_id": chosen.tenant_id,
            "kinds": _listed(chosen.kinds),
            "failure_codes": _listed(chosen.failure_codes),
            "campaign_id": chosen.campaign_id,
            "document_id": chosen.document_id,
            "before": None if chosen.older_than is None else now - chosen.older_than,
            "since": None if chosen.newer_than is None else now - chosen.newer_than,
            "ended_since": chosen.ended_since,
            "ended_until": chosen.ended_until,
        }

    def now(self) -> datetime:
        """By the database's clock."""
        return self._begin()[0]

    def groups(self) -> list[dict[str, Any]]:
        """``{tenant, kind, state, failure_code, jobs}``, the largest first."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            # Never prepared, here and below: the best plan depends on which points are open.
            return cursor.execute(self._sql["count_chosen"], self._values | {"after": 0}, prepare=False).fetchall()

    def slices(self) -> Iterator[list[int]]:
        """The ids in ascending order, some hundreds at a time; each slice is read when it is asked for."""
        after = 0
        while job_ids := self._slice(after):
            yield job_ids
            after = job_ids[-1]

    def _begin(self) -> tuple[datetime, int]:
        row = self._connection.execute(self._sql["choice_begins"]).fetchone()
        assert row is not None
        return row[0], row[1]

    def _slice(self, after: int) -> list[int]:
        values = self._values | {"after": after, "limit": _SLICE}
        rows = self._connection.execute(self._sql["chosen_jobs"], values, prepare=False).fetchall()
        return [row[0] for row in rows]


def _listed(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)
