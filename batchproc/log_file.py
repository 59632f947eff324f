"""The log file: whole lines appended by many processes; a disk that is full loses lines, and nothing else."""

from __future__ import annotations

import contextlib
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

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str | Path, *, tells: bool = True) -> None:
        self._path = Path(path)
        self._tells = tells
        self._lost = 0
        self._has_told = False
        self._descriptor = -1
        self._open()

    def write(self, line: str) -> None:
        """Appends the line; what other processes append does not come between."""
        data = line.encode("utf-8", "backslashreplace")
        if self._was_moved():
            self._follow()
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

    def _was_moved(self) -> bool:
        try:
            stat = self._path.stat()
        except OSError:
            return True
        return (stat.st_dev, stat.st_ino) != self._identity


def _tell(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # stderr may be on the same disk, or closed
        print(f"batchproc: {text}", file=sys.stderr, flush=True)  # noqa: T201 - there is no log for it
