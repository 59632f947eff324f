"""A temp folder, a log's disk, a limit of descriptors or processes that is used up: told by name, nothing lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from batchproc.core.errors import EnvironmentFault
from batchproc.core.outcome import Completed
from batchproc.database import connect
from batchproc.engine.node import RunOptions, RunReport
from batchproc.engine.pool import processes
from batchproc.engine.pool.progress import ProgressReader, ProgressWriter
from tests.engine.pool_functions import Act
from tests.engine.pool_testing import all_free, collect, forkserver_pid, running_pool, work
from tests.engine.running import Bench
from tests.faults import memory_handlers
from tests.faults.cgroups import limited
from tests.faults.command import started_run
from tests.faults.meanwhile import meanwhile
from tests.faults.memory_handlers import FILLER, fill_up
from tests.waiting import wait_until

HANDLERS = [memory_handlers.__name__]


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 2 MB in memory, with a path short enough for a socket."""
    place = Path(tempfile.mkdtemp(prefix="bps-", dir="/tmp"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        place.rmdir()
        pytest.skip(f"no file system can be mounted here, which takes root: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)
    place.rmdir()


@pytest.fixture
def small_temp_folder(small_disk: Path, temp_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """That as TMPDIR; nothing but the filler may be left in it."""
    monkeypatch.setenv("TMPDIR", str(small_disk))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield small_disk
    assert {path.name for path in small_disk.iterdir()} <= {FILLER}


def run(bench: Bench, workers: int = 2) -> RunReport:
    return bench.run(RunOptions(workers=workers), handlers=HANDLERS)


def codes(bench: Bench, job: int) -> list[str | None]:
    """Of the job's attempts, in order."""
    rows = bench.rows("select failure_code from batchproc.job_attempts where job_id = %s order by number", job)
    return [code for (code,) in rows]


@pytest.mark.parametrize("by", ["handler", "subprocess", pytest.param("sqlite", marks=pytest.mark.long)])
def test_a_full_temp_folder_is_waited_out(bench: Bench, small_temp_folder: Path, by: str) -> None:
    job = bench.enqueue(bench.tenant("acme"), "m_fill", {"by": by}, max_attempts=200)
    with tempfile.TemporaryFile():  # so that the folder is believed in before it is full
        (small_temp_folder / FILLER).write_bytes(bytes((2 << 20) - memory_handlers.ROOM))

    def make_room() -> None:
        with connect(bench.url) as connection:
            seen = b"select from batchproc.job_attempts where failure_code = 'no_space' having count(*) >= 2"
            wait_until(lambda: connection.execute(seen).rowcount, 30.0, "two attempts without space")
        (small_temp_folder / FILLER).unlink()

    with meanwhile(make_room):
        run(bench)

    *failed, last = codes(bench, job)
    assert len(failed) >= 2
    assert set(failed) == {"no_space"}
    assert last is None
    assert bench.job(job)["state"] == "completed"
    assert bench.rows("select distinct error_class from batchproc.job_attempts where failure_code = 'no_space'") == [
        ("transient",)
    ]


def test_a_quota_that_is_used_up_is_no_space_too(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "m_fill", {"by": "quota"})

    run(bench)

    assert codes(bench, job) == ["no_space", None]


def test_emptying_the_folder_of_a_job_follows_no_link(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "original").touch()
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, kind, {"path": str(tmp_path / "archive")}) for kind in ("m_link_in", "m_link_over")]
    jobs += [bench.enqueue(tenant, "m_fill", {"by": "handler"}) for _ in range(3)]

    run(bench)

    assert bench.states(jobs) == {"completed": 5}
    assert (tmp_path / "archive" / "original").exists()


def test_a_slot_without_space_for_its_next_worker_ends_the_run_and_names_the_folder(
    bench: Bench, small_temp_folder: Path
) -> None:
    tenant = bench.tenant("acme")
    died = bench.enqueue(tenant, "m_fill_and_die")
    others = [bench.enqueue(tenant, "m_quick") for _ in range(20)]

    with pytest.raises(EnvironmentFault, match=f"no space left in {small_temp_folder}/batchproc-node-"):
        run(bench, workers=1)

    assert codes(bench, died) == ["poison"]
    (small_temp_folder / FILLER).unlink()
    run(bench)
    assert bench.states([died, *others]) == {"completed": 21}


def test_progress_has_its_space_from_the_start(small_disk: Path) -> None:
    """A hole in the file would kill the worker with SIGBUS when it writes there on a full disk."""
    reader = ProgressReader(small_disk / "progress")
    fill_up(small_disk)
    writer = ProgressWriter(small_disk / "progress")
    claim = uuid4()
    writer.begin(claim)
    for done in range(100):
        writer.set(done, 100)
    assert reader.read().done == 99
    writer.close()
    reader.close()

    with pytest.raises(OSError, match="No space left"):
        ProgressReader(small_disk / "another")


def test_a_full_disk_of_the_log_stops_nothing_and_is_told_once(bench: Bench, small_disk: Path) -> None:
    log = small_disk / "log"
    log.touch()
    fill_up(small_disk)
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "m_quick") for _ in range(20)]

    with started_run(bench, "--workers", "2", handlers=HANDLERS, logging={"file": str(log), "level": "debug"}) as run:
        assert run.wait(30) == 0
        printed = "".join(run.output())

    assert bench.states(jobs) == {"completed": 20}
    assert f"the log file {str(log)!r} cannot be written (No space left on device)" in printed
    assert printed.count("cannot be written") == 1
    assert printed.count(str(log)) == 2, "and how many lines were lost in the end"
    assert "Traceback" not in printed


@pytest.mark.parametrize(("limit", "exit_code"), [(24, 3), (64, 0)])
def test_few_descriptors_are_enough_or_told(bench: Bench, limit: int, exit_code: int) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "m_quick") for _ in range(5)]
    before = ["prlimit", f"--nofile={limit}:{limit}"]

    with started_run(bench, "--workers", "2", handlers=HANDLERS, before=before) as run:
        assert run.wait(30) == exit_code
        stderr = run.output()[1]

    if exit_code:
        assert bench.states(jobs) == {"available": 5}
        assert stderr.startswith("batchproc: 2 workers need 48 open files, and this process may have 24: raise")
    else:
        assert bench.states(jobs) == {"completed": 5}


@pytest.mark.long
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8, 10, 12, 16, 32])
def test_few_processes_are_enough_or_told(bench: Bench, limit: int) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "m_quick") for _ in range(5)]
    limits = {"pids.max": str(limit)}
    with limited("pids", limits, limits) as group:
        before = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]

        with started_run(bench, "--workers", "2", handlers=HANDLERS, before=before) as run:
            exit_code = run.wait(60)
            stderr = run.output()[1]

    assert (exit_code, bench.states(jobs)) in [(0, {"completed": 5}), (3, {"available": 5})], stderr
    assert limit < 32 or exit_code == 0, stderr
    if exit_code:
        assert re.search(r"^batchproc: .*process", stderr, re.MULTILINE), stderr


def test_a_refused_fork_is_one_workers_trouble_and_passes(tmp_path: Path) -> None:
    limits = {"pids.max": "max"}
    with limited("pids", limits, limits) as group, running_pool(tmp_path, workers=2, start_attempts=50) as pool:
        forkserver = forkserver_pid()
        pool.submit(work(Act.WAIT_FOR_STOP))
        [busy] = [running.worker_pid for running in pool.running()]
        workers = [stat.process.pid for stat in processes.descendants(forkserver) if stat.alive]
        (group / "cgroup.procs").write_text(str(forkserver))
        (group / "pids.max").write_text("1")
        for idle in set(workers) - {busy}:
            os.kill(idle, signal.SIGKILL)
        wait_until(lambda: int((group / "pids.events").read_text().split()[1]) >= 2, what="two forks refused")
        (group / "pids.max").write_text("max")

        all_free(pool, 1)
        assert forkserver_pid() == forkserver
        assert len(pool.running()) == 1
        pool.drain()
        [ended] = collect(pool, 1)
        assert isinstance(ended.outcome, Completed)
