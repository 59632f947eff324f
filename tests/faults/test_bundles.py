"""Bundles, from the claim to the settle: whatever happens to one of their jobs or to all, each is settled by itself."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from batchproc.engine.node import RunOptions
from batchproc.engine.pool import forkserver
from tests.engine.running import HANDLERS, Bench
from tests.faults.bundle_handlers import KINDS, LIMIT
from tests.faults.command import await_end_of_leases, started_run
from tests.faults.meanwhile import meanwhile
from tests.waiting import wait_until

MODULES = [HANDLERS, KINDS]
_STATES = "select job_id, state from batchproc.processing_jobs"


def enqueue(bench: Bench, tenant: int, folder: Path, *ways: str, kind: str = "q_job") -> list[int]:
    return [bench.enqueue(tenant, kind, {"do": do, "folder": str(folder)}) for do in ways]


def outcomes(bench: Bench, job_id: int) -> list[str]:
    """Of each attempt: its error class, or how it ended."""
    return [attempt["error_class"] or attempt["outcome"] for attempt in bench.job(job_id)["attempts"]]


def executions(folder: Path) -> Counter[int]:
    """How often each job was begun."""
    file = folder / "executions"
    return Counter(int(line) for line in file.read_text().split()) if file.exists() else Counter()


def begun(folder: Path, job_id: int) -> None:
    wait_until(lambda: executions(folder)[job_id], 60, f"job {job_id} begins")


def in_state(bench: Bench, *states: str) -> list[int]:
    return sorted(job_id for job_id, state in bench.rows(_STATES) if state in states)


@pytest.mark.parametrize(
    ("way", "error_class", "code"),
    [
        ("hang in C", "timeout", "timeout"),
        ("segmentation fault", "crashed", "poison"),
        pytest.param("exit 0", "crashed", "poison", marks=pytest.mark.long),
        pytest.param("kill", "crashed", "poison", marks=pytest.mark.long),
        pytest.param("grow", "out_of_memory", "out_of_memory", marks=pytest.mark.long),
    ],
)
def test_one_job_of_a_bundle_is_charged_and_the_others_complete(
    bench: Bench, tmp_path: Path, way: str, error_class: str, code: str
) -> None:
    tenant = bench.tenant("acme")
    before = enqueue(bench, tenant, tmp_path, *["quick"] * 4)
    [bad] = enqueue(bench, tenant, tmp_path, way)
    after = enqueue(bench, tenant, tmp_path, *["quick"] * 4)

    report = bench.run(RunOptions(workers=1), handlers=MODULES, pool={"memory_limit_mb": 300})

    assert [outcomes(bench, job_id) for job_id in before] == [["completed"]] * 4
    assert outcomes(bench, bad) == [error_class]
    assert bench.job(bad)["failure_code"] == code
    assert [outcomes(bench, job_id) for job_id in after] == [["interrupted", "completed"]] * 4
    for job_id in (*before, *after):
        job = bench.job(job_id)
        assert (job["state"], job["attempt"], job["crashes"], job["timeouts"]) == ("completed", 1, 0, 0)
    assert set(executions(tmp_path).values()) == {1}, "what goes back was never begun"
    assert (report.counts.completed, report.counts.interrupted) == (8, 4)


def test_a_failure_and_a_closed_pipe_cost_no_other_job_of_the_bundle(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    jobs = enqueue(bench, tenant, tmp_path, "quick", "fail", "quick", "close descriptors", "quick")

    bench.run(RunOptions(workers=1), handlers=MODULES)

    assert bench.job(jobs[1])["failure_code"] == "unreadable_file"
    assert [outcomes(bench, job_id) for job_id in jobs] == [
        ["completed"],
        ["permanent"],
        ["completed"],
        ["completed"],
        ["completed"],
    ]


def test_quick_jobs_are_settled_while_a_long_one_of_their_bundle_runs(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    jobs = enqueue(bench, tenant, tmp_path, "quick", "quick", "wait", "quick", kind="q_patient")

    def look() -> None:
        try:
            begun(tmp_path, jobs[2])
            wait_until(lambda: in_state(bench, "completed") == jobs[:2], 2, "settled")
        finally:
            (tmp_path / "end").touch()

    with meanwhile(look):
        bench.run(RunOptions(workers=1), handlers=MODULES)

    assert [outcomes(bench, job_id) for job_id in jobs] == [["completed"]] * 4


def _kill_worker(bench: Bench, folder: Path) -> None:
    [row] = bench.rows("select worker_pid from batchproc.job_attempts limit 1")
    os.kill(row[0], signal.SIGKILL)


def _kill_forkserver(bench: Bench, folder: Path) -> None:
    pid = forkserver.running_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("kill", "charged"),
    [
        pytest.param(_kill_worker, "crashed", id="worker"),
        pytest.param(_kill_forkserver, "lease_expired", id="forkserver", marks=pytest.mark.long),
    ],
)
def test_a_kill_from_outside_is_charged_to_the_job_that_ran(
    bench: Bench, tmp_path: Path, kill: Callable[[Bench, Path], None], charged: str
) -> None:
    tenant = bench.tenant("acme")
    jobs = enqueue(bench, tenant, tmp_path, "quick", "wait", "quick", "quick", kind="q_patient")

    def act() -> None:
        try:
            begun(tmp_path, jobs[1])
            wait_until(lambda: in_state(bench, "completed") == jobs[:1], 5, "the first is settled")
            kill(bench, tmp_path)
            wait_until(lambda: len(outcomes(bench, jobs[1])) == 1, 5, "the death is settled")
        finally:
            (tmp_path / "end").touch()

    with meanwhile(act):
        bench.run(RunOptions(workers=1), handlers=MODULES)

    found = [outcomes(bench, job_id) for job_id in jobs]
    assert found == [["completed"], [charged, "completed"], *[["interrupted", "completed"]] * 2]


def test_a_node_killed_in_the_middle_of_a_bundle_loses_nothing(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    jobs = enqueue(bench, tenant, tmp_path, *["quick"] * 5, "wait", *["quick"] * 5, kind="q_patient")
    with started_run(bench, "--workers", "1", handlers=MODULES) as run:
        begun(tmp_path, jobs[5])
        wait_until(lambda: in_state(bench, "completed") == jobs[:5], 5, "what has ended is settled")
        run.kill_node()
        run.wait()
        run.assert_gone()
    (tmp_path / "end").touch()
    await_end_of_leases(bench)

    bench.run(RunOptions(workers=1), handlers=MODULES, dispatch={"lease": 2.0})

    found = [outcomes(bench, job_id) for job_id in jobs]
    assert found == [["completed"]] * 5 + [["lease_expired", "completed"]] * 6
    assert [executions(tmp_path)[job_id] for job_id in jobs] == [1] * 5 + [2] + [1] * 5


def test_of_a_bundle_any_job_can_be_cancelled(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    jobs = enqueue(bench, tenant, tmp_path, "quick", "wait", "quick", "quick", kind="q_patient")

    def cancel() -> None:
        try:
            begun(tmp_path, jobs[1])
            bench.jobs.cancel(bench.connection, [jobs[2]])
            wait_until(lambda: in_state(bench, "cancelled") == [jobs[2]], 3, "one that has not begun is cancelled")
            assert in_state(bench, "running") == [jobs[1], jobs[3]], "and nothing else ends by that"
            bench.jobs.cancel(bench.connection, [jobs[1]])
            wait_until(lambda: in_state(bench, "cancelled") == [jobs[1], jobs[2]], 3, "the running one is cancelled")
        finally:
            (tmp_path / "end").touch()

    with meanwhile(cancel):
        report = bench.run(RunOptions(workers=1), handlers=MODULES)

    found = [outcomes(bench, job_id) for job_id in jobs]
    assert found == [["completed"], ["cancelled"], ["cancelled"], ["interrupted", "completed"]]
    assert executions(tmp_path) == Counter({job_id: 1 for job_id in jobs if job_id != jobs[2]})
    assert report.counts.cancelled == 2


def test_at_a_stop_the_running_job_has_the_grace_and_the_rest_is_given_back_at_once(
    bench: Bench, tmp_path: Path
) -> None:
    tenant = bench.tenant("acme")
    jobs = enqueue(bench, tenant, tmp_path, "quick", "wait", "quick", "quick", kind="q_patient")
    with started_run(bench, "--workers", "1", handlers=MODULES, pool={"shutdown_grace": 30.0}) as run:
        begun(tmp_path, jobs[1])
        run.send(signal.SIGTERM)
        wait_until(lambda: in_state(bench, "available") == jobs[2:], 5, "the rest is given back")
        assert in_state(bench, "running") == [jobs[1]]
        (tmp_path / "end").touch()
        assert run.wait() == 0
    assert [outcomes(bench, job_id) for job_id in jobs] == [["completed"]] * 2 + [["interrupted"]] * 2
    assert [bench.job(job_id)["attempt"] for job_id in jobs] == [1, 1, 0, 0]


def test_a_limit_is_kept_exactly_with_bundles(bench: Bench) -> None:
    tenants = [bench.tenant(slug) for slug in ("acme", "other", "third")]
    jobs = [bench.enqueue(tenant, "q_limited") for _ in range(20) for tenant in tenants]

    bench.run(RunOptions(workers=2), handlers=MODULES)

    assert bench.states(jobs) == {"completed": len(jobs)}
    assert max(bench.job(job_id)["result"]["running"] for job_id in jobs) == LIMIT


def test_no_more_jobs_are_claimed_than_were_asked_for(bench: Bench, tmp_path: Path) -> None:
    jobs = enqueue(bench, bench.tenant("acme"), tmp_path, *["quick"] * 20)

    report = bench.run(RunOptions(workers=2, max_jobs=7), handlers=MODULES)

    assert report.counts.claimed == 7
    assert bench.states(jobs) == {"completed": 7, "available": 13}
    single = bench.run(RunOptions(workers=1, job_id=jobs[19]), handlers=MODULES)
    assert (single.counts.claimed, bench.job(jobs[19])["state"]) == (1, "completed")


def test_tenants_and_kinds_share_bundles_and_nothing_else(bench: Bench, tmp_path: Path) -> None:
    bench.connection.execute("create table public.written (job bigint)")
    tenants = [bench.tenant(f"tenant-{number}") for number in range(4)]
    jobs = []
    for tenant in tenants:
        jobs += enqueue(bench, tenant, tmp_path, *["write"] * 5)
        jobs += enqueue(bench, tenant, tmp_path, *["write", "fail"], kind="q_other")
        jobs.append(bench.enqueue(tenant, "t_quick"))

    bench.run(RunOptions(workers=2), handlers=MODULES, pool={"max_jobs_per_worker": 1})

    [wrong] = bench.rows(
        "select count(*) from batchproc.job_attempts a join batchproc.processing_jobs j using (job_id)"
        " where a.tenant_id <> j.tenant_id or a.number <> 1"
    )
    assert wrong == (0,)
    assert bench.rows("select count(*), count(distinct job) from public.written") == [(24, 24)]
    assert [len(bench.job(job_id)["attempts"]) for job_id in jobs] == [1] * len(jobs)
    used = "select tenant_id, sum(attempts)::int from batchproc.usage_daily group by tenant_id order by tenant_id"
    assert bench.rows(used) == [(tenant, 8) for tenant in tenants]
    assert bench.rows("select count(distinct worker_pid) > 2 from batchproc.job_attempts") == [(True,)]
