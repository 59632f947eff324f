"""The most memory that any one process below this one has had, also of workers that are killed before they can say."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from types import TracebackType

from batchproc.engine.pool import processes

_PAUSE = 0.1
_HIGH_WATER = re.compile(rb"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


class PeakMemory:
    """Looks ten times a second, as long as it is entered.

    What it reads is the kernel's own high-water mark (proc(5), ``VmHWM``), so only what a process has taken in its last
    tenth of a second is missed.
    """

    def __init__(self) -> None:
        self._peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="peak memory", daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def bytes(self) -> int:
        """The most seen so far; 0 when nothing was."""
        return self._peak

    def _look_on(self) -> None:
        while not self._ended.wait(_PAUSE):
            for member in processes.descendants(os.getpid()):
                self._peak = max(self._peak, _high_water(member.process.pid))


def _high_water(pid: int) -> int:
    try:
        found = _HIGH_WATER.search(Path(f"/proc/{pid}/status").read_bytes())
    except OSError:  # it is gone
        return 0
    return int(found[1]) << 10 if found else 0
