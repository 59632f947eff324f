"""What tells, once a worker has died, that it died for want of memory; collected while it lived."""

from __future__ import annotations

import os
import resource
import signal
import time
from typing import Final

from batchproc.engine.pool import oom_kills, processes
from batchproc.engine.pool.processes import Stat

LATELY: Final = 5.0
"""Seconds. The kernel counts its kill at once, but a big process takes a while to be gone."""

NEAR: Final = 0.5
"""Part of the address space allowed from which on an abort is put down to it: the last look is a moment old."""

# How native code ends that cannot go on without what it asked for: C++ aborts, pdfium traps, others use the null.
_ALLOCATION_FAILED: Final = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGTRAP})


class MemoryEvidence:
    """Of one worker. What the kernel has killed so far, or kills in another cgroup, is somebody else's trouble."""

    def __init__(self) -> None:
        self._counter = oom_kills.counter_of(os.getpid())  # where a worker is born
        self._kills = self._counter.read() or 0
        self._killed_at = float("-inf")
        self._near_its_limit = False

    def note(self, worker: Stat) -> None:
        """Keeps what can be seen of the living worker, and of the kernel's kills.

        One that is about to be gone shows neither its group nor what it had: what was seen before that holds.
        """
        counter = oom_kills.counter_of(worker.process.pid)
        near = worker.mapped > NEAR * _address_limit(worker.process.pid)
        now = processes.read_stat(worker.process.pid)
        self._note_kills()
        if worker.exiting or now is None or now.exiting or now.process != worker.process:
            return
        if counter != self._counter:
            self._counter, self._kills = counter, counter.read() or 0
        self._near_its_limit = near

    def explains(self, exit_code: int | None) -> bool:
        """Whether the worker died for want of memory: an end by a signal (negative) that nobody we know has sent.

        The kernel kills with SIGKILL. Below the limit of its address space native code gets no memory and mostly
        does not survive that.
        """
        if exit_code == -signal.SIGKILL:
            self._note_kills()
            return time.monotonic() - self._killed_at < LATELY
        return exit_code is not None and -exit_code in _ALLOCATION_FAILED and self._near_its_limit

    def _note_kills(self) -> None:
        kills = self._counter.read()
        if kills is not None and kills > self._kills:
            self._kills, self._killed_at = kills, time.monotonic()


def _address_limit(pid: int) -> float:
    try:
        soft, _ = resource.prlimit(pid, resource.RLIMIT_AS)
    except OSError:  # it is gone
        return float("inf")
    return float("inf") if soft == resource.RLIM_INFINITY else soft
