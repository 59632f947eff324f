"""Jobs that hang, crash, grow or fork, and processes killed from outside: each costs its own slot only."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Failed, Interrupted
from batchproc.engine.pool import processes, scales, verdict
from batchproc.engine.pool.worker_pool import Ended, WorkerPool
from tests.engine.pool_functions import Act
from tests.engine.pool_testing import (
    alive,
    all_begun,
    all_free,
    collect,
    forkserver_pid,
    marked,
    run,
    running_pool,
    traces,
    work,
)
from tests.waiting import wait_until

TREE = 7


def failure(ended: Ended) -> Failed:
    assert isinstance(ended.outcome, Failed), ended
    return ended.outcome


def worker_pids(pool: WorkerPool, slots: int) -> list[int]:
    """The children of the forkserver, when all slots are free."""
    all_free(pool, slots)

    def found() -> list[int]:
        pids = [stat.process.pid for stat in processes.descendants(forkserver_pid()) if stat.alive]
        return pids if len(pids) == slots else []

    return wait_until(found, what=f"{slots} workers")


def all_work_again(pool: WorkerPool, slots: int) -> None:
    all_free(pool, slots)
    for _ in range(slots):
        pool.submit(work(Act.QUICK))
    assert all(isinstance(item.outcome, Completed) for item in collect(pool, slots))


def test_four_hung_jobs_end_at_their_limit_and_the_others_never_notice(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=5) as pool:
        acts = [Act.HANG_IN_C, Act.HANG_IN_PYTHON, Act.HANG_DEAF, Act.STOP_ITSELF]
        for act in acts:
            pool.submit(work(act, 1.0))
        quick = 0
        ended: list[Ended] = []
        while len(ended) < 4:
            if pool.free():
                pool.submit(work(Act.QUICK))
            for item in collect(pool, 1):
                if item.work.job_id == Act.QUICK:
                    quick += 1
                    assert item.seconds < 1.0
                else:
                    ended.append(item)
        assert {item.work.job_id for item in ended} == set(acts)
        for item in ended:
            assert failure(item) == Failed(ErrorClass.TIMEOUT, "timeout", detail="ran longer than its limit of 1 s")
            assert item.killed
            assert 1.0 <= item.seconds < 1.8
            assert item.worker_pid is not None
            assert alive([item.worker_pid]) == []
        assert quick > 50
        pool.poll()
        wait_until(lambda: not pool.running())
        pool.poll()
        all_work_again(pool, 5)


def test_a_job_that_shows_no_progress_is_stalled(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        ended = run(pool, Act.GO_SILENT, 30, stall_timeout=0.4)
        assert failure(ended).error_class is ErrorClass.STALLED
        assert failure(ended).code == "stalled"
        assert 0.9 < ended.seconds < 2.0, "its beats put it off"
        assert ended.backend_pid == 4242
        assert isinstance(run(pool, Act.COUNT_PAGES, 30, stall_timeout=0.4).outcome, Completed)


@pytest.mark.parametrize(
    ("act", "error_class", "how"),
    [
        (Act.TREE_AND_HANG, ErrorClass.TIMEOUT, None),
        (Act.TREE_AND_SEGFAULT, ErrorClass.CRASHED, "killed by signal 11 (SIGSEGV)"),
        (Act.TREE_AND_EXIT_0, ErrorClass.CRASHED, "exit code 0"),
    ],
)
def test_the_whole_tree_of_a_dead_job_is_gone_before_it_is_reported(
    tmp_path: Path, act: Act, error_class: ErrorClass, how: str | None
) -> None:
    with running_pool(tmp_path) as pool:
        pool.submit(work(act, 1.5))
        [ended] = collect(pool, 1)
        assert failure(ended).error_class is error_class
        assert failure(ended).error_type == how
        assert len(traces(tmp_path)) >= TREE
        assert alive(traces(tmp_path)) == []
        assert ended.seconds < 3.0
        all_work_again(pool, 2)


def test_processes_that_keep_becoming_others_are_caught(tmp_path: Path) -> None:
    with running_pool(tmp_path) as pool:
        ended = run(pool, Act.COMETS, 0.5)
        assert failure(ended).error_class is ErrorClass.TIMEOUT
        assert ended.seconds < 2
        workers = worker_pids(pool, 2)
        assert len([pid for pid in marked() if pid not in workers]) == 2, "forkserver and resource tracker"


def test_a_runaway_is_stopped_before_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scales, "MAX_PROCESSES", 100)
    with running_pool(tmp_path) as pool:
        ended = run(pool, Act.RUNAWAY)
        assert failure(ended) == Failed(ErrorClass.CRASHED, "poison", "more than 100 processes")
        assert ended.seconds < 5
        wait_until(lambda: len(marked()) == 4)


@pytest.mark.parametrize(("act", "children"), [(Act.GROW, False), (Act.GROW_IN_CHILDREN, True)])
def test_a_tree_above_the_memory_limit_is_out_of_memory(tmp_path: Path, act: Act, children: bool) -> None:
    with running_pool(tmp_path, workers=1, memory_limit_mb=200) as pool:
        ended = run(pool, act)
        assert (failure(ended).error_class, failure(ended).code) == (ErrorClass.OUT_OF_MEMORY, "out_of_memory")
        assert "limit 200 MiB" in (failure(ended).detail or "")
        assert ended.seconds < 5
        assert isinstance(run(pool, Act.QUICK).outcome, Completed)


def test_every_way_to_die_is_a_crash_with_its_name(tmp_path: Path) -> None:
    ways = {
        Act.EXIT_0: "exit code 0",
        Act.EXIT_3: "exit code 3",
        Act.EXIT_255: "exit code 255",
        Act.ABORT: "killed by signal 6 (SIGABRT)",
        Act.SEGFAULT: "killed by signal 11 (SIGSEGV)",
        Act.KILL_ITSELF: "killed by signal 9 (SIGKILL)",
    }
    with running_pool(tmp_path) as pool:
        for act, how in ways.items():
            ended = run(pool, act)
            assert failure(ended) == Failed(ErrorClass.CRASHED, "poison", how)
            assert ended.killed
            assert ended.seconds < 1.5
        all_work_again(pool, 2)


def test_a_worker_killed_while_it_answers_leaves_no_pool_that_hangs(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        for _ in range(3):
            ended = run(pool, Act.DIE_WHILE_ANSWERING)
            assert failure(ended) == Failed(ErrorClass.CRASHED, "poison", "killed by signal 9 (SIGKILL)")
            assert ended.seconds < 1.5
        assert isinstance(run(pool, Act.LARGE).outcome, Completed)


def test_idle_workers_that_are_killed_are_replaced_silently(tmp_path: Path) -> None:
    with running_pool(tmp_path) as pool:
        pids = worker_pids(pool, 2)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pids))
        all_free(pool, 2)
        assert pool.poll() == []
        all_work_again(pool, 2)
        assert pool.fault() is None


def test_a_job_given_to_a_worker_that_just_died_goes_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchproc.engine.pool.slot.Slot.worker_died", lambda slot, worker: None)  # only pebble notices
    with running_pool(tmp_path, workers=1) as pool:
        for _ in range(5):
            [pid] = worker_pids(pool, 1)
            os.kill(pid, signal.SIGKILL)
            pool.submit(work(Act.QUICK))
            [ended] = collect(pool, 1)
            assert isinstance(ended.outcome, Completed)
            assert ended.worker_pid != pid


def test_a_job_that_a_stopped_worker_does_not_take_goes_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "TAKE_SECONDS", 0.5)
    with running_pool(tmp_path, workers=1) as pool:
        [pid] = worker_pids(pool, 1)
        os.kill(pid, signal.SIGSTOP)
        ended = run(pool, Act.QUICK)
        assert isinstance(ended.outcome, Completed)
        assert ended.worker_pid != pid
        assert alive([pid]) == []


def test_killing_every_worker_again_and_again_loses_nothing(tmp_path: Path) -> None:
    with running_pool(tmp_path) as pool:
        for _ in range(5):
            all_free(pool, 2)
            for _ in range(2):
                pool.submit(work(Act.HANG_IN_C))
            all_begun(pool)
            for running in pool.running():
                assert running.worker_pid is not None
                os.kill(running.worker_pid, signal.SIGKILL)
            for item in collect(pool, 2):
                assert failure(item).error_type == "killed by signal 9 (SIGKILL)"
        all_work_again(pool, 2)


def test_the_death_of_the_forkserver_is_charged_to_what_ran_and_is_mended(tmp_path: Path) -> None:
    with running_pool(tmp_path) as pool:
        pool.submit(work(Act.TREE_AND_HANG))
        wait_until(lambda: len(traces(tmp_path)) >= TREE)
        server = forkserver_pid()
        os.kill(server, signal.SIGKILL)
        [ended] = collect(pool, 1)
        assert (failure(ended).error_class, failure(ended).code) == (ErrorClass.LEASE_EXPIRED, "forkserver_died")
        all_work_again(pool, 2)
        assert forkserver_pid() != server
        assert [pid for pid in alive(traces(tmp_path)) if pid in marked()] == []
        for pid in alive(traces(tmp_path)):  # without parent, session or environment nothing tells whose it is
            os.kill(pid, signal.SIGKILL)


def test_a_stopped_forkserver_hinders_no_kill_and_is_continued(tmp_path: Path) -> None:
    with running_pool(tmp_path) as pool:
        os.kill(forkserver_pid(), signal.SIGSTOP)
        ended = run(pool, Act.HANG_IN_C, 0.5)
        assert failure(ended).error_class is ErrorClass.TIMEOUT
        assert ended.seconds < 1.5
        all_work_again(pool, 2)


def test_the_death_of_the_resource_tracker_goes_unnoticed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from multiprocessing import resource_tracker

    with running_pool(tmp_path) as pool:
        pid: Any = resource_tracker._resource_tracker._pid  # type: ignore[attr-defined] # not in typeshed
        os.kill(pid, signal.SIGKILL)
        run(pool, Act.EXIT_3)
        all_work_again(pool, 2)
        workers = worker_pids(pool, 2)
        os.kill(forkserver_pid(), signal.SIGKILL)
        wait_until(lambda: not alive(workers), what="its workers dead")  # a job they had begun would fail
        all_work_again(pool, 2)
    assert "Warning" not in capfd.readouterr().err


def test_a_clock_that_is_set_interrupts_and_is_no_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        pool.submit(work(Act.HANG_IN_C, 60))
        wait_until(lambda: _taken(pool))
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + 3600)
        [ended] = collect(pool, 1)
        assert ended.outcome == Interrupted("clock")
        monkeypatch.undo()
        all_work_again(pool, 1)


def test_a_slot_that_gets_no_worker_any_more_is_a_fault_and_its_job_is_not_lost(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1, start_attempts=2) as pool:
        (tmp_path / "work").rename(tmp_path / "elsewhere")
        [pid] = worker_pids(pool, 1)
        os.kill(pid, signal.SIGKILL)
        pool.submit(work(Act.QUICK))
        [ended] = collect(pool, 1)
        assert ended.outcome == Interrupted("no worker for it")
        fault = pool.fault()
        assert fault is not None
        assert "slot 0 has no worker: FileNotFoundError" in str(fault)
        assert pool.free() == 0
        (tmp_path / "elsewhere").rename(tmp_path / "work")


def test_a_job_that_waits_for_a_worker_can_be_cancelled(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1, start_attempts=50) as pool:
        [pid] = worker_pids(pool, 1)
        (tmp_path / "work").rename(tmp_path / "elsewhere")
        os.kill(pid, signal.SIGSTOP)  # so that it is there to be given the job, and never begins it
        job = work(Act.HANG_IN_C)
        pool.submit(job)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive([pid]))
        assert pool.cancel(job.claim_id)
        [ended] = collect(pool, 1)
        assert ended.outcome == Cancelled()
        (tmp_path / "elsewhere").rename(tmp_path / "work")
        all_work_again(pool, 1)


def test_workers_that_die_unused_are_replaced_more_and_more_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchproc.engine.pool.keeper._MAX_BARREN", 3)
    with running_pool(tmp_path, workers=1) as pool:
        begin = time.monotonic()
        for _ in range(3):
            os.kill(worker_pids(pool, 1)[0], signal.SIGKILL)
            wait_until(lambda: not pool.free())
        [pid] = worker_pids(pool, 1)
        assert time.monotonic() - begin > 0.1 + 0.2 + 0.4
        os.kill(pid, signal.SIGKILL)
        fault = wait_until(pool.fault)
        assert "end as soon as they are started, the last one died: killed by signal 9" in str(fault)


def test_a_forkserver_that_is_not_ours_is_replaced(tmp_path: Path) -> None:
    from multiprocessing import forkserver as stdlib_forkserver

    with running_pool(tmp_path, workers=1) as pool:
        server = forkserver_pid()
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: not alive([server]))
        stdlib_forkserver.ensure_running()
        all_work_again(pool, 1)
        assert forkserver_pid() in marked()


def _taken(pool: WorkerPool) -> bool:
    """Whether pebble has noted that the worker took its job, from when on its own limit counts."""
    bundle = pool._slots[0].bundle
    return bundle is not None and bundle.future is not None and bundle.future.running()


def test_limits_are_enforced_while_the_dispatcher_is_stuck(tmp_path: Path) -> None:
    with running_pool(tmp_path) as pool:
        pool.submit(work(Act.HANG_IN_C, 0.3))
        [pid] = [running.worker_pid for running in pool.running() if running.worker_pid]
        wait_until(lambda: not alive([pid]), what="killed without a call of poll")
        [ended] = collect(pool, 1)
        assert failure(ended).error_class is ErrorClass.TIMEOUT
