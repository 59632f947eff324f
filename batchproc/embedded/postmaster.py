"""Is the server running, and is it ours? Read from the system, never believed from a file alone."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

PID_FILE = "postmaster.pid"


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A running server. ``state`` is its own word: starting, ready, stopping."""

    pid: int
    state: str


def find_postmaster(data: Path) -> Postmaster | None:
    """The server that runs on the folder ``data``, or None.

    A pid file outlives a crash, and its process id may by now be somebody else's. So the process must belong to the
    owner of ``data``, have been started as ``postgres -D data``, and have that very folder as its current one, as every
    postmaster has. The start time in the file is not compared: it comes from a clock that may have been set since.
    """
    try:
        lines = (data / PID_FILE).read_text().splitlines()
        pid = int(lines[0])
    except (FileNotFoundError, NotADirectoryError, ValueError, IndexError):
        return None
    if not _is_postmaster(pid, data):
        return None
    # The eighth line, absent at first (LOCK_FILE_LINE_PM_STATUS in PostgreSQL's pidfile.h).
    return Postmaster(pid, lines[7].strip() if len(lines) > 7 else "starting")


def remove_stale_files(data: Path, socket: Path) -> None:
    """Removes what would stop a new server; only to be called when none runs.

    PostgreSQL refuses to start when the process id in one of its lock files is in use, whoever uses it. A pid file
    whose process is gone stays: PostgreSQL frees the old server's shared memory by it.
    """
    pid_file = data / PID_FILE
    try:
        pid = int(pid_file.read_text().splitlines()[0])
        stale = Path("/proc", str(pid)).exists()
    except FileNotFoundError:
        stale = False
    except (ValueError, IndexError):  # the file of a server killed while it wrote it
        stale = True
    if stale:
        logger.warning("removing {}: its process is not a server of this folder", pid_file)
        pid_file.unlink()
    socket.with_name(socket.name + ".lock").unlink(missing_ok=True)


@contextmanager
def locked(path: Path, doing: str) -> Iterator[None]:
    """Holds the file's lock for one command; waits for whoever has it, and says so."""
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("waiting for another command that starts, stops or restores the database, before {}", doing)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether a process of a server has the lock ``path``."""
    try:
        with path.open("rb") as file:
            # Shared, so that two that ask at once do not see each other.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def hold(path: Path) -> int:
    """A descriptor with the lock ``path``, for a server to inherit; to be closed here after the start."""
    descriptor = _open(path)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


class Waiting:
    """Polls until something has happened, however long that takes, and now and then says what it waits for."""

    _INTERVAL = 0.02
    _REMINDER = 10.0

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = self._said = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has been."""
        return time.monotonic() - self._begun

    def pause(self) -> None:
        """Waits for one interval."""
        if time.monotonic() - self._said > self._REMINDER:
            self._said = time.monotonic()
            logger.info("{}: {:.0f} s so far", self._what, self.seconds)
        time.sleep(self._INTERVAL)


def _open(path: Path) -> int:
    # For its owner only: whoever can open a file can lock it.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_postmaster(pid: int, data: Path) -> bool:
    process = Path("/proc", str(pid))
    try:
        if process.stat().st_uid != data.stat().st_uid:
            return False
        # The postmaster keeps its command line, its backends make theirs a title ("postgres: checkpointer").
        program, *arguments = (process / "cmdline").read_bytes().split(b"\0")
        if os.path.basename(program) != b"postgres" or b"-D" not in arguments[:-1]:  # noqa: PTH119  # bytes
            return False
        if not data.samefile(os.fsdecode(arguments[arguments.index(b"-D") + 1])):
            return False
    except (FileNotFoundError, ProcessLookupError):
        return False
    try:
        return (process / "cwd").samefile(data)
    except PermissionError:  # root without CAP_SYS_PTRACE, as in most containers: the rest has to do
        return True
    except (FileNotFoundError, ProcessLookupError):
        return False
