"""The pool in ordinary life: workers set up, jobs run, results and progress returned, workers replaced."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from batchproc.core.errors import EnvironmentFault
from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Failed, Interrupted
from batchproc.engine.pool.worker_pool import Ended, Entry, PoolOptions, Work, WorkerPool
from tests.engine import pool_functions
from tests.engine.pool_functions import Act
from tests.engine.pool_testing import (
    NODE,
    all_begun,
    all_free,
    collect,
    forkserver_pid,
    marked,
    run,
    running_pool,
    work,
)
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pool")


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[WorkerPool]:
    with running_pool(folder, nice=1) as pool:
        yield pool


@pytest.fixture
def pool(shared: WorkerPool) -> WorkerPool:
    all_free(shared, 2)
    return shared


def test_jobs_run_and_their_outcomes_come_back(pool: WorkerPool) -> None:
    first, second = work(Act.QUICK), work(Act.FAIL_AS_DECLARED)
    slots = {pool.submit(first): first, pool.submit(second): second}
    assert pool.free() == 0 or len(slots) == 2
    ended = {item.work.claim_id: item for item in collect(pool, 2)}
    one, other = ended[first.claim_id], ended[second.claim_id]
    assert one.outcome == Completed(str(one.worker_pid))
    assert other.outcome == Failed(ErrorClass.PERMANENT, "unreadable_file", "ValueError at x.py:1", "page 3")
    assert slots == {one.slot: first, other.slot: second}
    assert not one.killed
    assert 0 < one.seconds < 5


def test_one_job_per_slot_and_no_more(pool: WorkerPool) -> None:
    pool.submit(work(Act.COUNT_PAGES))
    pool.submit(work(Act.COUNT_PAGES))
    assert pool.free() == 0
    with pytest.raises(RuntimeError, match="no slot is free"):
        pool.submit(work(Act.QUICK))
    assert len(collect(pool, 2)) == 2
    assert pool.free() == 2


def test_a_worker_is_reused(pool: WorkerPool) -> None:
    pids = {run(pool, Act.QUICK).worker_pid for _ in range(20)}
    assert len(pids) <= 2


@pytest.fixture(scope="module")
def described(shared: WorkerPool) -> dict[str, Any]:
    ended = run(shared, Act.DESCRIBE)
    assert isinstance(ended.outcome, Completed)
    assert ended.outcome.result is not None
    found: dict[str, Any] = json.loads(ended.outcome.result)
    return found


def test_a_worker_is_alone_in_its_session(described: dict[str, Any]) -> None:
    assert described["group"] == described["session"] == described["pid"]
    assert described["sigterm"]
    assert described["blocked"] == []


def test_a_worker_is_the_first_to_go_when_memory_is_short(described: dict[str, Any]) -> None:
    assert described["oom"] == 900
    assert described["core"] == 0
    assert described["nice"] == os.nice(0) + 1


def test_a_worker_and_what_it_starts_bear_its_marker(described: dict[str, Any]) -> None:
    assert described["marker"].startswith(f"{NODE}:")
    assert f"BATCHPROC_SLOT={described['marker']}" in described["environment"]
    assert described["subprocess"] == [described["marker"], described["workdir"], "1"]


def test_a_worker_has_a_private_temp_folder(described: dict[str, Any], folder: Path) -> None:
    workdir = Path(described["workdir"])
    assert Path(described["tempdir"]) == workdir
    assert described["temp_mode"] == 0o700
    assert workdir.is_relative_to(folder / "work")
    assert (folder / "work").stat().st_mode & 0o777 == 0o700


def test_a_worker_takes_nothing_along_from_the_node(described: dict[str, Any]) -> None:
    assert described["inheritable"] == []
    assert described["leaked"] == []
    assert described["stdout"], "what a handler prints goes to standard error"
    assert described["main"] is None, "the node's main module is not imported"
    assert [path for path in described["path"] if path] == [path for path in sys.path if path]


def test_progress_is_seen_while_the_job_runs(pool: WorkerPool) -> None:
    job = work(Act.COUNT_PAGES)
    slot = pool.submit(job)
    submitted = time.monotonic()

    def halfway() -> bool:
        [running] = pool.running()
        assert (running.slot, running.work) == (slot, job)
        assert running.started <= submitted
        assert running.worker_pid is not None
        return 4 <= running.progress.done <= 9 and running.progress.total == 10

    wait_until(halfway)
    collect(pool, 1)
    assert pool.running() == []


@pytest.mark.parametrize(
    ("act", "error_type"),
    [
        (Act.RAISE, "ValueError at pool_functions.py:"),
        (Act.SYS_EXIT, "SystemExit at pool_functions.py:"),
        (Act.NOT_JSON, "TypeError at reply.py:"),
        (Act.NOT_AN_OUTCOME, "TypeError at reply.py:"),
        (Act.NOT_PLAIN, "TypeError at encoder.py:"),
    ],
)
def test_what_is_no_outcome_is_an_internal_error_and_costs_no_worker(
    pool: WorkerPool, act: Act, error_type: str
) -> None:
    before = {run(pool, Act.QUICK).worker_pid for _ in range(2)}
    ended = run(pool, act)
    assert isinstance(ended.outcome, Failed)
    assert (ended.outcome.error_class, ended.outcome.code) == (ErrorClass.TRANSIENT, "internal_error")
    assert error_type in (ended.outcome.error_type or "")
    assert "quote" not in f"{ended.outcome}", "an exception's own text stays in the worker"
    assert not ended.killed
    assert ended.worker_pid in before


def test_a_large_outcome_comes_through_and_a_too_large_one_does_not(pool: WorkerPool) -> None:
    large = run(pool, Act.LARGE).outcome
    assert isinstance(large, Completed)
    assert len(large.result or "") == 1_000_000
    too_large = run(pool, Act.TOO_LARGE).outcome
    assert isinstance(too_large, Failed)
    assert (too_large.error_class, too_large.code) == (ErrorClass.PERMANENT, "result_too_large")


def test_a_cancelled_job_is_killed_and_no_other(pool: WorkerPool) -> None:
    doomed, other = work(Act.HANG_IN_C), work(Act.COUNT_PAGES)
    pool.submit(doomed)
    pool.submit(other)
    all_begun(pool)
    assert pool.cancel(doomed.claim_id)
    assert not pool.cancel(uuid4())
    ended = {item.work.claim_id: item for item in collect(pool, 2)}
    assert ended[doomed.claim_id].outcome == Cancelled()
    assert ended[doomed.claim_id].killed
    assert isinstance(ended[other.claim_id].outcome, Completed)


def test_running_jobs_are_interrupted_and_the_pool_goes_on(pool: WorkerPool) -> None:
    pool.submit(work(Act.HANG_IN_PYTHON))
    pool.submit(work(Act.HANG_DEAF))
    pool.interrupt("cut off")
    assert [item.outcome for item in collect(pool, 2)] == [Interrupted("cut off")] * 2
    assert isinstance(run(pool, Act.QUICK).outcome, Completed)


def test_throughput_does_not_collapse(pool: WorkerPool) -> None:
    """3,500 to 5,300 jobs a second were measured on two cores; this is only against a step back by a magnitude."""
    count, submitted, ended = 1200, 0, 0
    begin = time.monotonic()
    while ended < count:
        while submitted < count and pool.free():
            pool.submit(work(Act.QUICK))
            submitted += 1
        assert select.select([pool.wakeup_fileno()], [], [], 10)[0], "an ending and a free slot both wake"
        ended += len(pool.poll())
    assert count / (time.monotonic() - begin) > 300


def test_a_worker_is_replaced_after_its_number_of_jobs(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1, max_jobs_per_worker=3) as pool:
        pids = [run(pool, Act.QUICK).worker_pid for _ in range(7)]
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]
        all_free(pool, 1)
        wait_until(lambda: len(list((tmp_path / "work").iterdir())) == 1, what="the old workers' folders gone")


def test_a_signal_that_reaches_a_worker_before_its_node_heeds_it_is_the_shutdown(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        pool.submit(work(Act.HANG_IN_PYTHON))
        all_begun(pool)
        [running] = pool.running()
        assert running.worker_pid is not None
        os.kill(running.worker_pid, signal.SIGTERM)
        killed = time.monotonic()
        wait_until(lambda: time.monotonic() > killed + 0.5, what="longer than a crash takes to be told")
        assert not pool.poll()
        pool.drain()
        [ended] = collect(pool, 1)
        assert ended.outcome == Interrupted("shutdown")


def test_a_draining_pool_tells_its_handlers_and_replaces_nobody(tmp_path: Path) -> None:
    with running_pool(tmp_path) as pool:
        pool.submit(work(Act.WAIT_FOR_STOP))
        pool.submit(work(Act.HANG_IN_C))
        all_begun(pool)
        hanging = next(r for r in pool.running() if r.work.job_id == Act.HANG_IN_C)
        pool.drain()
        [ended] = collect(pool, 1)
        assert ended.outcome == Completed("stopped")
        assert hanging.worker_pid is not None
        os.kill(hanging.worker_pid, signal.SIGTERM)
        [ended] = collect(pool, 1)
        assert ended.outcome == Interrupted("shutdown")
        assert pool.free() == 1


def test_a_module_missing_in_the_worker_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here_only.py").write_text("def run(job_id, claim_id): pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    function = __import__("here_only").run
    (tmp_path / "here_only.py").unlink()
    options = PoolOptions(workers=1, node_id=NODE, workdir=tmp_path / "work", start_attempts=1)
    pool = WorkerPool(options, Entry(function, pool_functions.initialize, ("",)))
    with pytest.raises(EnvironmentFault, match="ModuleNotFoundError: No module named 'here_only'"):
        pool.start()
    assert "Traceback" not in capfd.readouterr().err


def test_an_entry_of_the_main_module_is_refused(tmp_path: Path) -> None:
    def function(job_id: int, claim_id: UUID) -> Completed:
        return Completed()

    options = PoolOptions(workers=1, node_id=NODE, workdir=tmp_path)
    with pytest.raises(ValueError, match="cannot be sent to a worker"):
        WorkerPool(options, Entry(function, pool_functions.initialize))
    function.__module__ = "__main__"
    with pytest.raises(ValueError, match="must be in a module"):
        WorkerPool(options, Entry(function, pool_functions.initialize))


def test_preloading_never_fails_the_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module.py").write_text("raise ValueError\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with running_pool(tmp_path, workers=1, preload=("no.such.module", "broken_module")) as pool:
        assert isinstance(run(pool, Act.QUICK).outcome, Completed)
        assert forkserver_pid() in marked()


def test_endings_are_plain(pool: WorkerPool) -> None:
    ended = run(pool, Act.QUICK)
    assert isinstance(ended, Ended)
    assert isinstance(ended.work, Work)
    assert pool.poll() == []
    assert pool.fault() is None
