"""What a slot does about what should not be: processes that do not die, errors that nobody thought of."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from batchproc.core.outcome import Completed, ErrorClass, Failed
from batchproc.engine.pool import keeper, process_tree, processes
from batchproc.engine.pool.process_tree import Origin
from batchproc.engine.pool.worker_handle import WorkerHandle
from batchproc.engine.pool.worker_pool import Ended
from tests.engine.pool_functions import Act
from tests.engine.pool_testing import all_begun, all_free, collect, forkserver_pid, holdings, run, running_pool, work
from tests.waiting import wait_until


def failure(ended: Ended) -> Failed:
    assert isinstance(ended.outcome, Failed), ended
    return ended.outcome


def worker_pids_below() -> list[int]:
    return [stat.process.pid for stat in processes.descendants(forkserver_pid()) if stat.alive]


def _raise_lookup_error(*_: object) -> None:
    raise LookupError("nobody thought of it")


@contextlib.contextmanager
def logged() -> Iterator[list[str]]:
    """The lines of the log meanwhile."""
    lines: list[str] = []
    number = logger.add(lines.append, format="{message}")
    try:
        yield lines
    finally:
        logger.remove(number)


def test_a_slot_is_not_free_before_all_its_processes_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process can be stuck in the kernel, where no signal reaches it."""
    gone = threading.Event()
    limits: list[float] = []

    def kill_tree(origin: Origin, known: Any, limit: float) -> list[processes.ProcessId]:
        limits.append(limit)
        left = really_kill(origin, known, limit)
        return left if gone.is_set() else [origin.root]

    really_kill = process_tree.kill_tree
    monkeypatch.setattr(keeper, "_KILL_AGAIN_SECONDS", 0.05)
    with running_pool(tmp_path, workers=1) as pool, logged() as lines:
        monkeypatch.setattr(process_tree, "kill_tree", kill_tree)
        ended = run(pool, Act.HANG_IN_C, 0.2)
        assert failure(ended).error_class is ErrorClass.TIMEOUT, "it is reported"
        assert pool.free() == 0
        wait_until(lambda: len(limits) >= 4, what="killed again and again")
        assert min(limits) > 0
        assert len([line for line in lines if "do not die" in line]) == 1
        gone.set()
        all_free(pool, 1)
        assert isinstance(run(pool, Act.QUICK).outcome, Completed)


@pytest.mark.parametrize("at", ["how_it_ended", "start"])
def test_a_slot_that_fails_in_a_way_nobody_thought_of_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    with running_pool(tmp_path, workers=2) as pool:
        pool.submit(work(Act.WAIT_FOR_STOP))
        all_begun(pool)
        before = holdings(tmp_path)
        idle = set(worker_pids_below()) - {running.worker_pid for running in pool.running()}
        with monkeypatch.context() as patched:
            patched.setattr(WorkerHandle, at, _raise_lookup_error)
            os.kill(idle.pop(), signal.SIGKILL)
            fault = wait_until(pool.fault)
        assert "slot 1 has no worker: LookupError" in str(fault) or "slot 0 has no worker: LookupError" in str(fault)
        slots_own = {"threads": 3, "processes": 1, "folders": 1}
        left = {name: before[name] - held for name, held in slots_own.items()}
        wait_until(lambda: {name: holdings(tmp_path)[name] for name in left} == left, what=f"{left} of {before}")
        assert holdings(tmp_path)["descriptors"] < before["descriptors"]
        pool.drain()
        [ended] = collect(pool, 1)
        assert ended.outcome == Completed("stopped")


def test_a_limit_that_passes_before_the_job_was_loaded_is_not_the_jobs(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        for timeout, stall_timeout in ((30.0, 0.4), (0.4, None)):
            found = failure(run(pool, Act.LOAD_WITHOUT_END, timeout, stall_timeout))
            assert (found.error_class, found.code) == (ErrorClass.STORAGE_UNAVAILABLE, "storage_unavailable")
        assert failure(run(pool, Act.HANG_IN_C, 0.4)).error_class is ErrorClass.TIMEOUT, "the next job's own"
