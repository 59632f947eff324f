"""Bundles: several jobs in one go, each told, limited, charged and ended by itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Failed, Interrupted, Outcome
from batchproc.engine.pool import verdict
from batchproc.engine.pool.worker_pool import Ended, Work, WorkerPool
from tests.engine.pool_functions import Act
from tests.engine.pool_testing import alive, all_free, collect, forkserver_pid, run, running_pool, work
from tests.waiting import wait_until

SOON = 0.6
"""Seconds within which an outcome is told while a long job goes on: a twelfth of that is usual."""


def submitted(pool: WorkerPool, *acts: Act, timeout: float = 30.0, stall_timeout: float | None = None) -> list[Work]:
    works = [work(act, timeout, stall_timeout) for act in acts]
    pool.submit(*works)
    return works


def outcomes(ended: Sequence[Ended], works: Sequence[Work]) -> list[Outcome]:
    """In the order of the bundle; each once."""
    found = {item.work.claim_id: item.outcome for item in ended}
    assert len(found) == len(ended) == len(works)
    return [found[job.claim_id] for job in works]


def all_completed(ended: Sequence[Ended], works: Sequence[Work]) -> bool:
    return all(isinstance(outcome, Completed) for outcome in outcomes(ended, works))


def at_job(pool: WorkerPool, job: Work) -> int:
    """Waits until the only worker has begun with it; its pid."""

    def begun() -> int | None:
        [running] = pool.running()
        is_begun = running.work == job and running.progress.begun_monotonic
        return running.worker_pid if is_begun else None

    return wait_until(begun, what=f"job {job.job_id} begun")


def classes(found: Sequence[Outcome]) -> list[str]:
    return [outcome.error_class if isinstance(outcome, Failed) else type(outcome).__name__ for outcome in found]


def test_outcomes_are_told_while_a_long_job_of_the_bundle_goes_on(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        works = submitted(pool, Act.QUICK, Act.FAIL_AS_DECLARED, Act.COUNT_PAGES, Act.QUICK)
        first = collect(pool, 2, SOON)
        assert classes(outcomes(first, works[:2])) == ["Completed", "permanent"]
        assert not any(item.killed for item in first)
        [running] = pool.running()
        assert running.work == works[2]
        assert pool.bundles() == [[job.claim_id for job in works[2:]]]
        assert pool.free() == 0
        rest = collect(pool, 2)
        assert all_completed(rest, works[2:])
        assert [item.seconds > 0.9 for item in rest] == [True, False], "each has its own time"
        assert {item.worker_pid for item in first} == {item.worker_pid for item in rest}
        assert pool.bundles() == []


@pytest.mark.parametrize(
    ("act", "expected", "within"),
    [
        (Act.HANG_IN_C, Failed(ErrorClass.TIMEOUT, "timeout", detail="ran longer than its limit of 0.8 s"), 1.8),
        (Act.SEGFAULT, Failed(ErrorClass.CRASHED, "poison", "killed by signal 11 (SIGSEGV)"), 1.5),
        (Act.EXIT_0, Failed(ErrorClass.CRASHED, "poison", "exit code 0"), 1.5),
        (Act.KILL_ITSELF, Failed(ErrorClass.CRASHED, "poison", "killed by signal 9 (SIGKILL)"), 1.5),
        (Act.TREE_AND_EXIT_0, Failed(ErrorClass.CRASHED, "poison", "exit code 0"), 3.0),
    ],
)
def test_only_the_job_that_the_worker_was_lost_with_is_charged(
    tmp_path: Path, act: Act, expected: Failed, within: float
) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        works = submitted(pool, Act.QUICK, Act.QUICK, act, Act.QUICK, Act.HANG_IN_C, timeout=0.8)
        ended = collect(pool, 5)
        found = outcomes(ended, works)
        assert classes(found[:2]) == ["Completed", "Completed"]
        assert found[2] == expected
        assert found[3:] == [verdict.NEIGHBOUR] * 2
        by_claim = {item.work.claim_id: item for item in ended}
        assert by_claim[works[2].claim_id].seconds < within
        assert [by_claim[job.claim_id].seconds for job in works[3:]] == [0.0, 0.0]
        assert all(by_claim[job.claim_id].killed for job in works[2:])
        assert isinstance(run(pool, Act.QUICK).outcome, Completed)


def test_a_job_that_eats_memory_is_charged_alone(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1, memory_limit_mb=200) as pool:
        works = submitted(pool, Act.QUICK, Act.GROW, Act.QUICK)
        assert classes(outcomes(collect(pool, 3), works)) == ["Completed", "out_of_memory", "Interrupted"]


def test_every_job_has_its_own_limits_from_its_own_begin(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=2) as pool:
        works = submitted(pool, *[Act.COUNT_PAGES] * 3, timeout=1.8, stall_timeout=0.7)
        stalls = submitted(pool, Act.COUNT_PAGES, Act.GO_SILENT, Act.QUICK, stall_timeout=0.7)
        ended = collect(pool, 6)
        assert all_completed([item for item in ended if item.work in works], works)
        found = outcomes([item for item in ended if item.work in stalls], stalls)
        assert classes(found) == ["Completed", "stalled", "Interrupted"]


def test_a_job_that_has_not_begun_is_cancelled_at_once_and_no_worker_dies(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        works = submitted(pool, Act.COUNT_PAGES, Act.HANG_IN_C, Act.QUICK)
        at_job(pool, works[0])
        assert pool.cancel(works[1].claim_id)
        [cancelled] = collect(pool, 1, SOON)
        assert (cancelled.work, cancelled.outcome, cancelled.killed) == (works[1], Cancelled(), False)
        assert not pool.cancel(works[1].claim_id)
        rest = collect(pool, 2)
        assert all_completed(rest, [works[0], works[2]])
        assert len({item.worker_pid for item in rest}) == 1
        all_free(pool, 1)
        assert pool.poll() == [], "the cancelled one was never begun"


def test_a_job_that_has_begun_is_cancelled_by_its_workers_death(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        works = submitted(pool, Act.QUICK, Act.HANG_IN_C, Act.QUICK)
        pid = at_job(pool, works[1])
        cancelled = time.monotonic()
        assert pool.cancel(works[1].claim_id)
        ended = collect(pool, 3)
        assert time.monotonic() - cancelled < 1.0
        found = outcomes(ended, works)
        assert [type(outcome) for outcome in found] == [Completed, Cancelled, Interrupted]
        assert alive([pid]) == []


def test_every_job_but_the_running_one_goes_back_at_once_when_the_pool_drains(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        works = submitted(pool, Act.WAIT_FOR_STOP, *[Act.QUICK] * 3)
        at_job(pool, works[0])
        pool.drain()
        ended = collect(pool, 4)
        found = outcomes(ended, works)
        assert found == [Completed("stopped"), *[Interrupted("the node is shutting down")] * 3]
        assert not any(item.killed for item in ended)
        all_free(pool, 1)


def test_jobs_that_come_while_the_pool_drains_are_not_lost(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        pool.drain()
        works = submitted(pool, Act.QUICK, Act.QUICK)
        assert all_completed(collect(pool, 2), works)


def test_a_whole_bundle_is_interrupted(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        works = submitted(pool, Act.QUICK, Act.HANG_IN_C, Act.QUICK)
        at_job(pool, works[1])
        pool.interrupt("cut off")
        found = outcomes(collect(pool, 3), works)
        assert isinstance(found[0], Completed)
        assert found[1:] == [Interrupted("cut off")] * 2
        assert isinstance(run(pool, Act.QUICK).outcome, Completed)


def test_a_bundle_is_one_job_of_those_after_which_a_worker_is_replaced(tmp_path: Path) -> None:
    """Starting a worker takes longer than hundreds of quick jobs."""
    with running_pool(tmp_path, workers=1, max_jobs_per_worker=3) as pool:
        pids = []
        for _ in range(7):
            wait_until(pool.free, what="a free slot")
            works = submitted(pool, *[Act.QUICK] * 5)
            ended = collect(pool, 5)
            assert all_completed(ended, works)
            pids += [item.worker_pid for item in ended]
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [15, 15, 5]


def test_a_worker_left_unfit_in_the_middle_of_a_bundle_does_no_more_of_it(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        works = submitted(pool, Act.QUICK, Act.DECLARE_UNFIT, Act.QUICK, Act.QUICK)
        ended = collect(pool, 4)
        assert all_completed(ended, works)
        pids = [item.worker_pid for item in ended]
        assert pids[0] == pids[1] != pids[2] == pids[3]


@pytest.mark.parametrize("act", [Act.LARGE, Act.MIDDLING])
def test_outcomes_of_any_size_come_through_and_cost_no_worker(tmp_path: Path, act: Act) -> None:
    """Large ones go by another way; of middling ones there are more than are held at a time."""
    with running_pool(tmp_path, workers=1) as pool:
        acts = [Act.QUICK, act] * 20
        works = submitted(pool, *acts)
        ended = collect(pool, len(acts))
        found = outcomes(ended, works)
        sizes = {len(outcome.result or "") for outcome in found[1::2] if isinstance(outcome, Completed)}
        assert sizes == {1_000_000 if act is Act.LARGE else 5_000}
        assert len({item.worker_pid for item in ended}) == 1


def test_a_large_outcome_that_the_worker_dies_with_costs_its_own_job_only(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        works = submitted(pool, Act.QUICK, Act.DIE_WHILE_ANSWERING, Act.QUICK)
        assert classes(outcomes(collect(pool, 3), works)) == ["Completed", "crashed", "Interrupted"]


def test_a_job_that_writes_over_all_outcomes_loses_no_job(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        works = submitted(pool, Act.QUICK, Act.SCRIBBLE, Act.QUICK)
        for outcome in outcomes(collect(pool, 3), works):
            assert isinstance(outcome, Completed) or (isinstance(outcome, Failed) and outcome.code == "internal_error")
        assert isinstance(run(pool, Act.QUICK).outcome, Completed)


def test_a_job_that_closes_every_descriptor_loses_no_outcome(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        works = submitted(pool, Act.QUICK, Act.CLOSE_ALL, Act.QUICK)
        ended = collect(pool, 3)
        assert all_completed(ended, works)
        assert isinstance(run(pool, Act.QUICK).outcome, Completed)


def test_the_death_of_the_forkserver_is_charged_to_the_running_job_alone(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        works = submitted(pool, Act.QUICK, Act.HANG_IN_C, Act.QUICK)
        at_job(pool, works[1])
        os.kill(forkserver_pid(), signal.SIGKILL)
        found = outcomes(collect(pool, 3), works)
        assert classes(found) == ["Completed", "lease_expired", "Interrupted"]


def test_a_bundle_that_its_worker_never_took_goes_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "TAKE_SECONDS", 0.5)
    with running_pool(tmp_path, workers=1) as pool:
        pid = run(pool, Act.QUICK).worker_pid
        assert pid is not None
        all_free(pool, 1)
        os.kill(pid, signal.SIGSTOP)
        works = submitted(pool, Act.QUICK, Act.QUICK)
        ended = collect(pool, 2)
        assert all_completed(ended, works)
        assert pid not in {item.worker_pid for item in ended}


@pytest.mark.parametrize("number", [signal.SIGKILL, None], ids=["killed", "stopped"])
def test_a_worker_lost_between_two_jobs_is_charged_to_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals | None
) -> None:
    monkeypatch.setattr(verdict, "TAKE_SECONDS", 0.5)
    with running_pool(tmp_path, workers=1) as pool:
        works = submitted(pool, Act.FALL_IDLE, Act.QUICK, Act.QUICK)
        [first] = collect(pool, 1)
        assert first.worker_pid is not None
        if number is not None:
            os.kill(first.worker_pid, number)
        rest = collect(pool, 2)
        assert all_completed([first, *rest], works)
        assert first.worker_pid not in {item.worker_pid for item in rest}


def test_a_job_cancelled_while_its_bundle_waits_for_a_worker_never_runs(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1, start_attempts=50) as pool:
        pid = run(pool, Act.QUICK).worker_pid
        assert pid is not None
        all_free(pool, 1)
        os.kill(pid, signal.SIGSTOP)
        works = submitted(pool, Act.QUICK, Act.HANG_IN_C, Act.QUICK)
        assert pool.cancel(works[1].claim_id)
        [cancelled] = collect(pool, 1, SOON)
        assert cancelled.outcome == Cancelled()
        os.kill(pid, signal.SIGKILL)
        assert all_completed(collect(pool, 2), [works[0], works[2]])


def test_bundles_without_end_lose_nothing_through_kills(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=2, max_jobs_per_worker=2) as pool:
        given: dict[UUID, Work] = {}
        ended: list[Ended] = []
        for turn in range(12):
            wait_until(pool.free, what="a free slot")
            acts = [Act.QUICK] * 20
            if turn % 3 == 0:
                acts[turn] = Act.KILL_ITSELF
            given.update((job.claim_id, job) for job in submitted(pool, *acts))
            ended += pool.poll()
        ended += collect(pool, len(given) - len(ended))
        assert sorted(map(str, given)) == sorted(str(item.work.claim_id) for item in ended)
        crashed = [item.work.job_id for item in ended if isinstance(item.outcome, Failed)]
        assert crashed == [Act.KILL_ITSELF] * 4
