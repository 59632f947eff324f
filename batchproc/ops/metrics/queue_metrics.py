"""What the database says of the queue, the same on whichever machine it is asked: not to be summed over nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date, timedelta
from threading import Lock
from typing import Any

import psycopg
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from psycopg import Connection
from psycopg.rows import TupleRow, dict_row

from batchproc.core.errors import BatchprocError
from batchproc.core.job import JobState, Lane
from batchproc.database import SqlFolder
from batchproc.engine.ready import Scope

WAITING = (JobState.SCHEDULED, JobState.AVAILABLE, JobState.RUNNING, JobState.HELD)
_PAGES = ("text", "ocr", "blank", "failed")
_SHARE = 0.05
"""Of the time, for counting jobs: that reads every job that is not over, and there may be millions."""

EVERYTHING = Scope()
_SETTLED_DAYS = 2
"""Days after which the pages of a day change no more: its last transactions are over, in every time zone's clock."""


class QueueMetrics:
    """A collector for a registry of prometheus-client.

    Args:
        connect: opens a connection, for one look.
        for_ever: the node that is asked goes on for ever: that nothing is due is its success.
        scope: what that node serves; with less than all it says nothing of the runs that are for all.
        last_completed: when that node last completed a job, in seconds since 1970.
    """

    def __init__(
        self,
        schema: str,
        connect: Callable[[], Connection[TupleRow]],
        *,
        for_ever: bool = False,
        scope: Scope = EVERYTHING,
        last_completed: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._sql = SqlFolder("batchproc.ops.metrics", schema)
        self._connect = connect
        self._for_ever = for_ever
        self._scope = scope
        self._last_completed = last_completed
        self._lock = Lock()
        self._queue: list[dict[str, Any]] = []
        self._queue_due = 0.0
        self._past_pages: tuple[date, dict[str, float]] | None = None

    def look_again(self) -> None:
        """The next look counts the jobs, however long that takes."""
        with self._lock:
            self._queue_due = 0.0

    def collect(self) -> Iterator[Metric]:
        """All families, or where the database does not answer, that alone."""
        with self._lock:
            try:
                with closing(self._connect()) as connection:
                    families = list(self._families(connection))
                is_up = 1
            except (psycopg.Error, BatchprocError):
                families, is_up = [], 0
        yield GaugeMetricFamily("batchproc_database_up", "Whether the database answered.", value=is_up)
        yield from families

    def _families(self, connection: Connection[TupleRow]) -> Iterator[Metric]:
        [nodes] = self._rows(connection, "metrics_nodes")
        yield GaugeMetricFamily("batchproc_nodes", "Nodes whose lease lives.", value=nodes["nodes"])
        yield from self._of_jobs(connection)
        yield from self._of_runs(connection, nodes["now"])
        yield self._of_pages(connection, nodes["today"])
        paused = GaugeMetricFamily(
            "batchproc_kind_paused",
            "1 for each paused kind, with the code that made the brake pause it.",
            labels=["kind", "code"],
        )
        for row in self._rows(connection, "metrics_paused"):
            paused.add_metric([row["kind"], row["code"]], 1)
        yield paused

    def _of_jobs(self, connection: Connection[TupleRow]) -> Iterator[Metric]:
        if time.monotonic() >= self._queue_due:
            begun = time.monotonic()
            self._queue = self._rows(connection, "metrics_queue", **self._scope.plain())
            self._queue_due = time.monotonic() + (time.monotonic() - begun) / _SHARE
        jobs = GaugeMetricFamily("batchproc_queue_jobs", "Jobs that are not over.", labels=["lane", "state"])
        oldest = GaugeMetricFamily(
            "batchproc_queue_oldest_age_seconds",
            "How long the oldest due job has waited that neither a pause nor a limit of 0 of its tenant or kind keeps;"
            " 0 where none waits.",
            labels=["lane"],
        )
        found = {(row["lane"], row["state"]): row for row in self._queue}
        for lane in Lane:
            for state in WAITING:
                row = found.get((lane, state))
                jobs.add_metric([lane.name.lower(), str(state)], row["jobs"] if row else 0)
            waiting = found.get((lane, JobState.AVAILABLE))
            oldest.add_metric([lane.name.lower()], (waiting and waiting["oldest_seconds"]) or 0)
        yield jobs
        yield oldest

    def _of_runs(self, connection: Connection[TupleRow], now: float) -> Iterator[Metric]:
        good = GaugeMetricFamily(
            "batchproc_last_success_timestamp_seconds",
            "When a run last did what there was to do (exit 0 or 1). scope is part for those of some tenants, kinds or"
            " a lane alone. A node that runs for ever succeeds with every job completed, and while nothing is due.",
            labels=["scope"],
        )
        ended = GaugeMetricFamily("batchproc_last_run_timestamp_seconds", "When a run last ended.", labels=["scope"])
        code = GaugeMetricFamily("batchproc_last_run_exit_code", "How it ended.", labels=["scope"])
        good_at = {"all" if self._scope == EVERYTHING else "part": self._last_success_of_node(now)}
        for row in self._rows(connection, "metrics_runs"):
            scope = "all" if row["whole"] else "part"
            good_at[scope] = max(row["good_at"] or 0.0, good_at.get(scope) or 0.0)
            ended.add_metric([scope], row["ended_at"])
            if row["exit_code"] is not None:
                code.add_metric([scope], row["exit_code"])
        for scope, when in good_at.items():
            if when:
                good.add_metric([scope], when)
        yield from (good, ended, code)

    def _last_success_of_node(self, now: float) -> float | None:
        if not self._for_ever:
            return None
        if not any(row["has_work"] for row in self._queue):
            return now
        return self._last_completed()

    def _of_pages(self, connection: Connection[TupleRow], today: date) -> Metric:
        settled = today - timedelta(days=_SETTLED_DAYS)
        if self._past_pages is None or self._past_pages[0] != settled:
            [row] = self._rows(connection, "metrics_pages", since=None, before=settled)
            self._past_pages = settled, row
        [recent] = self._rows(connection, "metrics_pages", since=settled, before=None)
        pages = CounterMetricFamily(
            "batchproc_pages", "Pages read so far by all nodes, by what became of them.", labels=["state"]
        )
        for state in _PAGES:
            pages.add_metric([state], self._past_pages[1][state] + recent[state])
        return pages

    def _rows(self, connection: Connection[TupleRow], name: str, **values: Any) -> list[dict[str, Any]]:
        with connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(self._sql[name], values).fetchall()
