"""Claimed ahead, by real nodes: quick jobs only, and nothing for nothing."""

from __future__ import annotations

import math

import pytest

from batchproc.core.outcome import Outcome
from batchproc.engine.dispatcher import Dispatcher
from batchproc.engine.node import RunOptions
from batchproc.engine.pool.worker_pool import Work, WorkerPool
from batchproc.queue.kind_store import KindStore
from tests.engine.running import Bench


@pytest.fixture
def went_ahead(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Jobs that were submitted while no slot was free."""
    jobs: list[int] = []
    submit = WorkerPool.submit

    def noted(pool: WorkerPool, *works: Work, expected: float = math.inf, ahead: bool = False) -> int:
        if not pool.free():
            jobs.extend(work.job_id for work in works)
        return submit(pool, *works, expected=expected, ahead=ahead)

    monkeypatch.setattr(WorkerPool, "submit", noted)
    return jobs


def enqueued(bench: Bench, kind: str, jobs: int, tenants: int = 2) -> None:
    for number in range(tenants):
        tenant = bench.tenant(f"t{number}")
        for _ in range(jobs):
            bench.enqueue(tenant, kind)


def test_quick_jobs_go_ahead_and_each_is_done_once(bench: Bench, went_ahead: list[int]) -> None:
    enqueued(bench, "t_quick", 100)
    report = bench.run(RunOptions(workers=2))
    assert (report.counts.claimed, report.counts.completed) == (200, 200)
    assert len(went_ahead) > 10
    assert bench.rows("select count(*) from batchproc.job_attempts") == [(200,)]


def test_bundles_that_take_long_together_are_claimed_when_they_can_begin(bench: Bench, went_ahead: list[int]) -> None:
    enqueued(bench, "t_short", 160)
    report = bench.run(RunOptions(workers=1))
    assert (report.counts.claimed, report.counts.completed, report.counts.interrupted) == (320, 320, 0)
    assert went_ahead == []


def test_what_ends_soon_without_being_completed_is_not_quick(bench: Bench, went_ahead: list[int]) -> None:
    enqueued(bench, "t_declared", 30)
    assert bench.run(RunOptions(workers=2)).counts.discarded == 60
    assert went_ahead == []


def test_nothing_goes_ahead_where_any_kind_has_a_limit(bench: Bench, went_ahead: list[int]) -> None:
    bench.run(RunOptions(workers=1))  # which makes the kinds known
    KindStore("batchproc").set(bench.connection, "t_brief", max_running=3)
    enqueued(bench, "t_quick", 50)
    assert bench.run(RunOptions(workers=2)).counts.completed == 100
    assert went_ahead == []


def test_nothing_goes_ahead_into_reserved_slots(bench: Bench, went_ahead: list[int]) -> None:
    enqueued(bench, "t_quick", 50)
    assert bench.run(RunOptions(workers=2), dispatch={"reserved": 1}).counts.completed == 100
    assert went_ahead == []


def test_a_fault_of_the_node_gives_back_what_went_ahead_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    enqueued(bench, "t_quick", 100)
    note, ended = Dispatcher._note, []

    def failing(dispatcher: Dispatcher, endings: list[Outcome]) -> None:
        note(dispatcher, endings)  # type: ignore[arg-type]
        ended.extend(endings)
        if 80 <= len(ended) < 100:
            ended.extend(endings * 100)  # once
            raise OSError("the log cannot be written")

    monkeypatch.setattr(Dispatcher, "_note", failing)
    with pytest.raises(OSError, match="the log cannot be written"):
        bench.run(RunOptions(workers=2))
    assert bench.rows("select count(*) from batchproc.processing_jobs where state = 'running'") == [(0,)]
    assert bench.rows("select exit_code from batchproc.runs") == [(3,)]
