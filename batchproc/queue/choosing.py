"""Choosing jobs by what they are, for a change of many: counted first, then given out in slices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from psycopg import Connection
from psycopg.rows import BaseRowFactory, TupleRow, dict_row, tuple_row

from batchproc.core.job import JobState
from batchproc.database import SqlFolder
from batchproc.queue.campaign_parts import parts_of
from batchproc.queue.snapshot import one_moment

Row = TypeVar("Row")

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
        self._parts = parts_of(chosen.campaign_id, chosen.states)
        self._values: dict[str, Any] = {
            "until": last_id,
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
        rows = self._read("count_chosen", {"after": 0}, dict_row)
        return sorted(rows, key=lambda row: (-row["jobs"], row["tenant"], row["kind"]))

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
        rows = self._read("chosen_jobs", {"after": after, "limit": _SLICE}, tuple_row)
        return sorted(row[0] for row in rows)[:_SLICE]

    def _read(self, name: str, more: dict[str, Any], row_factory: BaseRowFactory[Row]) -> list[Row]:
        """The rows of each part of the states, one part after the other, as of one moment."""
        rows: list[Row] = []
        together = one_moment(self._connection) if len(self._parts) > 1 else contextlib.nullcontext()
        with together, self._connection.cursor(row_factory=row_factory) as cursor:
            for part in self._parts:
                values = self._values | more | {"states": part}
                # Never prepared: the best plan depends on which points are open.
                rows += cursor.execute(self._sql[name], values, prepare=False).fetchall()
        return rows


def _listed(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)
