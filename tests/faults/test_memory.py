"""Handlers, and what they start, that take memory without end: they are out_of_memory, the others never notice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from batchproc.engine.node import RunOptions, RunReport
from batchproc.engine.pool import child_setup, processes
from tests.engine.running import Bench
from tests.faults import memory_handlers
from tests.faults.cgroups import limited

LIMIT_MB = 300
STOPPED_MB = 750
"""What may be held when the kill has come, also on a busy machine: looks of 0.5 s let it be more."""


def run(bench: Bench, workers: int = 2) -> RunReport:
    sections: dict[str, Any] = {"handlers": [memory_handlers.__name__], "pool": {"memory_limit_mb": LIMIT_MB}}
    return bench.run(RunOptions(workers=workers), **sections)


def only_attempt(bench: Bench, job: int) -> tuple[str | None, str, str | None]:
    """The job's final code, and the class and the error type of its attempt."""
    [[code]] = bench.rows(
        "select failure_code from batchproc.processing_jobs where job_id = %s and state = 'discarded'", job
    )
    [[error_class, error_type]] = bench.rows(
        "select error_class, error_type from batchproc.job_attempts where job_id = %s", job
    )
    return code, error_class, error_type


def test_whatever_grows_without_end_is_killed_for_it_and_nobody_else_is_hurt(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    files = {where: tmp_path / where for where in ("worker", "child", "grandchild")}
    legal = bench.enqueue(tenant, "m_outlive", {"mb": 100})
    growing = [bench.enqueue(tenant, "m_grow", {"taken": str(files["worker"])})]
    for where in ("child", "grandchild"):
        growing.append(bench.enqueue(tenant, "m_grow_below", {"taken": str(files[where]), "where": where}))
    quick = [bench.enqueue(tenant, "m_quick") for _ in range(50)]

    run(bench, workers=3)

    assert [only_attempt(bench, job)[:2] for job in growing] == [("out_of_memory", "out_of_memory")] * 3
    assert bench.states([legal, *quick]) == {"completed": 51}
    taken = {where: int(file.read_text()) >> 20 for where, file in files.items()}
    assert max(taken.values()) < STOPPED_MB, taken
    [[again]] = bench.rows("select count(*) from batchproc.job_attempts where number > 1")
    assert again == 0


def test_more_than_there_can_be_is_refused_at_once(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "m_too_much_at_once")

    run(bench)

    code, error_class, error_type = only_attempt(bench, job)
    assert (code, error_class) == ("out_of_memory", "out_of_memory")
    assert (error_type or "").startswith("MemoryError at memory_handlers.py:")


def test_native_code_that_aborts_for_want_of_memory_is_told_from_one_that_just_aborts(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    mapped = LIMIT_MB * (child_setup.ADDRESS_SPACE_FACTOR - 1)
    bad_alloc = bench.enqueue(tenant, "m_in_cplusplus", {"mb": mapped, "seconds": 1.5})
    abort = bench.enqueue(tenant, "m_aborts")

    run(bench)

    assert only_attempt(bench, bad_alloc) == ("out_of_memory", "out_of_memory", "killed by signal 6 (SIGABRT)")
    assert only_attempt(bench, abort) == ("poison", "crashed", "killed by signal 6 (SIGABRT)")


def test_workers_and_what_they_start_are_what_the_kernel_kills_first(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "m_scores")

    run(bench)

    expected = child_setup.OOM_SCORE_ADJUSTMENT
    assert bench.job(job)["result"] == {"worker": expected, "child": expected, "grandchild": expected}
    assert int(Path("/proc/self/oom_score_adj").read_text()) < expected


def test_a_worker_that_the_kernel_kills_for_memory_is_out_of_memory(bench: Bench) -> None:
    before = processes.out_of_memory_kills()
    size = str(64 << 20)
    with limited("memory", {"memory.limit_in_bytes": size}, {"memory.max": size, "memory.swap.max": "0"}) as group:
        job = bench.enqueue(bench.tenant("acme"), "m_in_group", {"group": str(group)})

        run(bench)

    assert processes.out_of_memory_kills() > before
    assert only_attempt(bench, job) == ("out_of_memory", "out_of_memory", "killed by signal 9 (SIGKILL)")


def test_a_worker_that_somebody_kills_is_a_crash(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "m_killed")

    run(bench)

    assert only_attempt(bench, job) == ("poison", "crashed", "killed by signal 9 (SIGKILL)")
