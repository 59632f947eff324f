"""When there are no more descriptors, processes or room for this process: a fault with its name, not a traceback."""

from __future__ import annotations

import contextlib
import errno
import resource
import tempfile
from collections.abc import Iterator
from typing import Final

from batchproc.core.errors import EnvironmentFault

DESCRIPTORS, DESCRIPTORS_PER_WORKER = 32, 8
"""Open files that a node needs by itself and for each worker. Measured: 392 with 64 workers, and 8 while one starts."""

_NO_THREAD: Final = "can't start new thread"
_NO_PROCESS: Final = "raise its limit of processes (ulimit -u, or pids.max of its cgroup), or use fewer workers"


def require_descriptors(workers: int) -> None:
    """Makes sure that this process may open as many files as it will need; raises its own limit as far as that takes.

    Raises:
        EnvironmentFault: it may not.
    """
    needed = DESCRIPTORS + DESCRIPTORS_PER_WORKER * workers
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise EnvironmentFault(
            f"{workers} workers need {needed} open files, and this process may have {hard}",
            "raise that limit (ulimit -n), or use fewer workers",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


@contextlib.contextmanager
def as_fault() -> Iterator[None]:
    """Turns what a shortage makes Python raise within into EnvironmentFault; everything else comes through."""
    try:
        yield
    except (OSError, RuntimeError, MemoryError) as error:
        if (fault := _fault(error)) is None:
            raise
        raise fault from error


def _fault(error: BaseException) -> EnvironmentFault | None:
    if isinstance(error, MemoryError) or _number(error) == errno.ENOMEM:
        return EnvironmentFault("there is no memory left for the node", "see what uses it up, or use fewer workers")
    if str(error) == _NO_THREAD or _number(error) == errno.EAGAIN:
        return EnvironmentFault("no process or thread can be started for the node", _NO_PROCESS)
    if _number(error) in (errno.EMFILE, errno.ENFILE):
        return EnvironmentFault("no more files can be opened", "raise the limit (ulimit -n), or use fewer workers")
    if _number(error) in (errno.ENOSPC, errno.EDQUOT):
        place = getattr(error, "filename", None) or tempfile.gettempdir()
        return EnvironmentFault(f"no space left in {place}", "make room there, or set TMPDIR to another folder")
    return None


def _number(error: BaseException) -> int | None:
    return error.errno if isinstance(error, OSError) else None
