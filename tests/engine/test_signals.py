"""A run as a process of its own: signals, the death of a node, the loss of connections and leases."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batchproc.core.job import Lane
from tests.engine.running import HANDLERS, Bench, alive
from tests.waiting import wait_until


class Runs:
    """Starts ``batchproc run`` on the test's database; whatever is left at the end is killed."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench = bench
        self._folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, **settings: Any) -> subprocess.Popen[str]:
        conf = self._folder / f"conf-{len(self._started)}.yaml"
        conf.write_text(json.dumps({"handlers": [HANDLERS], **settings}))
        process = subprocess.Popen(
            [sys.executable, "-m", "batchproc", "--conf", str(conf), "--database", self._bench.url, "run", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=10)


@pytest.fixture
def runs(bench: Bench, tmp_path: Path) -> Iterator[Runs]:
    made = Runs(bench, tmp_path)
    yield made
    made.end()


def workers_of(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_sigterm_lets_running_jobs_end_and_claims_no_more(bench: Bench, runs: Runs, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    started = tmp_path / "started"
    args = {"file": str(tmp_path / "never"), "started": str(started)}
    jobs = [bench.enqueue(tenant, "t_until", args) for _ in range(3)]
    run = runs.start("--workers", "1")
    [worker] = wait_until(lambda: workers_of(started), 30)

    run.send_signal(signal.SIGTERM)

    assert run.wait(timeout=20) == 0
    assert bench.states(jobs) == {"completed": 1, "available": 2}
    assert not alive(worker)


def test_what_does_not_end_within_the_grace_is_interrupted(bench: Bench, runs: Runs, tmp_path: Path) -> None:
    started = tmp_path / "started"
    job = bench.enqueue(bench.tenant("acme"), "t_deaf", {"path": str(started)})
    run = runs.start("--workers", "1", pool={"shutdown_grace": 0.5})
    [worker] = wait_until(lambda: workers_of(started), 30)

    run.send_signal(signal.SIGTERM)

    assert run.wait(timeout=20) == 0
    shown = bench.job(job)
    assert (shown["state"], shown["attempt"]) == ("available", 0)
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["interrupted"]
    assert not alive(worker)


def test_a_second_signal_interrupts_at_once(bench: Bench, runs: Runs, tmp_path: Path) -> None:
    started, heard = tmp_path / "started", tmp_path / "heard"
    job = bench.enqueue(bench.tenant("acme"), "t_stubborn", {"file": str(heard), "started": str(started)})
    run = runs.start("--workers", "1", pool={"shutdown_grace": 600})
    wait_until(lambda: workers_of(started), 30)

    run.send_signal(signal.SIGINT)
    asked = time.monotonic()
    wait_until(heard.exists, 10, "the handler is told of the shutdown")
    wait_until(lambda: time.monotonic() > asked + 0.2, what="no program's repetition: within 0.1 s it is one signal")
    run.send_signal(signal.SIGINT)

    assert run.wait(timeout=20) == 0
    assert (bench.job(job)["state"], bench.job(job)["attempt"]) == ("available", 0)


def test_jobs_of_a_killed_node_are_taken_back_without_an_attempt(bench: Bench, runs: Runs, tmp_path: Path) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    job = bench.enqueue(bench.tenant("acme"), "t_until", {"file": str(gate), "started": str(started)})
    dispatch = {"lease": 1.0, "poll_interval": 0.2}
    first = runs.start("--workers", "1", dispatch=dispatch)
    [worker] = wait_until(lambda: workers_of(started), 30)

    first.kill()
    first.wait(timeout=10)
    wait_until(lambda: not alive(worker), 5, "the worker of a killed node dies with it")
    # A node whose lease still lives may live: until it ends, nobody touches its jobs.
    wait_until(lambda: not bench.rows("select 1 from batchproc.nodes where lease_until > clock_timestamp()"), 5)
    gate.touch()
    report = bench.run(dispatch=dispatch)

    shown = bench.job(job)
    assert (shown["state"], shown["attempt"], shown["node_losses"]) == ("completed", 1, 1)
    assert [attempt["error_class"] for attempt in shown["attempts"]] == ["lease_expired", None]
    assert (report.counts.rescued, report.counts.completed) == (1, 1)


def test_a_notification_wakes_an_idle_node(bench: Bench, runs: Runs, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    run = runs.start("--workers", "1", "--forever", dispatch={"poll_interval": 600, "lease": 30})
    # Its first look at the queues comes after it began to listen, and the next one only in ten minutes.
    looking = "select 1 from pg_stat_activity where state = 'idle' and query like %s and datname = current_database()"
    wait_until(lambda: bench.rows(looking, "with running as materialized%"), 30)

    job = bench.enqueue(tenant, "t_quick", lane=Lane.INTERACTIVE)

    wait_until(lambda: bench.job(job)["state"] == "completed", 10)
    run.send_signal(signal.SIGTERM)
    assert run.wait(timeout=20) == 0


def test_a_node_outlives_the_end_of_all_its_connections(bench: Bench, runs: Runs, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    started, gate = tmp_path / "started", tmp_path / "gate"
    jobs = [bench.enqueue(tenant, "t_until", {"file": str(gate), "started": str(started)}) for _ in range(2)]
    jobs += [bench.enqueue(tenant, "t_quick") for _ in range(20)]
    run = runs.start("--workers", "2", dispatch={"poll_interval": 0.2})
    wait_until(lambda: len(workers_of(started)) == 2, 30)

    bench.rows(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name like 'batchproc%%' and pid <> pg_backend_pid() and datname = current_database()"
        " and application_name <> 'batchproc'"
    )
    gate.touch()

    assert run.wait(timeout=30) == 0
    assert bench.states(jobs) == {"completed": 22}
    assert bench.rows("select job_id from batchproc.job_attempts group by job_id having count(*) > 1") == []


def test_a_node_that_lost_its_lease_gives_back_its_jobs_and_joins_again(
    bench: Bench, runs: Runs, tmp_path: Path
) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    job = bench.enqueue(bench.tenant("acme"), "t_until", {"file": str(gate), "started": str(started)})
    run = runs.start("--workers", "1", dispatch={"lease": 3.0, "poll_interval": 0.2})
    wait_until(lambda: workers_of(started), 30)
    [(first_id,)] = bench.rows("select node_id from batchproc.nodes")

    bench.rows("update batchproc.nodes set lease_until = now() - interval '1 second' returning node_id")
    wait_until(lambda: len(workers_of(started)) == 2, 15, "the job starts again")
    [(second_id,)] = bench.rows("select node_id from batchproc.nodes where lease_until > now()")
    gate.touch()

    assert run.wait(timeout=20) == 0
    assert first_id != second_id
    assert bench.job(job)["state"] == "completed"


def test_without_a_terminal_a_good_run_prints_nothing_and_a_bad_one_its_summary(bench: Bench, runs: Runs) -> None:
    tenant = bench.tenant("acme")
    bench.enqueue(tenant, "t_quick")
    good = runs.start("--workers", "1")
    assert good.communicate(timeout=30) == ("", "")
    assert good.returncode == 0

    job = bench.enqueue(tenant, "t_declared")
    bad = runs.start("--workers", "1")
    out, err = bad.communicate(timeout=30)

    assert (bad.returncode, err) == (1, "")
    assert "acme: 1 job failed: no_luck" in out.splitlines()[0]
    assert f"job {job}" in out
    assert out.splitlines()[-1].endswith("exit 1")
