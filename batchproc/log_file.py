"""The log file: whole lines appended by many processes; a disk that is full loses lines, and nothing else."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


class LogFile:
    """A sink for loguru, whose own prints a traceback with the whole record to stderr for each line it cannot write.

    Here the first such line is told on stderr, in one line, and how many there were in the end. The file may be moved
    away while it is in use: the next line goes into a new one. It is made for its owner only, as tracebacks may quote
    documents; one that is there keeps its permissions.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._lost = 0
        self._open()

    def write(self, line: str) -> None:
        """Appends the line; what other processes append does not come between."""
        data = line.encode("utf-8", "backslashreplace")
        try:
            if self._was_moved():
                os.close(self._descriptor)
                self._open()
            written = os.write(self._descriptor, data)
            if written < len(data):
                os.write(self._descriptor, data[written:])
        except OSError as error:
            self._lost += 1
            if self._lost == 1:
                _tell(f"the log file {str(self._path)!r} cannot be written ({error.strerror}): its lines are lost")

    def stop(self) -> None:
        """Called by loguru when the sink is removed."""
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        if self._lost > 1:
            _tell(f"{self._lost} lines of the log file {str(self._path)!r} were lost")

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stat = os.fstat(self._descriptor)
        self._identity = stat.st_dev, stat.st_ino

    def _was_moved(self) -> bool:
        try:
            stat = self._path.stat()
        except OSError:
            return True
        return (stat.st_dev, stat.st_ino) != self._identity


def _tell(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # stderr may be on the same disk, or closed
        print(f"batchproc: {text}", file=sys.stderr, flush=True)  # noqa: T201 - there is no log for it
