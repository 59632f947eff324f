"""The log file: whole lines appended by many processes; a disk that is full loses lines, and nothing else."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from pathlib import Path


class LogFile:
    """A sink for loguru, whose own prints a traceback with the whole record to stderr for each line it cannot write.

    Here the first such line is told on stderr, in one line, and how many there were in the end. The file may be moved
    away while it is in use: the next line goes into a new one, or, as long as none can be made, still into the old
    one. It is made for its owner only, as tracebacks may quote documents; one that is there keeps its permissions.

    Args:
        path: of the file; missing folders are made.
        tells: False in a worker, whose node has the same file: a run tells of it once.
        rotate: bytes; before the file would grow larger it becomes ``FILE.1``, that ``FILE.2`` and so on. Whichever
            process notices does it, one of them alone; what others write meanwhile goes into either file. None: never.
        keep: how many of those are kept.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str | Path, *, tells: bool = True, rotate: int | None = None, keep: int = 5) -> None:
        self._path = Path(path)
        self._tells = tells
        self._rotate = rotate
        self._keep = keep
        self._lost = 0
        self._has_told = False
        self._descriptor = -1
        self._open()

    def write(self, line: str) -> None:
        """Appends the line; what other processes append does not come between."""
        data = line.encode("utf-8", "backslashreplace")
        stat = self._stat()
        if stat is None or self._is_other(stat):
            self._follow()
        elif self._rotate is not None and stat.st_size and stat.st_size + len(data) > self._rotate:
            self._move_away(stat.st_size)
        try:
            written = os.write(self._descriptor, data)
            if written < len(data):
                os.write(self._descriptor, data[written:])
        except OSError as error:
            self._lost += 1
            self._tell_once(f"cannot be written ({error.strerror}): its lines are lost")

    def stop(self) -> None:
        """Called by loguru when the sink is removed."""
        descriptor, self._descriptor = self._descriptor, -1
        with contextlib.suppress(OSError):
            os.close(descriptor)
        if self._tells and self._lost > 1:
            _tell(f"{self._lost} lines of the log file {str(self._path)!r} were lost")

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stat = os.fstat(descriptor)
        # The number of the old one is given up before it is closed: from then on it may be somebody else's.
        old, self._descriptor = self._descriptor, descriptor
        self._identity = stat.st_dev, stat.st_ino
        if old >= 0:
            with contextlib.suppress(OSError):
                os.close(old)

    def _follow(self) -> None:
        try:
            self._open()
        except OSError as error:
            self._tell_once(f"was moved and cannot be made again ({error.strerror}): the old one goes on")

    def _tell_once(self, what: str) -> None:
        if self._tells and not self._has_told:
            self._has_told = True
            _tell(f"the log file {str(self._path)!r} {what}")

    def _move_away(self, size: int) -> None:
        """Unless another process does, or has done, so: the lock is on the file itself, which has that size."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        stat = self._stat()
        try:
            if stat is not None and not self._is_other(stat) and stat.st_size >= size:
                for number in range(self._keep - 1, 0, -1):
                    with contextlib.suppress(FileNotFoundError):
                        self._numbered(number).replace(self._numbered(number + 1))
                self._path.replace(self._numbered(1))
            self._open()  # which gives the lock back with the old file
        except OSError as error:
            self._tell_once(f"cannot be moved away ({error.strerror}): it grows on")
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _stat(self) -> os.stat_result | None:
        try:
            return self._path.stat()
        except OSError:
            return None

    def _is_other(self, stat: os.stat_result) -> bool:
        return (stat.st_dev, stat.st_ino) != self._identity


def _tell(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # stderr may be on the same disk, or closed
        print(f"batchproc: {text}", file=sys.stderr, flush=True)  # noqa: T201 - there is no log for it
