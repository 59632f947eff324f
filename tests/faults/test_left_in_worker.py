"""What a job leaves in its worker does not reach the next job, which may be another tenant's."""

from __future__ import annotations

from typing import Any

import pytest

from batchproc.engine.node import RunOptions
from tests.engine.running import HANDLERS, Bench
from tests.faults import left_in_worker_handlers
from tests.faults.left_in_worker_handlers import MULTIPROCESSING, SESSION, THREADS

MODULES = [HANDLERS, left_in_worker_handlers.__name__]


def _one_after_the_other(bench: Bench, *jobs: tuple[str, str], kind: str = "l_job", **sections: Any) -> list[int]:
    """Runs them (what to do, and how) with one worker in that order, each once; the ids."""
    tenant = bench.tenant("acme")
    ids = [bench.enqueue(tenant, kind, {"do": do, "how": how}, max_attempts=1) for do, how in jobs]
    bench.run(RunOptions(workers=1), handlers=MODULES, **sections)
    return ids


def _pid(bench: Bench, job_id: int) -> int:
    pid = bench.job(job_id)["result"]["pid"]
    assert isinstance(pid, int)
    return pid


def _rows_kept(bench: Bench, job_id: int) -> int:
    (row,) = bench.rows("select count(*) from public.kept where job = %s", job_id)
    return int(row[0])


def _table(bench: Bench) -> None:
    bench.connection.execute("create table public.kept (job bigint)")


def test_a_thread_that_a_job_leaves_costs_the_next_jobs_no_row(bench: Bench) -> None:
    _table(bench)
    assert "uses the connection" in THREADS
    ids = _one_after_the_other(bench, ("thread", "uses the connection"), *[("rows", "")] * 3)

    assert bench.states(ids) == {"completed": 4}
    assert [_rows_kept(bench, job_id) for job_id in ids[1:]] == [10] * 3
    assert [len(bench.job(job_id)["attempts"]) for job_id in ids] == [1] * 4
    assert _pid(bench, ids[0]) != _pid(bench, ids[1]) == _pid(bench, ids[2])


@pytest.mark.long
def test_a_thread_that_ends_the_process_later_ends_no_other_job(bench: Bench) -> None:
    ids = _one_after_the_other(bench, ("thread", "ends the process"), ("nap", ""))

    assert [[attempt["outcome"] for attempt in bench.job(job)["attempts"]] for job in ids] == [["completed"]] * 2


@pytest.mark.long
def test_a_thread_that_reports_progress_keeps_no_other_job_from_stalling(bench: Bench) -> None:
    left, stalls = _one_after_the_other(bench, ("thread", "reports progress"), ("stall", ""), kind="l_watched")

    assert bench.job(left)["state"] == "completed"
    assert bench.job(stalls)["failure_code"] == "stalled"


def test_threads_that_end_by_themselves_cost_no_worker(bench: Bench) -> None:
    ids = _one_after_the_other(bench, *[("short_thread", "")] * 2, ("nap", ""))

    assert len({_pid(bench, job_id) for job_id in ids}) == 1


@pytest.mark.parametrize("how", ["caught", "ended"])
def test_a_transaction_that_was_lost_completes_no_job(bench: Bench, how: str) -> None:
    _table(bench)
    (job_id,) = _one_after_the_other(bench, ("swallow", how))

    job = bench.job(job_id)
    assert (job["state"], job["failure_code"], _rows_kept(bench, job_id)) == ("discarded", "internal_error", 0)
    assert job["attempts"][0]["error_type"].startswith("InFailedSqlTransaction at context.py:")


def test_an_error_that_a_savepoint_undid_is_none(bench: Bench) -> None:
    _table(bench)
    (job_id,) = _one_after_the_other(bench, ("swallow", "caught in a savepoint"))

    assert (bench.job(job_id)["state"], _rows_kept(bench, job_id)) == ("completed", 1)


def test_a_slot_in_a_transaction_that_failed_hides_no_failure_and_is_given_back(bench: Bench) -> None:
    masks, holds = _one_after_the_other(bench, ("masks", ""), ("holds", ""), resources={"ai": 1})

    assert bench.job(masks)["failure_code"] == "no_text"
    assert bench.job(holds)["state"] == "completed"


def test_what_a_job_leaves_in_the_session_is_not_there_for_the_next_one(bench: Bench) -> None:
    bench.connection.execute("create sequence public.numbers")
    jobs = [job for how in SESSION for job in (("session", how), ("meets", how))]
    ids = _one_after_the_other(bench, *jobs)

    assert bench.states(ids) == {"completed": len(ids)}
    untouched = ["read committed", "off", 7, "text", {"a": 1}, 0, 0, "55000"]  # lastval is not yet defined
    met = {how: bench.job(job_id)["result"]["seen"] for (_, how), job_id in zip(jobs, ids, strict=True)}
    assert met == dict.fromkeys(SESSION, untouched) | {"the connection itself": [*untouched, True]}


def test_a_job_that_leaves_nothing_costs_no_connection(bench: Bench) -> None:
    ids = _one_after_the_other(bench, *[("backend", "")] * 20)

    assert len({str(bench.job(job_id)["result"]) for job_id in ids}) == 1


@pytest.mark.long
@pytest.mark.parametrize("how", MULTIPROCESSING)
def test_multiprocessing_works_in_every_job_of_a_worker(bench: Bench, how: str) -> None:
    ids = _one_after_the_other(bench, *[("with_processes", how)] * 3)

    assert [bench.job(job_id)["failure_code"] for job_id in ids] == [None] * 3
    assert [bench.job(job_id)["result"]["seen"] for job_id in ids] == [[MULTIPROCESSING[how][1]]] * 3
    assert len({_pid(bench, job_id) for job_id in ids}) == 1


def test_the_temp_folder_and_the_timeout_of_sockets_are_as_before(bench: Bench) -> None:
    ids = _one_after_the_other(bench, *[("defaults", "")] * 2)

    assert [bench.job(job_id)["result"]["seen"] for job_id in ids] == [[None, True]] * 2
    assert len({_pid(bench, job_id) for job_id in ids}) == 1


def test_memory_that_a_job_keeps_is_not_charged_to_the_next_one(bench: Bench) -> None:
    jobs = [("memory", how) for how in ("take 300", "keep 100", "keep 200", "take 300")]
    ids = _one_after_the_other(bench, *jobs, pool={"memory_limit_mb": 500})

    assert bench.states(ids) == {"completed": 4}
    pids = [_pid(bench, job_id) for job_id in ids]
    assert pids[0] == pids[1] == pids[2] != pids[3]


def test_no_job_of_a_bundle_meets_what_another_one_left(bench: Bench) -> None:
    bench.connection.execute("create sequence public.numbers")
    jobs = [("session", "attributes"), ("session", "adapters"), ("meets", ""), ("thread", "uses the connection")]
    ids = _one_after_the_other(bench, *jobs, *[("defaults", "")] * 2, kinds={"l_job": {"bundle": 64}})

    assert bench.states(ids) == {"completed": len(ids)}
    assert [len(bench.job(job_id)["attempts"]) for job_id in ids] == [1] * len(ids)
    assert bench.job(ids[2])["result"]["seen"][:5] == ["read committed", "off", 7, "text", {"a": 1}]
    assert [bench.job(job_id)["result"]["seen"] for job_id in ids[4:]] == [[None, True]] * 2
    pids = [_pid(bench, job_id) for job_id in ids]
    assert pids == [pids[0]] * 4 + [pids[4]] * 2
    assert pids[0] != pids[4], "the thread keeps its worker"
