"""Pools that end, or never begin: nothing is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from batchproc.core.errors import EnvironmentFault
from batchproc.core.outcome import Completed, Interrupted
from batchproc.engine.pool import processes
from tests.engine import pool_functions
from tests.engine.pool_functions import Act
from tests.engine.pool_testing import (
    alive,
    all_free,
    collect,
    forkserver_pid,
    holdings,
    make_pool,
    marked,
    run,
    running_pool,
    traces,
    work,
)
from tests.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]


def test_closing_leaves_nothing(tmp_path: Path) -> None:
    nothing = holdings(tmp_path)
    pool = make_pool(tmp_path)
    pool.start()
    pool.submit(work(Act.HANG_IN_C))
    pool.submit(work(Act.QUICK))
    wait_until(pool.free)
    pool.close()
    pool.close()
    assert {type(item.outcome) for item in pool.poll()} == {Completed, Interrupted}
    assert holdings(tmp_path) == nothing
    assert not (tmp_path / "work").exists()
    assert marked() == []


def test_what_comes_after_the_end_touches_no_descriptor(tmp_path: Path) -> None:
    pool = make_pool(tmp_path, 1)
    pool.start()
    numbers = [pool.wakeup_fileno(), pool._nudge]
    pool.close()
    others = [os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) for _ in range(64)]
    try:
        assert set(numbers) <= set(others), "their numbers are used again"
        pool._shared.wake()
        pool._shared.look_again(0)
        for descriptor in others:
            with pytest.raises(BlockingIOError):
                os.eventfd_read(descriptor)
    finally:
        for descriptor in others:
            os.close(descriptor)


def test_no_descriptor_is_closed_while_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(tmp_path, 1)
    pool.start()
    write, about_to_write, closed = os.eventfd_write, threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def write_late(descriptor: int, value: int) -> None:
        if threading.current_thread() is late:
            about_to_write.set()
            closed.wait(0.5)  # as long as the end would take, were it not waiting for this
        write(descriptor, value)

    def wake() -> None:
        try:
            pool._shared.wake()
        except OSError as error:
            failed.append(error)

    late = threading.Thread(target=wake)
    monkeypatch.setattr(os, "eventfd_write", write_late)
    for slot in pool._slots:
        slot.close()
    wait_until(lambda: all(slot.join(0) for slot in pool._slots))
    late.start()
    wait_until(about_to_write.is_set)
    pool.close()
    closed.set()
    late.join()
    assert failed == []


@pytest.mark.parametrize(
    ("initializer", "reason"),
    [
        (pool_functions.fail_to_initialize, "LookupError: no such engine"),
        (pool_functions.exit_in_initializer, "exit code 4"),
        (pool_functions.hang_in_initializer, "not ready after 0.5 s"),
    ],
)
def test_a_worker_that_cannot_be_started_is_tried_some_times_and_reported(
    tmp_path: Path, initializer: Any, reason: str
) -> None:
    nothing = holdings(tmp_path)
    # Long enough for a worker that ends by itself; one that hangs is not waited for.
    start_timeout = 0.5 if initializer is pool_functions.hang_in_initializer else 20.0
    pool = make_pool(tmp_path, 1, initializer, start_attempts=2, start_timeout=start_timeout)
    with pytest.raises(EnvironmentFault, match=reason):
        pool.start()
    assert holdings(tmp_path) == nothing
    assert marked() == []


def test_closing_while_workers_start_does_not_wait_for_them(tmp_path: Path) -> None:
    pool = make_pool(tmp_path, 1, max_jobs_per_worker=1)
    pool.start()
    pool.submit(work(Act.QUICK))
    begin = time.monotonic()
    pool.close()
    assert time.monotonic() - begin < 5
    assert marked() == []


def test_fifty_kills_leave_no_thread_descriptor_process_or_folder(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=4) as pool:
        for _ in range(4):
            pool.submit(work(Act.HANG_IN_C, 0.05))  # what is only ever made once is made now
        collect(pool, 4)
        all_free(pool, 4)
        wait_until(lambda: len(list((tmp_path / "work").iterdir())) == 4)
        before = holdings(tmp_path)
        for _ in range(50):
            wait_until(pool.free)
            pool.submit(work(Act.HANG_IN_C, 0.05))
        collect(pool, 50)
        all_free(pool, 4)
        wait_until(lambda: holdings(tmp_path) == before, what=f"{before} again")
    assert marked() == []


def test_a_node_killed_outright_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    temp = Path(tempfile.mkdtemp(prefix="batchproc-"))  # short enough for the forkserver's socket
    parent = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.pool_parent", str(tmp_path)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temp)},
    )
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"busy\n", "its workers hang, with trees below them"
        pids = marked("killed-node") + traces(tmp_path)
        assert len(alive(pids)) >= 10
    finally:
        parent.kill()
        parent.communicate()
    wait_until(lambda: not alive(pids), 3.0, "all processes gone")
    assert marked("killed-node") == []
    assert list(temp.iterdir()) == []
    temp.rmdir()
    assert not (tmp_path / "work").exists()


def test_a_signal_to_the_whole_group_is_the_nodes_to_obey(tmp_path: Path) -> None:
    """Ctrl-C in a terminal, or a supervisor that signals every process of a group: running jobs get their time."""
    (tmp_path / "traces").mkdir()
    parent = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.pool_parent", str(tmp_path), "deaf"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"busy\n"
        pids = marked("killed-node")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.killpg(parent.pid, number)
        servers = [pid for pid in pids if (stat := processes.read_stat(pid)) and stat.group != parent.pid]
        assert len(servers) >= 3, "the forkserver and the workers are not in the node's group"
        assert alive(servers) == servers
    finally:
        parent.kill()
        parent.communicate()
    wait_until(lambda: not marked("killed-node"), 3.0, "all processes gone")


def test_two_pools_of_one_process_share_the_forkserver(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    with running_pool(tmp_path / "one", workers=1) as one:
        server = forkserver_pid()
        with running_pool(tmp_path / "other", workers=1, node_id="another-node-with-a-much-longer-name") as other:
            assert isinstance(run(other, Act.QUICK).outcome, Completed)
            assert forkserver_pid() == server
        assert isinstance(run(one, Act.QUICK).outcome, Completed)
    assert alive([server]) == []
