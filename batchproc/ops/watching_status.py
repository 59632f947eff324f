"""What ``status --watch`` shows, read again and again: slots, queues, nodes, and the rates between two looks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.queue.inspection import Inspection
from batchproc.queue.inspection_live import Done, LiveInspection

RATE_SECONDS = 60.0
"""Over how long a time rates are told, so that they follow a change of the work."""
LEAST_RATE_SECONDS = 8.0
"""Before that a rate would be that of a job or two."""
QUEUES_SHARE = 0.1
"""Part of the time that counting the queues may take: that reads every job that waits, which may be millions."""


@dataclass(frozen=True)
class Snapshot:
    """One look. Rows as ``status --json`` has them; ``queues_at`` is when those were counted.

    Rates are those of all nodes: from what was done between looks, and before two are far enough apart from what the
    nodes say of themselves; None where neither is known. ``discarded`` counts since the watch began.
    """

    at: datetime
    slots: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    queues: list[dict[str, Any]]
    queues_at: datetime
    jobs_per_minute: float | None = None
    pages_per_minute: float | None = None
    discarded: int = 0

    @property
    def live_nodes(self) -> list[dict[str, Any]]:
        return [node for node in self.nodes if node["alive"]]

    def jobs(self, state: str) -> int:
        """Jobs that are ``available``, ``scheduled`` or ``running``, of all queues."""
        return sum(queue[state] for queue in self.queues)


@dataclass
class StatusWatch:
    """Looks again and again, on a connection that the caller passes.

    Args:
        clock: seconds, for what the queues' count costs.
    """

    schema: str
    clock: Callable[[], float] = time.monotonic
    _since: date | None = None
    _history: deque[Done] = field(default_factory=deque)
    _first: Done | None = None
    _queues: list[dict[str, Any]] = field(default_factory=list)
    _queues_at: datetime | None = None
    _queues_due: float = 0.0

    def __post_init__(self) -> None:
        self._inspection = Inspection(self.schema)
        self._live = LiveInspection(self.schema)

    def look(self, connection: Connection[TupleRow]) -> Snapshot:
        """Raises psycopg.Error; the next look goes on from there, on another connection if need be."""
        done = self._done(connection)
        self._look_at_queues(connection, done.at)
        nodes = self._inspection.nodes(connection)
        assert self._queues_at is not None
        assert self._first is not None
        return Snapshot(
            at=done.at,
            slots=self._live.slots(connection),
            nodes=nodes,
            queues=self._queues,
            queues_at=self._queues_at,
            jobs_per_minute=_rate(self._history, "attempts") or told_rate(nodes),
            pages_per_minute=_rate(self._history, "pages"),
            discarded=done.discarded - self._first.discarded,
        )

    def _done(self, connection: Connection[TupleRow]) -> Done:
        # Always the sum from one day on: what counts only today would fall to nothing at midnight.
        if self._since is None:
            self._since = datetime.now(UTC).date() - timedelta(days=1)
        done = self._live.done(connection, self._since)
        self._first = self._first or done
        self._history.append(done)
        while (done.at - self._history[0].at).total_seconds() > RATE_SECONDS:
            self._history.popleft()
        return done

    def _look_at_queues(self, connection: Connection[TupleRow], at: datetime) -> None:
        begun = self.clock()
        if begun < self._queues_due:
            return
        self._queues, self._queues_at = self._inspection.queues(connection), at
        self._queues_due = self.clock() + (self.clock() - begun) / QUEUES_SHARE


def told_rate(nodes: list[dict[str, Any]]) -> float | None:
    """Jobs a minute of all live nodes, as they say it; None when none says anything."""
    rates = [node["jobs_per_minute"] for node in nodes if node["alive"] and node["jobs_per_minute"] is not None]
    return sum(rates) if rates else None


def _rate(history: deque[Done], name: str) -> float | None:
    first, last = history[0], history[-1]
    seconds = (last.at - first.at).total_seconds()
    if seconds < LEAST_RATE_SECONDS:
        return None
    return max(0.0, float(getattr(last, name) - getattr(first, name))) / seconds * 60
