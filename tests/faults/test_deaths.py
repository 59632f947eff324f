"""Workers that die, in every way and by anybody's hand: the job is charged once, the slot gets a new worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import pytest

from batchproc.core.errors import EnvironmentFault
from batchproc.engine.node import RunOptions
from batchproc.engine.pool import forkserver, processes
from tests.engine.running import HANDLERS, Bench, alive
from tests.faults import failing_import
from tests.faults.meanwhile import meanwhile
from tests.faults.worker_handlers import DEATHS, KINDS
from tests.waiting import wait_until

MODULES = [HANDLERS, KINDS]


def noted(folder: Path, name: str) -> list[int]:
    """The numbers that handlers have noted under that name."""
    file = folder / name
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def test_every_way_to_die_is_charged_once_and_the_slot_goes_on(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    dead = [bench.enqueue(tenant, "w_die", {"how": how}) for how in DEATHS]
    polite = [bench.enqueue(tenant, "w_exit", {"how": how}, max_attempts=1) for how in ("0", "3")]
    after = [bench.enqueue(tenant, "t_quick") for _ in range(4)]

    report = bench.run(RunOptions(workers=2), handlers=MODULES, dispatch={"brake": False})

    for job_id, (_, recorded) in zip(dead, DEATHS.values(), strict=True):
        job = bench.job(job_id)
        [attempt] = job["attempts"]
        assert (job["failure_code"], attempt["error_class"], attempt["error_type"]) == ("poison", "crashed", recorded)
    for job_id in polite:
        job = bench.job(job_id)
        assert (job["failure_code"], len(job["attempts"])) == ("internal_error", 1)
        assert job["attempts"][0]["error_type"].startswith("SystemExit at worker_handlers.py:")
    assert bench.states(after) == {"completed": 4}
    assert report.exit_code == 1


def _workers() -> list[int]:
    """Of all slots."""
    server = forkserver.running_pid()
    assert server is not None
    return [stat.process.pid for stat in processes.descendants(server) if stat.alive and stat.parent == server]


def _kill(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not [pid for pid in pids if alive(pid)])


def _busy(folder: Path, jobs: int) -> list[int]:
    """The workers of so many jobs that have begun."""
    return wait_until(lambda: pids if len(pids := noted(folder, "pids")) >= jobs else [], 30, "jobs begun")


def _kill_one(folder: Path) -> None:
    _kill(_busy(folder, 2)[:1])


def _kill_all(folder: Path) -> None:
    _kill(_busy(folder, 2))


def _kill_idle(folder: Path) -> None:
    busy = _busy(folder, 2)
    idle = [pid for pid in _workers() if pid not in busy]
    assert len(idle) == 1
    _kill(idle)


def _kill_forkserver(folder: Path) -> None:
    _busy(folder, 2)
    server = forkserver.running_pid()
    assert server is not None
    os.kill(server, signal.SIGKILL)


def _kill_tracker(folder: Path) -> None:
    _busy(folder, 2)
    pid: Any = resource_tracker._resource_tracker._pid  # type: ignore[attr-defined] # not in typeshed
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("kill", "charged"),
    [
        pytest.param(_kill_one, 1, id="a busy worker", marks=pytest.mark.long),
        pytest.param(_kill_all, 2, id="every busy worker"),
        pytest.param(_kill_idle, 0, id="an idle worker", marks=pytest.mark.long),
        pytest.param(_kill_forkserver, None, id="the forkserver"),
        pytest.param(_kill_tracker, 0, id="the resource tracker", marks=pytest.mark.long),
    ],
)
def test_what_is_killed_from_outside_is_mended_in_the_same_run(
    tmp_path: Path, bench: Bench, kill: Callable[[Path], None], charged: int | None
) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "w_until", {"how": "", "folder": str(tmp_path)}) for _ in range(2)]
    later: list[int] = []

    def act() -> None:
        try:
            kill(tmp_path)
            later.extend(bench.enqueue(tenant, "t_quick") for _ in range(3))
        finally:
            (tmp_path / "end").touch()

    with meanwhile(act):
        report = bench.run(RunOptions(workers=3), handlers=MODULES)

    assert bench.states([*jobs, *later]) == {"completed": 5}
    crashed = "select count(*) from batchproc.job_attempts where error_class = 'crashed'"
    others = "select count(*) from batchproc.job_attempts where outcome = 'failed' and error_class <> 'crashed'"
    if charged is None:
        assert bench.rows(crashed) == [(0,)]
        assert [bench.job(job)["crashes"] for job in jobs] == [0, 0]
    else:
        assert bench.rows(crashed) == [(charged,)]
        assert bench.rows(others) == [(0,)]
    assert report.exit_code == 0


@pytest.mark.parametrize(
    "good",
    [
        pytest.param(1, id="the first worker of all", marks=pytest.mark.long),
        pytest.param(3, id="the worker after one that died"),
    ],
)
def test_handlers_that_cannot_be_imported_any_more_end_the_run_with_a_clear_error(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch, good: int
) -> None:
    """One import tells the node what there is, then each of the two workers needs one."""
    monkeypatch.setenv(failing_import.FOLDER, str(tmp_path))
    monkeypatch.setenv(failing_import.GOOD, str(good))
    modules = [*MODULES, failing_import.__name__]
    tenant = bench.tenant("acme")
    job = bench.enqueue(tenant, "w_until", {"how": "", "folder": str(tmp_path)})

    def act() -> None:
        if good > 1:
            _kill(_busy(tmp_path, 1))

    with (
        meanwhile(act),
        pytest.raises(EnvironmentFault, match=r"slot \d has no worker: .*the licence server does not answer") as fault,
    ):
        bench.run(RunOptions(workers=2), handlers=modules)

    assert fault.value.exit_code == 3
    failed = len(noted(tmp_path, "imports")) - good
    assert 3 <= failed <= 6, "three tries for a slot"
    waits = bench.job(job)
    assert waits["state"] in ("available", "scheduled")
    monkeypatch.setenv(failing_import.GOOD, "1000")
    (tmp_path / "end").touch()
    bench.run(RunOptions(workers=2), handlers=modules)
    assert bench.job(job)["state"] == "completed"
