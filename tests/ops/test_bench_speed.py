"""The benches of enqueueing, latency and the queue's peers. How fast it is, is not asserted."""

from __future__ import annotations

import stat
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.cli.benches.queue import worker_counts
from batchproc.core.errors import EnvironmentFault
from batchproc.ops.bench.enqueue import EnqueueBench, EnqueueRun, bench_enqueue
from batchproc.ops.bench.figures import Spread, alternated, percentile
from batchproc.ops.bench.latency import LatencyBench, LatencyRun, bench_latency
from batchproc.ops.bench.queue_peers import Celery, installed_peers
from tests.ops.bench_command import by_command
from tests.ops.test_bench import schemas


def test_enqueueing_is_measured_beside_bare_copy(database_url: str) -> None:
    told: list[str] = []
    bench = by_command(bench_enqueue, database_url, "enqueue", "--jobs", "300", "--runs", "2", tell=told.append)
    plain = bench.plain()
    assert (plain["jobs"], len(plain["runs"]), len(told)) == (300, 2, 2)
    assert all(run["rows_per_second"] > 0 and run["bare_copy_rows_per_second"] > 0 for run in plain["runs"])
    assert schemas(database_url) == {"batchproc"}


def test_the_ratio_to_bare_copy_is_the_median_of_the_runs_ratios() -> None:
    plain = EnqueueBench(10, (EnqueueRun(50, 100), EnqueueRun(90, 100), EnqueueRun(100, 50))).plain()
    assert (plain["ratio_to_bare_copy"], plain["least"], plain["most"]) == (0.9, 0.5, 2)
    assert (plain["rows_per_second"], plain["bare_copy_rows_per_second"]) == (90, 100)


def test_latency_is_measured_from_the_call_to_the_handlers_start(database_url: str) -> None:
    options = ("--jobs", "8", "--workers", "1", "--runs", "1")
    bench = by_command(bench_latency, database_url, "latency", *options)
    (run,) = bench.runs
    assert [len(values) for values in (run.since_call, run.since_commit, run.commits, run.notifies)] == [8] * 4
    assert all(run.since_call[n] > 0 for n in range(8))
    assert all(run.since_commit[n] < run.since_call[n] for n in range(8))
    assert all(value > 0 for value in (*run.commits, *run.notifies))
    assert schemas(database_url) == {"batchproc"}


def test_latencies_are_percentiles_over_the_jobs_of_all_runs() -> None:
    runs = tuple(LatencyRun([ms / 1000], [ms / 2000], [0.001], [0.002]) for ms in (4.0, 6.0, 50.0))
    plain = LatencyBench(1, 2, runs).plain()
    assert (plain["p50_ms"], plain["p99_ms"], plain["worst_ms"]) == (6, 50, 50)
    assert (plain["since_commit_p50_ms"], plain["commit_p50_ms"], plain["notify_p99_ms"]) == (3, 1, 2)
    assert [run["p50_ms"] for run in plain["runs"]] == [4, 6, 50]


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_one_of_the_values_and_not_exceeded_by_so_many(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values) + 1e-9


def test_the_spread_is_the_median_and_the_outermost() -> None:
    assert Spread.of([3, 1, 2, 10]).plain() == {"median": 2.5, "least": 1, "most": 10}
    assert Spread.of([650, 700]).text() == "675 (650 to 700)"
    with pytest.raises(ValueError, match="no figures"):
        Spread.of([])


def test_each_side_goes_first_in_every_other_run() -> None:
    assert [alternated(("a", "b"), number) for number in (1, 2, 3)] == [["a", "b"], ["b", "a"], ["a", "b"]]


@pytest.mark.parametrize(("given", "counts"), [("2", (2,)), ("2, 8", (2, 8)), ("8,2,8", (8, 2))])
def test_several_numbers_of_workers_are_tried_in_turn(given: str, counts: tuple[int, ...]) -> None:
    assert worker_counts(click.Context(click.Command("queue")), click.Option(["--workers"]), given) == counts


@pytest.mark.parametrize("given", ["", "0", "65", "2,", "2;8", "-1", "two"])
def test_what_is_no_number_of_workers_is_refused(given: str) -> None:
    with pytest.raises(click.BadParameter, match="from 1 to 64"):
        worker_counts(click.Context(click.Command("queue")), click.Option(["--workers"]), given)


def test_a_peer_that_is_not_installed_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installed_peers() == {"celery": None, "celery_late": None}


def test_a_redis_server_that_does_not_start_is_told(tmp_path: Path) -> None:
    pytest.importorskip("celery")
    pytest.importorskip("redis")
    broken = tmp_path / "redis-server"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(EnvironmentFault, match="the Redis server did not start"):
        Celery(str(broken), "5", late=False).jobs_per_second(5, 1)


@pytest.mark.long
def test_celery_runs_the_same_number_of_jobs() -> None:
    found = {name: peer for name, peer in installed_peers().items() if peer is not None}
    if not found:
        pytest.skip("celery and a Redis server are not installed here")
    for peer in found.values():
        assert peer.jobs_per_second(20, 2) > 0
