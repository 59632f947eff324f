"""What a job may change in its worker process, and how it is put back before the next job, perhaps another tenant's.

Only what belongs to the process as a whole: variables of its own modules are the handler's business. It runs between
any two jobs, so it only compares as long as nothing was changed: about 25 µs.
"""

from __future__ import annotations

import gc
import importlib
import locale
import os
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loguru import logger

from batchproc.engine import leftovers
from batchproc.engine.pool import process_tree, processes

# signal's own functions make enums of each answer, which takes most of the time.
_signal: Any = importlib.import_module("_signal")

_PATIENCE = 2.0
"""Seconds within which what a job has left running must be dead, else the worker goes with it."""

_LOG = "the log"
_STREAMS = ("stdin", "stdout", "stderr")
_HOOKS = ("excepthook", "displayhook", "unraisablehook")
# Without those that no job of another tenant could notice: RLIMIT_RSS and RLIMIT_LOCKS have no effect (setrlimit(2)),
# the others say how far a priority may be raised, or are for real-time scheduling. Each look costs half a microsecond,
# after every job.
_UNNOTICED = {"RSS", "LOCKS", "NICE", "RTPRIO", "RTTIME"}
_LIMITS = tuple(
    {
        getattr(resource, name)
        for name in dir(resource)
        if name.startswith("RLIMIT_") and name.removeprefix("RLIMIT_") not in _UNNOTICED
    }
)
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
# SIGKILL and SIGSTOP cannot be handled; what C code handles shows as None and is left to it.
_SIGNALS = tuple(sorted(map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})))


class _Unfit(Exception):
    """The process cannot be put back: it has to be replaced. The text says why."""


@dataclass(frozen=True)
class _Part:
    """One thing that can be looked at, compared, and put back as it was; that may raise OSError, ValueError, _Unfit."""

    name: str
    look: Callable[[], Any]
    put_back: Callable[[Any], object]


class WorkerState:
    """The process as it is now, before its first job.

    Args:
        set_up_log: sets up the log anew.
        declare_unfit: called when something cannot be put back: the process has to be replaced.
        memory_limit_mb: what the process may hold, MiB; None is no limit.
    """

    def __init__(
        self, set_up_log: Callable[[], None], declare_unfit: Callable[[], None], memory_limit_mb: int | None = None
    ) -> None:
        self._parts = (*_PARTS, _Part(_LOG, _log, lambda _: set_up_log()))
        self._declare_unfit = declare_unfit
        self._looks = [part.look for part in self._parts]
        self._before = [look() for look in self._looks]
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._threads = leftovers.Threads()
        self._memory = leftovers.Memory(memory_limit_mb)
        self._spared = [stat.process for stat in processes.descendants(os.getpid()) if stat.alive]

    def put_back(self, job_id: int) -> None:
        """Undoes what this job, the last one, has changed."""
        try:
            changed = self._changed()
        except Exception as error:  # noqa: BLE001 - what cannot be looked at is not as it was
            why = error if isinstance(error, _Unfit) else type(error).__name__
            logger.warning("job {} left its worker unfit for another one ({}): it is replaced", job_id, why)
            self._declare_unfit()
        else:
            if changed:
                logger.debug("after job {} was put back: {}", job_id, ", ".join(changed))

    def _changed(self) -> list[str]:
        """The names of what was changed and is as before now."""
        changed = ["its processes"] if self._end_processes() else []
        # Compared as a whole first: mostly that is all there is to do, and each step between two jobs counts.
        if [look() for look in self._looks] != self._before:
            for part, before in zip(self._parts, self._before, strict=True):
                if part.look() != before:
                    changed.append(part.name)
                    self._put_back(part, before)
        os.umask(self._umask)
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        # Last: what is put back ends some of them.
        if self._threads.left():
            raise _Unfit("threads")
        if self._memory.left():
            raise _Unfit("memory")
        return changed

    def _put_back(self, part: _Part, before: Any) -> None:
        try:
            part.put_back(before)
            after = part.look()
        except (OSError, ValueError) as error:
            raise _Unfit(f"{part.name}: {type(error).__name__}") from error
        # A new sink is another one.
        if after != before and part.name != _LOG:
            raise _Unfit(part.name)

    def _end_processes(self) -> bool:
        """Kills what the job has left running, and buries what of it is dead; whether there was any alive."""
        if not _has_children():
            leftovers.forget_helpers()
            return False
        left = self._left_running()
        if left:
            process_tree.kill_descendants(os.getpid(), _PATIENCE, self._spared)
        for stat in processes.descendants(os.getpid()):
            if not stat.alive and stat.parent == os.getpid():
                process_tree.reap(stat.process.pid)
        if self._left_running():
            raise _Unfit("processes that do not die")
        leftovers.forget_helpers()
        return left

    def _left_running(self) -> bool:
        spared: set[int] = {process.pid for process in self._spared if processes.is_alive(process)}
        return any(stat.alive for stat in processes.descendants(os.getpid(), dead=spared))


def _has_children() -> bool:
    """Whether this process has any child, living or dead."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _open_files() -> list[tuple[int, int] | None]:
    """What the standard descriptors are."""
    try:
        return list(map(_identity, range(3)))
    except OSError:
        return [_identity(descriptor) if _is_open(descriptor) else None for descriptor in range(3)]


def _identity(descriptor: int) -> tuple[int, int]:
    """Its inode and device: as a slice at half of what the names of the fields take."""
    return os.fstat(descriptor)[1:3]


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _unfit(_before: Any) -> None:
    raise _Unfit("what cannot be undone")


def _set_folder(before: str | None) -> None:
    if before is not None:
        os.chdir(before)


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - of every job
    except OSError:  # it was removed
        return None


def _environment() -> dict[bytes, bytes]:
    return dict(os.environ._data)  # type: ignore[attr-defined] # all else decodes it, which takes most of the time


def _set_environment(before: dict[bytes, bytes]) -> None:
    for name in set(os.environb) - set(before):
        del os.environb[name]
    for name, value in before.items():
        if os.environb.get(name) != value:
            os.environb[name] = value


def _handlers() -> list[Any]:
    return list(map(_signal.getsignal, _SIGNALS))


def _set_handlers(before: list[Any]) -> None:
    for number, handler in zip(_SIGNALS, before, strict=True):
        if handler is not None and _signal.getsignal(number) != handler:
            signal.signal(number, handler)


def _limits() -> list[tuple[int, int]]:
    return list(map(resource.getrlimit, _LIMITS))


def _set_limits(before: list[tuple[int, int]]) -> None:
    for limit, values in zip(_LIMITS, before, strict=True):
        if resource.getrlimit(limit) != values:
            resource.setrlimit(limit, values)


def _sys() -> list[Any]:
    return [getattr(sys, name, None) for name in (*_STREAMS, *_HOOKS)]


def _set_sys(before: list[Any]) -> None:
    for name, value in zip((*_STREAMS, *_HOOKS), before, strict=True):
        setattr(sys, name, value)


def _log() -> list[Any]:
    """Loguru has no public way to ask for its sinks."""
    core = logger._core  # type: ignore[attr-defined]
    return [list(core.handlers), core.patcher, dict(core.extra), list(core.activation_list)]


def _temp_folder() -> str | None:
    """What a job chose; None also for what tempfile chooses itself."""
    return None if tempfile.tempdir == os.environ.get("TMPDIR") else tempfile.tempdir


def _set_temp_folder(before: str | None) -> None:
    tempfile.tempdir = before


def _set_collecting(before: bool) -> None:
    (gc.enable if before else gc.disable)()


_PARTS = (
    _Part("the standard descriptors", _open_files, _unfit),
    _Part("the user", lambda: (os.getresuid(), os.getresgid()), _unfit),
    _Part("the priority", lambda: os.getpriority(os.PRIO_PROCESS, 0), lambda n: os.setpriority(os.PRIO_PROCESS, 0, n)),
    _Part("the CPUs", lambda: os.sched_getaffinity(0), lambda cpus: os.sched_setaffinity(0, cpus)),
    _Part("the current folder", _folder, _set_folder),
    _Part("the environment", _environment, _set_environment),
    _Part("signal handlers", _handlers, _set_handlers),
    _Part(
        "blocked signals",
        lambda: _signal.pthread_sigmask(signal.SIG_BLOCK, []),
        lambda mask: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
    ),
    _Part("resource limits", _limits, _set_limits),
    _Part("the standard streams", _sys, _set_sys),
    _Part("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    _Part("the locale", lambda: locale.setlocale(locale.LC_ALL), lambda name: locale.setlocale(locale.LC_ALL, name)),
    _Part("the temp folder", _temp_folder, _set_temp_folder),
    _Part("the timeout of sockets", socket.getdefaulttimeout, socket.setdefaulttimeout),
    _Part("garbage collection", gc.isenabled, _set_collecting),
)
