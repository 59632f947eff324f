"""What a job may leave in its worker that is no setting and no file: threads, memory, helpers of multiprocessing."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import sys
import threading
import time
from multiprocessing import forkserver, process, resource_tracker
from typing import Any

from batchproc.engine.pool import processes

_ENDING_PATIENCE = 0.2
"""Seconds in which threads that are about to end may do so, as those of an executor that was not waited for."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Threads:
    """The threads that run Python code now: they are the worker's own, such as those its handler modules started."""

    def __init__(self) -> None:
        self._own = set(sys._current_frames())

    def left(self) -> bool:
        """Whether there are others, also after a moment of patience."""
        others = self._others()
        if not others:
            return False
        give_up = time.monotonic() + _ENDING_PATIENCE
        for thread in threading.enumerate():
            if thread.ident in others:
                with contextlib.suppress(RuntimeError):  # one that Python did not start cannot be waited for
                    thread.join(max(0.0, give_up - time.monotonic()))
        return bool(self._others())

    def _others(self) -> set[int]:
        running = set(sys._current_frames())
        self._own &= running  # the system gives the number of one that has ended to another
        return running - self._own


class Memory:
    """The resident memory as it is now, and how far a job may leave it above that.

    Args:
        limit_mb: what a worker may hold, MiB. Up to half of it may stay, for what handlers load once; more would be
            charged to the next job. None is no limit.
    """

    def __init__(self, limit_mb: int | None) -> None:
        self._most = None if limit_mb is None else _resident() + (limit_mb << 20) // 2

    def left(self) -> bool:
        """Whether more than that is held, also by what is not garbage."""
        # The most that was ever resident is a question of its own, and a much quicker one.
        if self._most is None or _peak() <= self._most or _resident() <= self._most:
            return False
        gc.collect()
        return _resident() > self._most


def _peak() -> int:
    """Bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _resident() -> int:
    """Bytes."""
    with open("/proc/self/statm", "rb", buffering=0) as file:  # noqa: PTH123 - after many jobs: Path takes longer
        return int(file.read(200).split()[1]) * _PAGE_BYTES


def forget_helpers() -> None:
    """Lets multiprocessing start anew what it had in this process: its helpers were killed, its folder was emptied.

    It looks for them by what it noted when it started them, and raises when they are gone.
    """
    process.current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined]
    server: Any = forkserver._forkserver
    if _is_gone(server._forkserver_pid):
        _close(server._forkserver_alive_fd)
        server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None
    tracker: Any = resource_tracker._resource_tracker
    if _is_gone(tracker._pid):
        _close(tracker._fd)
        tracker._fd = tracker._pid = None


def _is_gone(pid: int | None) -> bool:
    return pid is not None and processes.identify(pid) is None


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        with contextlib.suppress(OSError):  # a handler may have closed it
            os.close(descriptor)
