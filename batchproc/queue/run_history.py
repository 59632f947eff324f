"""Reading what runs and campaigns have done: their attempts, counted for summaries and reports."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, dict_row

from batchproc.core.job import Lane
from batchproc.database import SqlFolder
from batchproc.queue.snapshot import one_moment

# A clock that is set back has a run end before attempts of it did: by so much at most that is looked for.
_SET_BACK = timedelta(days=2)


class RunHistory:
    """Statements that only read. Rows come as dicts, with the columns of the statement's file as keys."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def run(self, connection: Connection[TupleRow], run_id: int | None = None) -> dict[str, Any] | None:
        """That run, or the newest that claimed a job, one of a single job or a pilot last; None when there is none.

        ``until``: when it ended, or now while its node lives; else its last attempt's end. Never before its start, nor
        before an attempt ended, which the clock had it do when it was set back meanwhile.
        """
        rows = _rows(connection, self._sql["report_run"], {"run_id": run_id})
        return rows[0] | {"until": self._until(connection, rows[0])} if rows else None

    def _until(self, connection: Connection[TupleRow], run: dict[str, Any]) -> datetime:
        started, finished, now = run["started_at"], run["finished_at"], run["now"]
        told: datetime | None = finished or (now if run["alive"] else None)
        if finished is None and told is not None and told >= started:
            return told
        # What ended before its end need not be looked at: that may be a million attempts.
        since = max(started, finished or started)
        latest = max(started, told or now) + _SET_BACK
        values = {"run_id": run["run_id"], "since": since, "until": latest, "timed": finished is not None}
        row = connection.execute(self._sql["run_last_end"], values).fetchone()
        assert row is not None
        return max(moment for moment in (started, told, row[0]) if moment is not None)

    def runs(self, connection: Connection[TupleRow], *, before: int | None, limit: int) -> list[dict[str, Any]]:
        """Runs below the id ``before``, the newest first."""
        rows = _rows(connection, self._sql["list_runs"], {"before": before, "limit": limit})
        return [row | {"lanes": [Lane(lane).name.lower() for lane in row["lanes"]]} for row in rows]

    def totals(
        self, connection: Connection[TupleRow], run_id: int, *, since: datetime, until: datetime
    ) -> dict[str, Any]:
        """The seconds, pages and failed pages of the run's attempts that ended between these times."""
        [totals] = _rows(connection, self._sql["run_totals"], {"run_id": run_id, "since": since, "until": until})
        return totals

    def campaign(self, connection: Connection[TupleRow], campaign_id: int) -> dict[str, Any] | None:
        """That campaign with its jobs by state; None when there is none."""
        rows = _rows(connection, self._sql["report_campaign"], {"campaign_id": campaign_id})
        return rows[0] if rows else None

    def failures(
        self,
        connection: Connection[TupleRow],
        *,
        run_id: int | None = None,
        campaign_id: int | None = None,
        partial: bool,
        accepted: Collection[str] = (),
        groups: int,
        examples: int,
        given_up: tuple[datetime, datetime] | None = None,
    ) -> list[dict[str, Any]]:
        """Discarded jobs of a run or campaign and, with ``partial``, its partial documents, each tenant's worst first.

        Rows of one tenant, state and failure code stand together, and each has the number of all of them as ``jobs``;
        ``groups`` there has the number of all such groups, ``tenants`` that of all tenants that have one.

        Args:
            accepted: failure codes of discarded jobs, and of the first failed page of partial documents, that nobody
                wants to hear of.
            groups: so many groups at most.
            examples: so many jobs of each group at most.
            given_up: between these times attempts of the run ended. What it gave up on in them is told also where
                somebody has retried it since, with what it is now as ``now``, which is None of all others.
        """
        since, until = given_up or (None, None)
        values = {
            "since": since,
            "until": until,
            "run_id": run_id,
            "campaign_id": campaign_id,
            "partial": partial,
            "accepted": list(accepted),
            "limit": groups,
            "examples": examples,
        }
        return _rows(connection, self._sql["failures"], values)

    @contextmanager
    def attempts(
        self,
        connection: Connection[TupleRow],
        *,
        since: datetime,
        until: datetime,
        run_id: int | None = None,
        campaign_id: int | None = None,
    ) -> Iterator[Attempts]:
        """The attempts of a run that ended between these times, or all of a campaign's jobs, as of one moment.

        They are chosen into a temporary table, which goes with the transaction that this opens.
        """
        values = {"run_id": run_id, "campaign_id": campaign_id, "since": since, "until": until}
        with one_moment(connection):
            connection.execute(self._sql["report_attempts"], values)
            yield Attempts(connection, self._sql, since)


class Attempts:
    """The attempts that ``RunHistory.attempts`` has chosen."""

    def __init__(self, connection: Connection[TupleRow], sql: SqlFolder, since: datetime) -> None:
        self._connection = connection
        self._sql = sql
        self._since = since

    def kinds(self) -> list[dict[str, Any]]:
        """By kind, that which took most first: attempts, jobs, what became of them, pages, seconds of workers."""
        return self._read("report_kinds")

    def tenants(self) -> list[dict[str, Any]]:
        """By tenant and lane, who waited longest first; waits in seconds."""
        return self._read("report_tenants")

    def buckets(self, width: float) -> list[dict[str, Any]]:
        """By stretches of ``width`` seconds from the start, and kind."""
        return self._read("report_buckets", since=self._since, width=width)

    def retries(self, limit: int) -> list[dict[str, Any]]:
        """Attempts that failed and whose jobs came back, by kind and code."""
        return self._read("report_retries", limit=limit)

    def slowest(self, limit: int) -> list[dict[str, Any]]:
        """The documents that took most of the workers' time."""
        return self._read("report_slowest", limit=limit)

    def _read(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        return _rows(self._connection, self._sql[statement], values)


def _rows(connection: Connection[TupleRow], statement: bytes, values: dict[str, Any]) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement, values).fetchall()
