"""Cancelling: what runs is killed within a second, what has completed stays completed, a dead node's job ends too."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from batchproc.engine.node import RunOptions
from tests.engine.running import Bench, alive
from tests.faults.command import started_run
from tests.faults.meanwhile import meanwhile
from tests.waiting import wait_until

HANDLERS = ["tests.engine.job_handlers", "tests.faults.budget_handlers"]
KILLED_WITHIN = 1.0


def test_a_running_job_is_killed_with_its_tree_within_a_second_and_nobody_else(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    pids, gate = tmp_path / "pids", tmp_path / "gate"
    other = bench.enqueue(tenant, "b_waits", {"file": str(gate)}, priority=1)
    running = bench.enqueue(tenant, "b_tree", {"file": str(pids)}, priority=1)
    waiting = bench.enqueue(tenant, "b_waits", {"file": str(gate)}, priority=9)
    seconds: list[float] = []
    found: list[tuple[int, str]] = []

    def cancel() -> None:
        wait_until(lambda: bench.job(other)["state"] == "running" and pids.exists() and pids.read_text(), 60)
        asked = time.monotonic()
        found.extend(bench.jobs.cancel(bench.connection, [running, waiting]))
        wait_until(lambda: bench.job(running)["state"] == "cancelled", 10)
        seconds.append(time.monotonic() - asked)
        gate.touch()

    with meanwhile(cancel):
        report = bench.run(RunOptions(workers=2), handlers=HANDLERS)

    assert found == [(running, "requested"), (waiting, "cancelled")]
    assert seconds[0] < KILLED_WITHIN
    assert not [pid for pid in map(int, pids.read_text().split()) if alive(pid)]
    assert [attempt["outcome"] for attempt in bench.job(running)["attempts"]] == ["cancelled"]
    assert (bench.job(waiting)["state"], bench.job(waiting)["attempts"]) == ("cancelled", [])
    assert bench.job(other)["state"] == "completed"
    assert (report.exit_code, report.counts.cancelled, report.counts.claimed) == (0, 1, 2)


@pytest.mark.long
def test_a_job_that_hangs_in_the_database_is_cancelled_with_its_backend(bench: Bench, tmp_path: Path) -> None:
    started = tmp_path / "started"
    job = bench.enqueue(bench.tenant("acme"), "b_in_query", {"file": str(started)})
    seconds: list[float] = []

    def cancel() -> None:
        wait_until(started.exists, 60)
        asked = time.monotonic()
        bench.jobs.cancel(bench.connection, [job])
        wait_until(lambda: bench.job(job)["state"] == "cancelled", 10)
        seconds.append(time.monotonic() - asked)

    with meanwhile(cancel):
        bench.run(RunOptions(workers=1), handlers=HANDLERS)

    assert seconds[0] < KILLED_WITHIN + 0.5, "the backend has to be ended first"


@pytest.mark.long
def test_every_job_of_a_storm_of_cancels_ends_once(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_quick") for _ in range(300)]
    over = threading.Event()

    def storm() -> None:
        wait_until(lambda: bench.rows("select 1 from batchproc.job_attempts limit 1"), 60)
        for start in range(0, len(jobs), 5):
            bench.jobs.cancel(bench.connection, jobs[start : start + 2])
        over.set()

    with meanwhile(storm):
        bench.run(RunOptions(workers=3), handlers=HANDLERS)

    assert over.is_set()
    states = bench.states(jobs)
    assert set(states) <= {"completed", "cancelled"}
    assert states["completed"] >= 180, "three of five nobody wanted cancelled"
    completed = "select count(*) from batchproc.job_attempts where outcome = 'completed'"
    assert bench.rows(completed) == [(states["completed"],)]


@pytest.mark.long
def test_a_job_whose_node_died_is_cancelled_by_the_rescue_and_not_run_again(bench: Bench, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    job = bench.enqueue(bench.tenant("acme"), "b_tree", {"file": str(pids)})
    with started_run(bench, "--workers", "1", handlers=HANDLERS, dispatch={"lease": 1.0}) as run:
        wait_until(pids.exists, 60)
        run.kill_node()
        run.wait()
    assert bench.jobs.cancel(bench.connection, [job]) == [(job, "requested")]

    report = bench.run(RunOptions(workers=1), handlers=HANDLERS, dispatch={"lease": 1.0})

    shown = bench.job(job)
    assert (shown["state"], len(shown["attempts"])) == ("cancelled", 1)
    assert (report.counts.rescued, report.counts.claimed, report.exit_code) == (1, 0, 0)
