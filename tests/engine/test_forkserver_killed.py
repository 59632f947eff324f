"""A forkserver that is killed while workers are started is named, and neither the machine nor the handlers blamed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from batchproc.core.errors import EnvironmentFault
from batchproc.engine import kinds
from batchproc.engine.pool import forkserver, worker_handle
from batchproc.settings import Settings
from tests.engine import pool_functions
from tests.engine.pool_testing import NODE, make_pool, marked
from tests.waiting import wait_until

KILLED = f"slot 0 has no worker: {forkserver.WAS_KILLED}: mend that and start again; `batchproc doctor` tests it"


def kill_forkserver() -> None:
    pid = forkserver.running_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: forkserver.running_pid() is None, what="the forkserver is dead")


@pytest.fixture
def held() -> Iterator[None]:
    forkserver.acquire()
    yield
    forkserver.release()


def then_killed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after which the forkserver is killed."""

    def called(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        kill_forkserver()
        return result

    return called


def started(folder: Path, initializer: Callable[..., None] = pool_functions.initialize) -> str:
    """What a pool says that cannot be started."""
    pool = make_pool(folder, 1, initializer, start_attempts=1)
    try:
        with pytest.raises(EnvironmentFault) as caught:
            pool.start()
    finally:
        pool.close()
    assert marked() == []
    return str(caught.value)


@pytest.mark.parametrize("step", ["tidy_if_killed", "ProcessPool"])
def test_before_its_worker_is_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    owner = forkserver if step == "tidy_if_killed" else worker_handle
    monkeypatch.setattr(owner, step, then_killed(getattr(owner, step)))
    assert started(tmp_path) == KILLED


def test_before_its_worker_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = worker_handle.WorkerHandle._launch
    monkeypatch.setattr(worker_handle.WorkerHandle, "_launch", then_killed(real))
    # Else it may be ready in the moment before the forkserver is dead.
    assert started(tmp_path, pool_functions.hang_in_initializer) == KILLED


def then_stopped_and_killed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after which the forkserver takes a request that it does not live to answer."""

    def called(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        pid = forkserver.running_pid()
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(0.5, os.kill, [pid, signal.SIGKILL]).start()
        return result

    return called


def test_while_it_is_asked_for_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forkserver, "tidy_if_killed", then_stopped_and_killed(forkserver.tidy_if_killed))
    assert started(tmp_path) == KILLED


@pytest.mark.usefixtures("held")
def test_before_the_handlers_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forkserver, "ensure_running", then_stopped_and_killed(forkserver.ensure_running))
    with pytest.raises(EnvironmentFault) as caught:
        kinds.learn(Settings(), NODE)
    assert (
        str(caught.value) == f"the handlers could not be imported: {forkserver.WAS_KILLED}: mend that and start again"
    )
