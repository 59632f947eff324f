"""Processes that jobs start: they end with their job, wherever they hide, and nobody else's do."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from batchproc.core.job import Lane
from batchproc.database import connect
from batchproc.engine.node import RunOptions
from batchproc.engine.pool import forkserver, processes
from batchproc.handlers.context import APPLICATION
from tests.engine.running import HANDLERS, Bench, alive
from tests.faults.left_behind import counts
from tests.faults.meanwhile import meanwhile
from tests.faults.worker_handlers import FORKING, KINDS, TREE
from tests.waiting import wait_until

MODULES = [HANDLERS, KINDS]
SAME_LOOKS = 50


def noted(folder: Path, name: str) -> list[int]:
    """The numbers that handlers have noted under that name."""
    file = folder / name
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def unburied() -> list[int]:
    """The dead children of the forkserver."""
    server = forkserver.running_pid()
    assert server is not None
    below = processes.descendants(server)
    return [stat.process.pid for stat in below if stat.parent == server and not stat.alive]


def there(pids: list[int]) -> list[int]:
    """Those that exist, if only as a zombie."""
    return [pid for pid in pids if psutil.pid_exists(pid)]


def test_the_whole_tree_of_a_hung_job_ends_with_it_and_no_other_slots(tmp_path: Path, bench: Bench) -> None:
    tenant = bench.tenant("acme")
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    helper = bench.enqueue(tenant, "w_helper", {"how": "", "folder": str(theirs)}, lane=Lane.INTERACTIVE)
    hung = bench.enqueue(tenant, "w_tree", {"how": "", "folder": str(ours)})
    bench.enqueue(tenant, "t_quick")  # for the slot that has become free

    def watch() -> None:
        try:
            with connect(bench.url) as eye:
                state = b"select from batchproc.processing_jobs where job_id = %s and state = 'discarded'"
                wait_until(lambda: eye.execute(state, [hung]).fetchone() is not None, 30)
            tree = noted(ours, "tree") + noted(ours, "pids")
            assert len(tree) == TREE + 1
            assert [pid for pid in tree if alive(pid)] == []
            wait_until(lambda: not there(tree) and not unburied(), 1.0, "no zombie")
            others = noted(theirs, "tree") + noted(theirs, "helper")
            assert len(others) == TREE + 1
            assert [pid for pid in others if not alive(pid)] == []
        finally:
            (theirs / "end").touch()

    with meanwhile(watch):
        report = bench.run(RunOptions(workers=2), handlers=MODULES)

    assert report.counts.codes == {"timeout": 1}
    assert bench.job(helper)["state"] == "completed"
    assert [pid for pid in noted(theirs, "tree") if alive(pid)] == []


@pytest.mark.long
@pytest.mark.parametrize("how", FORKING)
def test_a_helper_that_forks_all_the_time_ends_in_time(tmp_path: Path, bench: Bench, how: str) -> None:
    tenant = bench.tenant("acme")
    hung = bench.enqueue(tenant, "w_tree", {"how": how, "folder": str(tmp_path)}, lane=Lane.INTERACTIVE)
    quick = bench.enqueue(tenant, "w_below")

    bench.run(RunOptions(workers=1), handlers=MODULES)

    [attempt] = bench.job(hung)["attempts"]
    assert attempt["failure_code"] == "timeout"
    assert (attempt["ended_at"] - attempt["started_at"]).total_seconds() < 5
    assert bench.job(quick)["result"]["below"] == []


@pytest.mark.long
def test_fifty_timeouts_leave_a_living_node_as_it_was(tmp_path: Path, temp_folder: Path, bench: Bench) -> None:
    tenant = bench.tenant("acme")

    def hang(times: int) -> None:
        jobs = [bench.enqueue(tenant, "w_short_tree", {"how": ""}) for _ in range(times)]
        wait_until(lambda: bench.states(jobs) == {"discarded": times}, 60)

    def holdings() -> tuple[object, ...]:
        backends = b"select count(*) from pg_stat_activity where application_name = %s and datname = current_database()"
        now = counts()
        folders = sorted(path.name.split("-")[0] for path in temp_folder.rglob("*") if "slot" in path.name)
        [[workers]] = bench.connection.execute(backends, [APPLICATION]).fetchall()
        return now.threads, now.descriptors, len(now.children), folders, workers

    def watch() -> None:
        try:
            wait_until(lambda: bench.rows("select 1 from batchproc.nodes"), 30)
            hang(12)  # what is only ever made once is made now
            before = wait_until(settled_holdings, 10, "every slot has its new worker, which has not met the database")
            hang(50)
            wait_until(lambda: holdings() == before, 10, f"{before} again, but {holdings()}")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    looks: list[tuple[object, ...]] = []

    def settled_holdings() -> tuple[object, ...] | None:
        """The last of many looks that all see the same."""
        looks.append(holdings())
        now = looks[-1]
        is_settled = now[-2:] == (["slot"] * 4, 0) and looks[-SAME_LOOKS:] == [now] * SAME_LOOKS
        return now if is_settled else None

    with meanwhile(watch):
        report = bench.run(RunOptions(workers=4, forever=True), handlers=MODULES)

    assert report.counts.codes == {"timeout": 62}


def test_what_a_completed_job_leaves_running_ends_before_the_next_job(tmp_path: Path, bench: Bench) -> None:
    tenant = bench.tenant("acme")
    leaves = bench.enqueue(tenant, "w_leaves", {"how": "", "folder": str(tmp_path)}, lane=Lane.INTERACTIVE)
    after = bench.enqueue(tenant, "w_below")

    bench.run(RunOptions(workers=1), handlers=MODULES)

    left = noted(tmp_path, "tree")
    assert len(left) == TREE
    assert there(left) == []
    assert bench.job(after)["result"] == {"pid": bench.job(leaves)["result"]["pid"], "below": []}, "the same worker"
