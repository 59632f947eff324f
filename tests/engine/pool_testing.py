"""Pools for tests, and what is left of them."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from batchproc.engine.pool import forkserver, processes
from batchproc.engine.pool.worker_pool import Ended, Entry, PoolOptions, Work, WorkerPool
from tests.engine import pool_functions
from tests.engine.pool_functions import Act
from tests.waiting import wait_until

NODE = f"test-node-{os.getpid()}"


def work(act: Act, timeout: float = 30.0, stall_timeout: float | None = None) -> Work:
    return Work(int(act), uuid4(), timeout, stall_timeout)


def make_pool(
    folder: Path,
    workers: int = 2,
    initializer: Callable[..., None] = pool_functions.initialize,
    **options: Any,
) -> WorkerPool:
    """A pool that is not started; traces of its jobs are in ``folder/traces``."""
    traces = folder / "traces"
    traces.mkdir(exist_ok=True)
    options = {"workers": workers, "node_id": NODE, "workdir": folder / "work", **options}
    return WorkerPool(PoolOptions(**options), Entry(pool_functions.act, initializer, (str(traces),)))


@contextmanager
def running_pool(folder: Path, workers: int = 2, **options: Any) -> Iterator[WorkerPool]:
    pool = make_pool(folder, workers, **options)
    pool.start()
    try:
        yield pool
    finally:
        pool.close()


def collect(pool: WorkerPool, count: int, deadline_seconds: float = 15.0) -> list[Ended]:
    """The next ``count`` endings, waited for as the dispatcher does."""
    ended: list[Ended] = []
    give_up = time.monotonic() + deadline_seconds
    while len(ended) < count:
        left = give_up - time.monotonic()
        assert left > 0, f"{len(ended)} of {count} jobs ended within {deadline_seconds:g} s"
        select.select([pool.wakeup_fileno()], [], [], left)
        ended += pool.poll()
    return ended


def run(pool: WorkerPool, act: Act, timeout: float = 30.0, stall_timeout: float | None = None) -> Ended:
    """One job from submit to end, when a slot is free for it."""
    wait_until(pool.free, what="a free slot")
    pool.submit(work(act, timeout, stall_timeout))
    [ended] = collect(pool, 1)
    return ended


def all_free(pool: WorkerPool, count: int, deadline_seconds: float = 10.0) -> None:
    wait_until(lambda: pool.free() == count, deadline_seconds, f"{count} free slots")


def all_begun(pool: WorkerPool) -> None:
    """Every submitted job has begun in its worker."""
    wait_until(lambda: all(running.progress.last_beat_monotonic for running in pool.running()), what="jobs begun")


def marked(node: str = NODE) -> list[int]:
    """The living processes that bear a node's marker: forkserver, resource tracker, workers and all they started."""
    prefix = f"BATCHPROC_SLOT={node}:".encode()
    found = []
    for pid in processes.all_pids():
        if any(entry.startswith(prefix) for entry in processes.environment(pid) or []):
            stat = processes.read_stat(pid)
            if stat is not None and stat.alive:
                found.append(pid)
    return found


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if (stat := processes.read_stat(pid)) is not None and stat.alive]


def traces(folder: Path) -> list[int]:
    """The pids of processes that left a trace."""
    return [int(entry.name) for entry in (folder / "traces").iterdir()]


def holdings(folder: Path) -> dict[str, int]:
    """What this process holds: threads, descriptors, processes below it, folders of workers."""
    return {
        "threads": threading.active_count(),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "processes": len(processes.descendants(os.getpid())),
        "folders": len(list((folder / "work").glob("*"))),
    }


def forkserver_pid() -> int:
    pid = forkserver.running_pid()
    assert pid is not None
    return pid
