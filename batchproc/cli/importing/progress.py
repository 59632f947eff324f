"""What a person at a terminal sees while an import goes on."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence

from batchproc.cli.shared.terminal import StatusLine
from batchproc.core.durations import duration
from batchproc.core.throughput import Window, rate, seconds_left
from batchproc.ops.files_below import Unlisted, files_below

_EVERY = 1.0


class ImportProgress:
    """Files done, rate and time left on stderr, if that is a terminal; else nothing.

    Args:
        paths: what is imported; how much that is, is counted beside the import.
        manifest: what names more, a line each.
    """

    def __init__(self, paths: Sequence[bytes], manifest: bytes | None, *, recursive: bool) -> None:
        self._line = StatusLine()
        self._history: Window[int] = Window()
        self._history.add(time.monotonic(), 0)
        self._total = _Total(paths, manifest, recursive)

    def start(self) -> None:
        if sys.stderr.isatty():
            self._total.start()

    def stop(self) -> None:
        self._total.stop()
        self.clear()

    def clear(self) -> None:
        self._line.clear()

    def show(self, files: int, bytes_read: int, rejected: int) -> None:
        """Once a second, whatever it is called."""
        now = time.monotonic()
        last, _ = self._history.looks[-1]
        if now - last < _EVERY:
            return
        self._history.add(now, files)
        self._line.show(_told(self._history, self._total.files, bytes_read, rejected))


def _told(history: Window[int], total: int | None, bytes_read: int, rejected: int) -> str:
    files = history.last
    of = f" of {total}" if total is not None else ""
    fast = rate(files - history.first, history.seconds)
    told = [
        f"{files}{of} files",
        *([fast] if fast else []),
        f"{bytes_read / 1e9:.1f} GB read",
        f"{rejected} rejected",
    ]
    if total is not None:
        left = seconds_left([(at, max(0, total - done)) for at, done in history.looks])
        told += [f"about {duration(left)} left"] if left else []
    return ", ".join(told)


class _Total:
    """How many files there are, counted in a thread of its own; None until all are counted."""

    def __init__(self, paths: Sequence[bytes], manifest: bytes | None, recursive: bool) -> None:
        self._paths = paths
        self._manifest = manifest
        self._recursive = recursive
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._count, name="count files", daemon=True)
        self.files: int | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _count(self) -> None:
        try:
            files = sum(map(self._in_path, self._paths)) + self._in_manifest()
        except OSError:  # the import meets it, too, and says so
            return
        if not self._stopped.is_set():
            self.files = files

    def _in_path(self, path: bytes) -> int:
        if not os.path.isdir(path):  # noqa: PTH112 - pathlib knows no bytes
            return 1
        count = 0
        for found in files_below(path, recursive=self._recursive):
            if self._stopped.is_set():
                break
            count += not isinstance(found, Unlisted)
        return count

    def _in_manifest(self) -> int:
        if self._manifest is None:
            return 0
        with open(self._manifest, "rb") as lines:  # noqa: PTH123 - as above
            return sum(not self._stopped.is_set() and not line.isspace() for line in lines)
