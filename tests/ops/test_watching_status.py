"""What a watch tells of what it saw, and of what nodes say: no minute that nobody has seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from batchproc.ops.watching_status import Seen, Snapshot, StatusWatch, ended_since, told_rate
from batchproc.queue.inspection_live import Done

START = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)


def node(seconds: float, rate: float | None = 60.0, *, ended: int | None = 5, alive: bool = True) -> dict[str, Any]:
    return {"seconds": seconds, "jobs_per_minute": rate, "ended": ended, "alive": alive}


@pytest.mark.parametrize(
    ("nodes", "rate", "ended"),
    [
        ([], None, None),
        ([node(7.0, None)], None, Seen(7.0, 5)),
        ([node(7.0, None), node(30.0, None, ended=2)], None, Seen(30.0, 7)),
        ([node(60.0), node(7.0, None)], 60.0, Seen(60.0, 10)),
        ([node(90.0), node(90.0, 30.0)], 90.0, Seen(90.0, 10)),
        ([node(90.0, 0.0)], 0.0, Seen(90.0, 5)),
        ([node(90.0, alive=False), node(90.0, None, ended=None)], None, None),
    ],
)
def test_a_rate_is_that_of_nodes_that_have_seen_a_minute(
    nodes: list[dict[str, Any]], rate: float | None, ended: Seen | None
) -> None:
    assert told_rate(nodes) == rate
    assert ended_since(nodes) == ended


class Watched:
    """A watch over numbers that a test says."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        self.watch = StatusWatch("batchproc", clock=lambda: self.at)
        self.at, self.jobs, self.waiting, self.clock_behind = 0.0, 0, 0, 0.0
        live = SimpleNamespace(done=lambda *_: self.done(), slots=lambda _: [])
        inspection = SimpleNamespace(nodes=lambda _: nodes, queues=lambda _: [{"available": self.waiting}])
        self.watch._live, self.watch._inspection = live, inspection  # type: ignore[assignment]

    def done(self) -> Done:
        return Done(START + timedelta(seconds=self.at - self.clock_behind), self.jobs, self.jobs, 0, self.jobs * 3)

    def look(self, at: float, jobs: int, waiting: int) -> Snapshot:
        self.at, self.jobs, self.waiting = at, jobs, waiting
        return self.watch.look(None)  # type: ignore[arg-type]


def test_a_watch_tells_counts_and_seconds_until_it_has_seen_a_minute() -> None:
    watched = Watched([node(7.0, None)])
    watched.look(0.0, 100, 50)
    early = watched.look(6.0, 108, 46)
    assert (early.jobs_per_minute, early.pages_per_minute, early.seen) == (None, None, Seen(6.0, 8, 24))
    assert early.seconds_left is None
    later = watched.look(20.0, 120, 40)
    assert (later.jobs_per_minute, later.seen) == (None, Seen(20.0, 20, 60))
    assert later.seconds_left == 80.0, "jobs end twice as fast as fewer wait, for they bring others"
    for second in range(22, 61, 2):
        last = watched.look(float(second), 100 + second, 50 - second // 2)
    assert (last.jobs_per_minute, last.pages_per_minute, last.seconds_left) == (60.0, 180.0, 40.0)
    for second in range(62, 121, 2):
        last = watched.look(float(second), 160, 20)
    assert (last.jobs_per_minute, last.seen.seconds, last.seconds_left) == (0.0, 60.0, None), "it follows a change"


def test_a_clock_that_is_set_back_begins_anew() -> None:
    watched = Watched([node(7.0, None)])
    watched.look(0.0, 100, 50)
    watched.look(30.0, 130, 40)
    watched.clock_behind = 3600.0
    back = watched.look(32.0, 132, 39)
    assert (back.seen, back.seconds_left, back.pages_per_minute) == (Seen(0.0, 0, 0), None, None)
    assert back.queues_at == back.at, "the queues are counted again"
    later = watched.look(52.0, 152, 19)
    assert (later.seen, later.seconds_left) == (Seen(20.0, 20, 60), 19.0)
    for second in range(54, 93, 2):
        last = watched.look(float(second), 100 + second, 10)
    assert last.jobs_per_minute == 60.0


def test_before_that_nodes_that_have_seen_a_minute_tell() -> None:
    watched = Watched([node(600.0, 30.0)])
    watched.look(0.0, 0, 50)
    assert watched.look(6.0, 3, 50).jobs_per_minute == 30.0
