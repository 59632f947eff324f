"""What ``status --watch`` shows, read again and again: slots, queues, nodes, and the rates between two looks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.throughput import Window, per, seconds_left
from batchproc.queue.inspection import Inspection
from batchproc.queue.inspection_live import Done, LiveInspection

QUEUES_SHARE = 0.1
"""Part of the time that counting the queues may take: that reads every job that waits, which may be millions."""


@dataclass(frozen=True)
class Seen:
    """What all nodes did in so many seconds."""

    seconds: float = 0.0
    jobs: int = 0
    pages: int = 0


@dataclass(frozen=True)
class Snapshot:
    """One look. Rows as ``status --json`` has them; ``queues_at`` is when those were counted.

    ``seen`` lately: over the last minute, or since the watch began. Rates are those of all nodes: by what was seen, and
    before that is a minute by what the nodes say of theirs; None where neither is known. ``seconds_left`` until nothing
    waits, as it went lately; None where that does not tell. ``discarded`` counts since the watch began.
    """

    at: datetime
    slots: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    queues: list[dict[str, Any]]
    queues_at: datetime
    jobs_per_minute: float | None = None
    pages_per_minute: float | None = None
    discarded: int = 0
    seen: Seen = Seen()
    seconds_left: float | None = None

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
    _lately: Window[Done] = field(default_factory=Window)
    _begun: Done | None = None
    _waited: Window[int] = field(default_factory=Window)
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
        assert self._begun is not None
        first = self._lately.first
        seen = Seen(self._lately.seconds, done.attempts - first.attempts, done.pages - first.pages)
        by_seen = per(60, seen.jobs, seen.seconds)
        return Snapshot(
            at=done.at,
            slots=self._live.slots(connection),
            nodes=nodes,
            queues=self._queues,
            queues_at=self._queues_at,
            jobs_per_minute=told_rate(nodes) if by_seen is None else by_seen,
            pages_per_minute=per(60, seen.pages, seen.seconds),
            discarded=done.discarded - self._begun.discarded,
            seen=seen,
            seconds_left=seconds_left(self._waited.looks),
        )

    def _done(self, connection: Connection[TupleRow]) -> Done:
        # Always the sum from one day on: what counts only today would fall to nothing at midnight.
        if self._since is None:
            self._since = datetime.now(UTC).date() - timedelta(days=1)
        done = self._live.done(connection, self._since)
        self._begun = self._begun or done
        if self._lately.looks and done.at.timestamp() < self._lately.looks[-1][0]:
            # The clock was set back: what was seen before tells nothing any more.
            self._lately, self._waited, self._queues_due = Window(), Window(), 0.0
        self._lately.add(done.at.timestamp(), done)
        return done

    def _look_at_queues(self, connection: Connection[TupleRow], at: datetime) -> None:
        begun = self.clock()
        if begun < self._queues_due:
            return
        self._queues, self._queues_at = self._inspection.queues(connection), at
        self._waited.add(at.timestamp(), sum(queue["available"] for queue in self._queues))
        self._queues_due = self.clock() + (self.clock() - begun) / QUEUES_SHARE


def told_rate(nodes: list[dict[str, Any]]) -> float | None:
    """Jobs a minute of all live nodes, as they say it; None while none has seen a minute."""
    rates = [node["jobs_per_minute"] for node in nodes if node["alive"] and node["jobs_per_minute"] is not None]
    return sum(rates) if rates else None


def ended_since(nodes: list[dict[str, Any]]) -> Seen | None:
    """What live nodes have done since the first of them began; None when none says anything."""
    telling = [node for node in nodes if node["alive"] and node["ended"] is not None]
    return Seen(max(n["seconds"] for n in telling), sum(n["ended"] for n in telling)) if telling else None
