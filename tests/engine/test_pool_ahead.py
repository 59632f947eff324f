"""Bundles that wait behind quick jobs: gone on with at once, and never lost, late or charged."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from uuid import UUID

import pytest

from batchproc.core.ahead import MOST_TOGETHER, MOST_WAITING, QUICK_SECONDS
from batchproc.core.outcome import Cancelled, Completed, Failed, Interrupted, Outcome
from batchproc.engine.pool import slot
from batchproc.engine.pool.child_setup import Reply
from batchproc.engine.pool.verdict import NEIGHBOUR
from batchproc.engine.pool.worker_handle import WorkerHandle
from batchproc.engine.pool.worker_pool import Ended, NoFreeSlot, Work, WorkerPool
from tests.engine.pool_functions import NAP_SECONDS, Act
from tests.engine.pool_testing import all_begun, all_free, collect, make_pool, running_pool, work
from tests.waiting import wait_until

LATE = slot.AHEAD_SECONDS + 1.0
"""Seconds within which what waits behind a job that is not quick is given back."""


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a short nap may take longer than anything waits."""
    monkeypatch.setattr(slot, "AHEAD_SECONDS", 60.0)
    monkeypatch.setattr(slot, "_STILL_QUICK_SECONDS", 60.0)


def submitted(pool: WorkerPool, *acts: Act, expected: float = QUICK_SECONDS, timeout: float = 30.0) -> list[Work]:
    works = [work(act, timeout) for act in acts]
    pool.submit(*works, expected=expected, ahead=True)
    return works


def by_claim(ended: list[Ended]) -> dict[UUID, Outcome]:
    found = {item.work.claim_id: item.outcome for item in ended}
    assert len(found) == len(ended), "each once"
    return found


@pytest.mark.usefixtures("patient")
def test_what_waits_is_run_by_the_same_worker_right_after(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        assert pool.room_ahead() == 0, "a free slot has nothing to wait behind"
        first = submitted(pool, Act.NAP)
        assert (pool.free(), pool.room_ahead()) == (0, 1)
        second = submitted(pool, Act.QUICK, Act.QUICK)
        assert (pool.free(), pool.room_ahead()) == (0, 0)
        assert pool.bundles() == [[job.claim_id for job in first + second]]
        with pytest.raises(NoFreeSlot):
            submitted(pool, Act.QUICK)
        ended = collect(pool, 3)
        assert [item.work for item in ended] == first + second
        assert all(isinstance(item.outcome, Completed) for item in ended)
        assert len({item.worker_pid for item in ended}) == 1


def test_nothing_waits_behind_jobs_that_may_take_long(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        submitted(pool, Act.NAP, expected=QUICK_SECONDS * 1.1)
        assert pool.room_ahead() == 0
        with pytest.raises(NoFreeSlot):
            submitted(pool, Act.QUICK)
        collect(pool, 1)


@pytest.mark.usefixtures("patient")
def test_many_wait_behind_what_takes_next_to_nothing_and_are_run_in_their_order(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        works = submitted(pool, Act.NAP, expected=0.0)
        assert (pool.room_ahead(), pool.room_ahead(MOST_WAITING)) == (1, MOST_WAITING)
        for _ in range(MOST_WAITING):
            works += submitted(pool, Act.QUICK, Act.QUICK, expected=0.0)
        assert pool.room_ahead(MOST_WAITING) == 0
        with pytest.raises(NoFreeSlot):
            submitted(pool, Act.QUICK, expected=0.0)
        assert pool.bundles() == [[job.claim_id for job in works]]
        assert [item.work for item in collect(pool, len(works))] == works


@pytest.mark.usefixtures("patient")
def test_they_wait_where_the_fewest_do(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=2) as pool:
        for _ in range(2):
            submitted(pool, Act.HANG_IN_C, expected=0.0)
        all_begun(pool)
        for _ in range(4):
            submitted(pool, Act.QUICK, expected=0.0)
        assert [len(held) for held in pool.bundles()] == [3, 3]
        pool.interrupt("the test is over")


@pytest.mark.usefixtures("patient")
def test_what_waits_goes_to_the_next_worker_when_this_one_dies(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        [lost] = submitted(pool, Act.SEGFAULT)
        behind = submitted(pool, Act.QUICK, Act.QUICK)
        ended = collect(pool, 3)
        outcomes = by_claim(ended)
        assert outcomes[lost.claim_id] == Failed("crashed", "poison", "killed by signal 11 (SIGSEGV)")  # type: ignore[arg-type]
        assert all(isinstance(outcomes[job.claim_id], Completed) for job in behind)
        pids = {item.worker_pid for item in ended if item.work in behind}
        assert len(pids) == 1
        assert pids.isdisjoint({item.worker_pid for item in ended if item.work is lost})


@pytest.mark.usefixtures("patient")
def test_a_worker_that_is_worn_is_replaced_before_what_waits(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1, max_jobs_per_worker=1) as pool:
        submitted(pool, Act.NAP)
        submitted(pool, Act.QUICK)
        ended = collect(pool, 2)
        assert all(isinstance(item.outcome, Completed) for item in ended)
        assert len({item.worker_pid for item in ended}) == 2


def test_what_waits_too_long_goes_back_and_the_job_before_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot, "_STILL_QUICK_SECONDS", 60.0)
    with running_pool(tmp_path, workers=1) as pool:
        [long] = submitted(pool, Act.HANG_IN_PYTHON, timeout=2.5)
        all_begun(pool)
        behind = submitted(pool, Act.QUICK, Act.QUICK)
        begun = time.monotonic()
        back = collect(pool, 2, LATE)
        assert time.monotonic() - begun < LATE
        assert by_claim(back) == {
            job.claim_id: Interrupted("the jobs before it took longer than was thought") for job in behind
        }
        assert not any(item.killed for item in back)
        assert pool.room_ahead() == 0, "and nothing comes after them"
        [end] = collect(pool, 1)
        assert end.work == long
        assert isinstance(end.outcome, Failed)
        assert end.outcome.code == "timeout"
        all_free(pool, 1)


def test_a_slot_that_has_been_at_its_job_for_long_gets_nothing_more(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=2) as pool:
        submitted(pool, Act.HANG_IN_PYTHON)
        wait_until(lambda: not pool.room_ahead(), what="it is at its job for long")
        [late] = submitted(pool, Act.HANG_IN_C)
        [waits] = submitted(pool, Act.QUICK)
        assert pool.bundles()[1] == [late.claim_id, waits.claim_id], "behind the one that was begun last"
        pool.interrupt("the test is over")


@pytest.mark.usefixtures("patient")
def test_one_that_waits_is_cancelled_without_a_kill(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        [first] = submitted(pool, Act.NAP)
        all_begun(pool)
        kept, unwanted = submitted(pool, Act.QUICK, Act.QUICK)
        assert pool.cancel(unwanted.claim_id)
        assert not pool.cancel(unwanted.claim_id), "it is gone"
        ended = collect(pool, 3)
        outcomes = by_claim(ended)
        assert outcomes[unwanted.claim_id] == Cancelled()
        assert isinstance(outcomes[first.claim_id], Completed)
        assert isinstance(outcomes[kept.claim_id], Completed)
        assert not any(item.killed for item in ended)


@pytest.mark.usefixtures("patient")
def test_cancelling_the_one_before_them_leaves_those_that_wait(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        [first] = submitted(pool, Act.HANG_IN_C)
        all_begun(pool)
        [behind] = submitted(pool, Act.QUICK)
        assert pool.cancel(first.claim_id)
        outcomes = by_claim(collect(pool, 2))
        assert outcomes[first.claim_id] == Cancelled()
        assert isinstance(outcomes[behind.claim_id], Completed)


@pytest.mark.usefixtures("patient")
def test_all_are_interrupted_together(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        first = submitted(pool, Act.HANG_IN_C)
        all_begun(pool)
        works = first + submitted(pool, Act.QUICK, Act.HANG_IN_C)
        pool.interrupt("the lease was lost")
        assert by_claim(collect(pool, 3)) == {job.claim_id: Interrupted("the lease was lost") for job in works}


@pytest.mark.usefixtures("patient")
def test_a_stop_gives_back_what_waits_and_lets_the_first_end(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        [first] = submitted(pool, Act.NAP)
        all_begun(pool)
        behind = submitted(pool, Act.QUICK, Act.QUICK)
        pool.drain()
        outcomes = by_claim(collect(pool, 3))
        assert isinstance(outcomes[first.claim_id], Completed)
        assert {outcomes[job.claim_id] for job in behind} == {Interrupted("the node is shutting down")}


@pytest.mark.usefixtures("patient")
def test_closing_the_pool_loses_none(tmp_path: Path) -> None:
    pool = make_pool(tmp_path, 1)
    pool.start()
    try:
        works = submitted(pool, Act.HANG_IN_C)
        all_begun(pool)
        works += submitted(pool, Act.QUICK, Act.QUICK)
    finally:
        pool.close()
    assert by_claim(pool.poll()) == {job.claim_id: Interrupted("the pool was closed") for job in works}


def waiting_behind_a_nap(pool: WorkerPool, *acts: Act, timeout: float = 30.0) -> list[Work]:
    """A job for each, submitted one by one, and sent together when the nap before them is over."""
    nap = submitted(pool, Act.NAP, expected=0.0)
    behind = [job for act in acts for job in submitted(pool, act, expected=0.0, timeout=timeout)]
    assert pool.bundles() == [[job.claim_id for job in nap + behind]]
    return behind


@pytest.fixture
def sendings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs were sent to a worker, each time."""
    sent: list[int] = []
    schedule = WorkerHandle.schedule

    def noted(handle: WorkerHandle, works: Sequence[Work]) -> Future[Reply]:
        sent.append(len(works))
        return schedule(handle, works)

    monkeypatch.setattr(WorkerHandle, "schedule", noted)
    return sent


@pytest.mark.usefixtures("patient")
def test_a_few_that_wait_one_by_one_are_sent_in_one_go(tmp_path: Path, sendings: list[int]) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        behind = waiting_behind_a_nap(pool, *[Act.QUICK] * MOST_WAITING)
        _, *ended = collect(pool, 1 + MOST_WAITING)
        assert [item.work for item in ended] == behind
        assert sendings == [1, MOST_WAITING]


@pytest.mark.usefixtures("patient")
def test_more_than_a_few_are_sent_as_they_were_submitted(tmp_path: Path, sendings: list[int]) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        submitted(pool, Act.NAP, expected=0.0)
        for jobs in (2, MOST_TOGETHER - 2, 1, MOST_TOGETHER):
            submitted(pool, *[Act.QUICK] * jobs, expected=0.0)
        collect(pool, 2 + 2 * MOST_TOGETHER)
        assert sendings == [1, MOST_TOGETHER, 1, MOST_TOGETHER]


def test_of_what_was_sent_in_one_go_the_rest_goes_back_when_one_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot, "_STILL_QUICK_SECONDS", 60.0)
    with running_pool(tmp_path, workers=1) as pool:
        quick, long, *rest = waiting_behind_a_nap(pool, Act.QUICK, Act.HANG_IN_PYTHON, Act.QUICK, Act.QUICK, timeout=3)
        ended = by_claim(collect(pool, 2, LATE))
        assert isinstance(ended[quick.claim_id], Completed)
        assert by_claim(collect(pool, 2, LATE)) == {
            job.claim_id: Interrupted("the jobs before it took longer than was thought") for job in rest
        }
        assert pool.room_ahead() == 0, "and nothing comes after them"
        [end] = collect(pool, 1)
        assert (end.work, end.killed) == (long, True)
        assert isinstance(end.outcome, Failed)
        assert end.outcome.code == "timeout"
        all_free(pool, 1)


@pytest.mark.usefixtures("patient")
def test_of_what_was_sent_in_one_go_only_the_started_job_is_charged_for_a_death(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        quick, lost, rest = waiting_behind_a_nap(pool, Act.QUICK, Act.SEGFAULT, Act.QUICK)
        outcomes = by_claim(collect(pool, 4))
        assert isinstance(outcomes[quick.claim_id], Completed)
        assert isinstance(outcomes[lost.claim_id], Failed)
        assert outcomes[rest.claim_id] == NEIGHBOUR
        all_free(pool, 1)


@pytest.mark.usefixtures("patient")
def test_of_what_was_sent_in_one_go_one_is_cancelled_without_a_kill(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1) as pool:
        nap, unwanted, kept = waiting_behind_a_nap(pool, Act.NAP, Act.QUICK, Act.QUICK)
        wait_until(lambda: any(run.work == nap and run.progress.claim_id for run in pool.running()), what="its begin")
        all_begun(pool)
        assert pool.cancel(unwanted.claim_id)
        ended = collect(pool, 4)
        outcomes = by_claim(ended)
        assert outcomes[unwanted.claim_id] == Cancelled()
        assert isinstance(outcomes[kept.claim_id], Completed)
        assert not any(item.killed for item in ended)


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.usefixtures("patient")
def test_no_worker_gets_more_than_its_number_of_jobs(tmp_path: Path, most: int) -> None:
    with running_pool(tmp_path, workers=1, max_jobs_per_worker=most) as pool:
        behind = waiting_behind_a_nap(pool, *[Act.QUICK] * 5)
        ended = collect(pool, 6)
        assert [item.work for item in ended[1:]] == behind
        jobs = Counter(item.worker_pid for item in ended)
        assert list(jobs.values()) == [min(most, 6 - begun) for begun in range(0, 6, most)]


def test_half_a_second_is_from_the_submission_however_often_the_rest_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each job leaves its worker unfit for another: what is behind it is sent to the next one."""
    monkeypatch.setattr(slot, "_STILL_QUICK_SECONDS", 60.0)
    with running_pool(tmp_path, workers=1) as pool:
        submitted_at = time.monotonic()
        works = waiting_behind_a_nap(pool, *[Act.NAP_AND_BE_UNFIT] * MOST_WAITING)
        outcomes = by_claim(collect(pool, 1 + len(works)))
        assert time.monotonic() - submitted_at < 1 + 2 * NAP_SECONDS + 1, "at most a second, and what runs ends"
        assert any(isinstance(outcomes[job.claim_id], Interrupted) for job in works)


@pytest.mark.usefixtures("patient")
def test_each_that_was_submitted_by_itself_wears_the_worker(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=1, max_jobs_per_worker=4) as pool:
        waiting_behind_a_nap(pool, Act.QUICK, Act.QUICK, Act.QUICK)
        worn = {item.worker_pid for item in collect(pool, 4)}
        all_free(pool, 1)
        submitted(pool, Act.QUICK)
        [fresh] = collect(pool, 1)
        assert len(worn) == 1
        assert fresh.worker_pid not in worn
