"""``bench fairness``: what counts as a wait, and that it runs. How long anybody waited is not asserted."""

from __future__ import annotations

import pytest

from batchproc.core.errors import EnvironmentFault
from batchproc.database import connect
from batchproc.ops.bench.fairness import (
    FAIR,
    FIFO,
    FairnessBench,
    Load,
    SideRun,
    _Arrivals,
    _arriving,
    bench_fairness,
)
from batchproc.ops.bench.waits import Start, Wait, summed_up, waits
from batchproc.queue.store import JobStore
from tests.ops.bench_command import by_command


def test_a_wait_is_from_the_arrival_and_then_from_the_previous_start() -> None:
    order = [(0, 1.0), (0, 2.0), (2, 3.0), (0, 4.0), (1, 5.0), (2, 6.0), (1, 7.5), (0, 8.0)]
    starts = [Start(*start) for start in order]
    assert waits(starts, 1, came=2.5) == [Wait(2, 1, 2.5), Wait(1, 1, 2.5)]
    assert waits(starts, 2, came=2.5) == [Wait(0, 0, 0.5), Wait(2, 1, 3.0)]
    assert waits(starts, 0, came=0.0)[:2] == [Wait(0, 0, 1.0), Wait(0, 0, 1.0)]
    assert waits(starts, 5, came=0.0) == []


def test_rounds_count_the_turns_of_the_same_other() -> None:
    starts = [Start(*start) for start in [(0, 1.0), (0, 2.0), (0, 3.0), (2, 4.0), (1, 5.0)]]
    assert waits(starts, 1, came=0.5) == [Wait(4, 3, 4.5)]


def test_a_start_before_the_clock_was_read_is_no_wait() -> None:
    starts = [Start(*start) for start in [(0, 1.0), (1, 2.0), (1, 4.0)]]
    assert waits(starts, 1, came=2.25) == [Wait(0, 0, 0.0), Wait(0, 0, 1.75)]


def test_the_figures_are_over_the_waits_of_all_runs() -> None:
    def run(turns: int, served: float) -> SideRun:
        return SideRun((Wait(turns, 1, turns / 10), Wait(0, 0, 0.0)), (served,), 5.0)

    runs = tuple({FAIR: run(turns, 1.0), FIFO: run(10 * turns, 1.0 * turns)} for turns in (3, 5, 4))
    plain = FairnessBench(Load(), 2, "round_robin", runs).plain()
    assert plain["fair"]["worst_turns"] == 5
    assert plain["fifo"]["worst_s"] == 5.0
    assert plain["fifo_to_fair"] == {"median": 4, "least": 3, "most": 5}
    assert [row["side"] for row in plain["runs"]] == [FAIR, FIFO] * 3
    assert summed_up([Wait(n, 1, 0.0) for n in range(100)])["p99_turns"] == 98


def test_it_runs_the_same_load_on_both_sides(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCHPROC_DISPATCH__FAIRNESS", "worker_seconds")
    options = ("--jobs", "50", "--tenants", "3", "--each", "2", "--sleep", "5", "--workers", "2", "--runs", "1")
    plain = by_command(bench_fairness, database_url, "fairness", *options).plain()
    assert plain["fairness"] == "worker_seconds"
    for side in (FAIR, FIFO):
        assert plain[side]["worst_turns"] >= plain[side]["p50_turns"] >= 0
        assert plain[side]["run_s"] > 56 * 0.005 / 2
    assert plain["fifo"]["worst_turns"] > plain["fair"]["worst_turns"], "a small tenant waits for all others' jobs"


def test_arrivals_that_fail_end_the_bench(database_url: str) -> None:
    store = JobStore("batchproc")
    with connect(database_url) as connection:
        tenant = store.add_tenant(connection, "acme").tenant_id
        arrivals = _Arrivals(connection, store, Load(), [tenant, tenant])
        connection.close()
        with pytest.raises(EnvironmentFault, match="could not be enqueued"), _arriving(arrivals):
            arrivals.coming.put(1)
