"""Handlers, and what they start, that take memory without end: they are out_of_memory, the others never notice."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from batchproc.engine.node import RunOptions, RunReport
from batchproc.engine.pool import child_setup, oom_kills, processes
from batchproc.engine.pool.memory_evidence import MemoryEvidence
from batchproc.engine.pool.oom_kills import Counter
from tests.engine.running import Bench
from tests.faults import memory_handlers
from tests.faults.cgroups import limited
from tests.faults.command import started_run
from tests.waiting import wait_until

LIMIT_MB = 300
STOPPED_MB = 750
"""What may be held when the kill has come, also on a busy machine: looks of 0.5 s let it be more."""


def run(bench: Bench, workers: int = 2) -> RunReport:
    sections: dict[str, Any] = {"handlers": [memory_handlers.__name__], "pool": {"memory_limit_mb": LIMIT_MB}}
    return bench.run(RunOptions(workers=workers), **sections)


def small_group(mb: int) -> contextlib.AbstractContextManager[Path]:
    """A cgroup that may hold so much; above that the kernel kills in it."""
    size = str(mb << 20)
    return limited("memory", {"memory.limit_in_bytes": size}, {"memory.max": size, "memory.swap.max": "0"})


def _stat(pid: int) -> processes.Stat:
    found = processes.read_stat(pid)
    assert found is not None
    return found


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


def test_a_worker_that_the_kernel_kills_for_memory_is_out_of_memory(bench: Bench, tmp_path: Path) -> None:
    with small_group(600) as group:
        job = bench.enqueue(bench.tenant("acme"), "m_grow", {"taken": str(tmp_path / "taken")})
        before = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]

        with started_run(bench, "--workers", "1", handlers=[memory_handlers.__name__], before=before) as command:
            assert command.wait(60) == 1, command.output()

    assert only_attempt(bench, job) == ("out_of_memory", "out_of_memory", "killed by signal 9 (SIGKILL)")


def test_a_kill_of_the_kernels_explains_a_death_in_that_cgroup_and_in_no_other() -> None:
    with small_group(32) as group:
        hog = "import os; open(os.sys.argv[1], 'w').write(str(os.getpid())); input(); x = b'x' * (256 << 20)"
        with subprocess.Popen([sys.executable, "-c", hog, f"{group}/cgroup.procs"], stdin=subprocess.PIPE) as process:
            wait_until(lambda: str(process.pid) in (group / "cgroup.procs").read_text().split())
            theirs, ours = MemoryEvidence(), MemoryEvidence()
            theirs.note(_stat(process.pid))
            ours.note(_stat(os.getpid()))
            on_machine = Counter(Path("/proc/vmstat")).read()

            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
            wait_until(lambda: not _stat(process.pid).alive, what="its end")
            theirs.note(_stat(process.pid))  # a look at what is dying, which is in no group any more

        assert process.returncode == -signal.SIGKILL
        assert Counter(Path("/proc/vmstat")).read() != on_machine
        assert theirs.explains(-signal.SIGKILL)
        assert not ours.explains(-signal.SIGKILL)


def test_a_look_at_what_is_dying_does_not_make_forget_how_it_lived() -> None:
    hungry = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 27, 1 << 27)); print(flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", hungry], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        evidence = MemoryEvidence()
        evidence.note(dataclasses.replace(_stat(process.pid), mapped=1 << 27))
        process.stdin.close()
        wait_until(lambda: not _stat(process.pid).alive, what="its end")

        evidence.note(_stat(process.pid))

        assert evidence.explains(-signal.SIGABRT)


def test_without_a_cgroup_to_be_read_the_machine_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(oom_kills, "_CGROUPS", tmp_path)
    assert oom_kills.counter_of(os.getpid()) == Counter(Path("/proc/vmstat"))


def test_each_version_of_cgroups_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a container sees them: its own group is the top."""
    monkeypatch.setattr(oom_kills, "_CGROUPS", tmp_path)
    (tmp_path / "memory.events").write_text("low 0\noom 4\noom_kill 3\noom_group_kill 1\n")
    assert oom_kills.counter_of(os.getpid()).read() == 3
    (tmp_path / "memory.events.local").write_text("oom_kill 2\n")
    assert oom_kills.counter_of(os.getpid()).read() == 2
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    v1 = any("memory" in line.split(":")[1].split(",") for line in Path("/proc/self/cgroup").read_text().splitlines())
    assert oom_kills.counter_of(os.getpid()).read() == (1 if v1 else 2)


def test_a_worker_that_somebody_kills_is_a_crash(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "m_killed")

    run(bench)

    assert only_attempt(bench, job) == ("poison", "crashed", "killed by signal 9 (SIGKILL)")
