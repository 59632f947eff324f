"""Reading the queue for people: listings, one job with its attempts, the queues and nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import timedelta
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, dict_row

from batchproc.core.errors import UsageError
from batchproc.core.job import JobState, Lane
from batchproc.database import SqlFolder
from batchproc.queue.campaign_parts import parts_of
from batchproc.queue.snapshot import one_moment


class Inspection:
    """Statements that only read; every row comes as a dict with the keys that the command line shows."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def jobs(
        self,
        connection: Connection[TupleRow],
        *,
        tenant: str | None = None,
        states: Sequence[str] = (),
        kind: str | None = None,
        document_id: int | None = None,
        failure_code: str | None = None,
        campaign_id: int | None = None,
        older_than: timedelta | None = None,
        newer_than: timedelta | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> list[dict[str, Any]]:
        """Jobs by id, after the id ``after``; their age counts from their end, or else from when they were enqueued.

        Args:
            states: those that are wanted; empty for all.
        """
        values = {
            "tenant": tenant,
            "kind": kind,
            "document_id": document_id,
            "failure_code": failure_code,
            "campaign_id": campaign_id,
            "older_than": older_than,
            "newer_than": newer_than,
            "after": after,
            "limit": limit,
        }
        parts = parts_of(campaign_id, states or None)
        with one_moment(connection) if len(parts) > 1 else contextlib.nullcontext():
            # Never prepared: the best plan depends on which points are open.
            found = [self._rows(connection, "list_jobs", values | {"states": part}, prepare=False) for part in parts]
        return [_named_lane(row) for row in islice(merge(*found, key=itemgetter("job_id")), limit)]

    def job(self, connection: Connection[TupleRow], job_id: int) -> dict[str, Any]:
        """One job with args, progress and attempts; raises UsageError when there is none."""
        rows = self._rows(connection, "show_job", [job_id])
        if not rows:
            raise UsageError(f"there is no job {job_id}", "see: batchproc jobs list")
        job = _named_lane(rows[0])
        done, total = job.pop("done"), job.pop("total")
        job["progress"] = None if total is None else {"done": done, "total": total}
        job["attempts"] = self._rows(connection, "job_attempts", [job_id])
        return job

    def states(self, connection: Connection[TupleRow], job_ids: Sequence[int]) -> dict[int, JobState]:
        """The states of these jobs; unknown ones are missing."""
        rows = self._rows(connection, "job_states", {"job_ids": list(job_ids)})
        return {row["job_id"]: JobState(row["state"]) for row in rows}

    def queues(self, connection: Connection[TupleRow]) -> list[dict[str, Any]]:
        """Per tenant, kind and lane how many jobs wait, are scheduled and run, and the age of the oldest due one."""
        return [_named_lane(row) for row in self._rows(connection, "status_queues", [])]

    def nodes(self, connection: Connection[TupleRow]) -> list[dict[str, Any]]:
        return self._rows(connection, "status_nodes", [])

    def totals(self, connection: Connection[TupleRow]) -> dict[str, int]:
        """Jobs by state."""
        return {row["state"]: row["jobs"] for row in self._rows(connection, "status_totals", [])}

    def _rows(
        self, connection: Connection[TupleRow], name: str, values: Any, *, prepare: bool | None = None
    ) -> list[dict[str, Any]]:
        with connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(self._sql[name], values, prepare=prepare).fetchall()


def _named_lane(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"lane": Lane(row["lane"]).name.lower()}
