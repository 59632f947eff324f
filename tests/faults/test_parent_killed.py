"""The node, its guardian or both are killed: nothing survives, nothing is lost, the next run takes it all up."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from batchproc.embedded import EmbeddedServer
from batchproc.engine.pool import processes
from tests.database import new_home, remove_server
from tests.engine.running import Bench
from tests.faults import parent_handlers
from tests.faults.command import (
    START_SECONDS,
    SURVIVAL_SECONDS,
    Run,
    assert_gone,
    await_end_of_leases,
    bury_adopted,
    pids_in,
    started,
    started_run,
)
from tests.waiting import wait_until

HANDLERS = (parent_handlers.MODULE, "tests.engine.job_handlers")
KILLED = "was killed by signal"


class Jobs:
    """Busy jobs on two workers, and two that wait; they end when ``gate`` is there."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench = bench
        self.gate = folder / "gate"
        self.pids = folder / "pids"
        args = {"pids": str(self.pids), "gate": str(self.gate)}
        tenant = bench.tenant("acme")
        self.busy = [bench.enqueue(tenant, "parent_busy", args) for _ in range(2)]
        self.waiting = [bench.enqueue(tenant, "t_quick") for _ in range(2)]

    def family(self) -> list[int]:
        return wait_until(lambda: pids_in(self.pids, 2 * parent_handlers.FAMILY), START_SECONDS, "both jobs run")

    def finish_in_another_run(self) -> None:
        """And check that nothing was done twice or counted as an attempt."""
        self.gate.touch()
        await_end_of_leases(self.bench)
        with started_run(self.bench, "--workers", "2", handlers=HANDLERS) as run:
            assert run.wait(30) == 0, run.output()
        assert self.bench.states(self.busy + self.waiting) == {"completed": 4}
        for job_id in self.busy:
            job = self.bench.job(job_id)
            assert (job["attempt"], job["node_losses"]) == (1, 1)
            assert [attempt["error_class"] for attempt in job["attempts"]] == ["lease_expired", None]


@pytest.fixture
def jobs(bench: Bench, tmp_path: Path) -> Jobs:
    return Jobs(bench, tmp_path)


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("batchproc-*"))


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGSEGV, marks=pytest.mark.long),
        pytest.param(signal.SIGABRT, marks=pytest.mark.long),
    ],
)
def test_a_killed_node_is_reported_and_leaves_nothing(jobs: Jobs, temp_folder: Path, number: signal.Signals) -> None:
    with started_run(jobs.bench, "--workers", "2", handlers=HANDLERS) as run:
        family, node_pid = jobs.family(), run.node_pid
        run.everything()

        run.kill_node(number)

        run.assert_gone(*family)
        assert run.wait() == 3
        stdout, stderr = run.output()
    assert left_in(temp_folder) == []
    assert stdout == ""
    [line] = stderr.splitlines()
    assert line.startswith(f"batchproc: the node, process {node_pid} on ")
    assert f"{KILLED} {number:d} ({number.name}); its running jobs are taken back by the next run" in line
    jobs.finish_in_another_run()


def test_when_the_guardian_is_killed_the_node_goes_with_it(jobs: Jobs, temp_folder: Path) -> None:
    with started_run(jobs.bench, "--workers", "2", handlers=HANDLERS) as run:
        family = jobs.family()

        run.kill_guardian()

        run.assert_gone(*family)
        assert run.wait() == -signal.SIGKILL
    wait_until(lambda: left_in(temp_folder) == [], what="the forkserver removes the folders")
    jobs.finish_in_another_run()


@pytest.mark.long
def test_both_are_killed_at_once(jobs: Jobs, temp_folder: Path) -> None:
    with started_run(jobs.bench, "--workers", "2", handlers=HANDLERS) as run:
        family = jobs.family()

        run.kill_both()

        run.assert_gone(*family)
    wait_until(lambda: left_in(temp_folder) == [], what="the forkserver removes the folders")
    jobs.finish_in_another_run()


@pytest.mark.long
@pytest.mark.parametrize("stopped", ["forkserver", "workers"])
def test_a_killed_node_leaves_nothing_when_what_is_below_it_was_stopped(jobs: Jobs, stopped: str) -> None:
    with started_run(jobs.bench, "--workers", "2", handlers=HANDLERS) as run:
        family = jobs.family()
        run.send(signal.SIGSTOP, *([run.forkserver_pid] if stopped == "forkserver" else run.worker_pids(2)))

        run.kill_node()

        run.assert_gone(*family)
        assert run.wait() == 3
    jobs.finish_in_another_run()


@pytest.mark.long
def test_a_node_and_its_forkserver_killed_at_once_leave_nothing(jobs: Jobs, temp_folder: Path) -> None:
    with started_run(jobs.bench, "--workers", "2", handlers=HANDLERS) as run:
        family, node_pid, forkserver_pid = jobs.family(), run.node_pid, run.forkserver_pid
        run.everything()

        run.send(signal.SIGKILL, node_pid, forkserver_pid)

        run.assert_gone(*family)
        assert run.wait() == 3
    assert left_in(temp_folder) == []
    jobs.finish_in_another_run()


@pytest.mark.long
@pytest.mark.parametrize("kill", [Run.kill_node, Run.kill_guardian, Run.kill_both])
def test_what_a_job_forked_away_in_the_last_moment_is_gone(
    bench: Bench, tmp_path: Path, kill: Callable[[Run], None]
) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    token = f"5.0{uuid4().int % 10**12:012}"
    args = {"started": str(started), "gate": str(gate), "token": token}
    job = bench.enqueue(bench.tenant("acme"), "parent_forking", args)
    with started_run(bench, "--workers", "1", handlers=HANDLERS) as run:
        wait_until(started.exists, START_SECONDS)
        wait_until(lambda: sleeping(token))

        kill(run)

        wait_until(lambda: not sleeping(token), SURVIVAL_SECONDS, "none of the many helpers is alive")
    gate.touch()
    await_end_of_leases(bench)
    with started_run(bench, "--workers", "1", handlers=HANDLERS) as other:
        assert other.wait(30) == 0
    assert bench.job(job)["state"] == "completed"


def sleeping(token: str) -> list[int]:
    """The helpers with this argument that are alive."""
    found = []
    for pid in processes.all_pids():
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if token.encode() in arguments:
            found.append(pid)
    return found


@pytest.mark.long
def test_a_guardian_killed_at_any_moment_of_the_start_leaves_nothing(
    bench: Bench, temp_folder: Path, tmp_path: Path
) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_until", {"file": str(tmp_path / "gate")})
    chance = random.Random(7)
    for _ in range(12):
        with started_run(bench, "--workers", "1", handlers=HANDLERS) as run:
            run.node_pid  # noqa: B018 - waits for it
            kill_at = time.monotonic() + chance.uniform(0, 1.5)
            wait_until(lambda at=kill_at: run.everything() and time.monotonic() > at)  # type: ignore[misc]

            run.kill_guardian()

            # One that was still loading its modules looks up only after that.
            run.assert_gone(within=3.0)
    (tmp_path / "gate").touch()
    await_end_of_leases(bench)
    with started_run(bench, "--workers", "1", handlers=HANDLERS) as run:
        assert run.wait(30) == 0
    assert bench.job(job)["state"] == "completed"
    assert left_in(temp_folder) == []


def test_a_stopped_guardian_does_not_hurt_the_node(jobs: Jobs) -> None:
    with started_run(jobs.bench, "--workers", "2", handlers=HANDLERS) as run:
        jobs.family()
        node_pid = run.node_pid
        run.send(signal.SIGSTOP)

        jobs.gate.touch()

        wait_until(lambda: jobs.bench.states(jobs.busy + jobs.waiting) == {"completed": 4})
        wait_until(lambda: (found := processes.read_stat(node_pid)) and not found.alive, what="the node ends")
        run.send(signal.SIGCONT)
        assert run.wait() == 0


def test_the_node_is_a_process_of_its_own_and_the_guardian_has_one_thread(jobs: Jobs) -> None:
    with started_run(jobs.bench, "--workers", "2", handlers=HANDLERS) as run:
        jobs.family()

        assert os.listdir(f"/proc/{run.guardian_pid}/task") == [str(run.guardian_pid)]  # noqa: PTH208
        assert open_sockets(run.guardian_pid) == []
        assert jobs.bench.rows("select pid from batchproc.nodes") == [(run.node_pid,)]

        jobs.gate.touch()
        assert run.wait() == 0


def open_sockets(pid: int) -> list[str]:
    targets = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    return [target for target in targets if target.startswith("socket:")]


@pytest.mark.long
def test_processes_that_were_there_before_the_guardian_are_not_its_business(jobs: Jobs, tmp_path: Path) -> None:
    other = tmp_path / "other"
    script = f'setsid sleep 600 & echo $! > {other}; exec "$@"'
    with started_run(jobs.bench, "--workers", "2", handlers=HANDLERS, before=("sh", "-c", script, "sh")) as run:
        family = jobs.family()
        run.kill_node()
        assert run.wait() == 3
        sleeper = processes.identify(int(other.read_text()))
        assert sleeper is not None
        assert_gone(found for pid in family if (found := processes.identify(pid)))
        assert processes.is_alive(sleeper)
        processes.send(sleeper, signal.SIGKILL)
    jobs.finish_in_another_run()


@pytest.mark.long
@pytest.mark.parametrize("kill", [Run.kill_node, Run.kill_guardian])
def test_an_embedded_server_that_the_run_has_started_outlives_it(
    temp_folder: Path, kill: Callable[[Run], None]
) -> None:
    home = new_home()
    server = EmbeddedServer(home)
    environment = {"BATCHPROC_HOME": str(home), "BATCHPROC_DATABASE_URL": None, "BATCHPROC_CONF": None}
    command = [sys.executable, "-P", "-m", "batchproc", "run", "--forever", "--workers", "1"]
    try:
        with started(command, environment) as run:
            run.worker_pids()
            pid = server.status().pid
            assert pid is not None

            kill(run)
            run.wait()
            run.assert_gone()

            assert server.status().pid == pid
    finally:
        remove_server(server)
        bury_adopted()
