"""What ``ps`` shows of a run, and that nothing is recognised the less for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from batchproc.engine.pool.process_tree import MARKER_VARIABLE
from tests.cli import watched_handlers
from tests.engine.running import Bench
from tests.faults.command import environment_of, started_run
from tests.waiting import wait_until


def title(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()


@pytest.mark.long
def test_each_process_says_what_it_is_and_at(bench: Bench, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = bench.enqueue(bench.tenant("acme"), "w_pages", {"gate": str(gate)})
    with started_run(bench, "--workers", "1", "--forever", handlers=[watched_handlers.MODULE]) as run:
        [worker] = run.worker_pids()
        wait_until(lambda: title(worker) == f"batchproc worker 0: job {job}, 17 of 40", 60, "it is at page 17")
        assert title(run.guardian_pid).startswith("batchproc guardian: --conf ")
        assert title(run.guardian_pid).endswith(" run --workers 1 --forever")
        assert title(run.forkserver_pid) == "batchproc forkserver"
        wait_until(lambda: title(run.node_pid) == "batchproc node: 1 busy, 0 ended", 20, "the node says how busy it is")
        environment = Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
        assert any(entry.startswith(f"{MARKER_VARIABLE}=".encode()) for entry in environment)
        assert not any(entry.startswith(b"SPT_") for entry in environment)
        gate.touch()
        wait_until(lambda: title(worker) == "batchproc worker 0: idle", 20, "it is idle")
        wait_until(lambda: title(run.node_pid) == "batchproc node: 0 busy, 1 ended", 20, "and the node tells")
        assert run.stop() == 0


def test_an_application_that_runs_a_node_keeps_its_title(bench: Bench) -> None:
    before = Path("/proc/self/cmdline").read_bytes()
    bench.enqueue(bench.tenant("acme"), "t_brief")
    assert bench.run().counts.completed == 1
    assert Path("/proc/self/cmdline").read_bytes() == before


def test_a_title_leaves_the_environment_and_is_cut_to_its_place() -> None:
    script = (
        "import os, pathlib; from batchproc.engine.pool import process_title as t\n"
        "before = dict(os.environ), pathlib.Path('/proc/self/environ').read_bytes()\n"
        "t.show('batchproc ' + 'x' * 100_000)\n"
        "assert (dict(os.environ), pathlib.Path('/proc/self/environ').read_bytes()) == before\n"
        "t.show('batchproc worker 3')\n"
        "print(pathlib.Path('/proc/self/cmdline').read_bytes().rstrip(b'\\0').decode())\n"
        "import subprocess; print(subprocess.check_output(['env']).decode().count('SPT_NOENV'))"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], env=environment_of(), check=True, capture_output=True, text=True
    )
    assert told.stdout.split("\n") == ["batchproc worker 3", "0", ""]
