"""Which files are open for writing, as far as /proc tells: on this machine, of the processes that this user may see."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

FRESH = 1.0
"""Seconds that a look at all processes serves; it takes some hundredths of one."""


class OpenWriters:
    """Files by device and inode, so that it does not matter by which name, or in which mount, they were opened.

    Args:
        fresh: seconds that a look serves.
    """

    def __init__(self, fresh: float = FRESH) -> None:
        self._fresh = fresh
        self._looked_at = -fresh
        self._files: frozenset[tuple[int, int]] = frozenset()

    def have(self, found: os.stat_result) -> bool:
        """Whether some process has the file open for writing."""
        if time.monotonic() - self._looked_at > self._fresh:
            self._files = frozenset(_written_to())
            self._looked_at = time.monotonic()
        return (found.st_dev, found.st_ino) in self._files


def _written_to() -> Iterator[tuple[int, int]]:
    for process in _entries("/proc"):
        if not process.isdecimal():
            continue
        for descriptor in _entries(f"/proc/{process}/fd"):
            if _writes(process, descriptor):
                try:
                    found = os.stat(f"/proc/{process}/fd/{descriptor}")  # noqa: PTH116 - thousands of them
                except OSError:
                    continue
                yield found.st_dev, found.st_ino


def _entries(folder: str) -> list[str]:
    """Nothing of a process that has ended, or is somebody else's."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - thousands of them
    except OSError:
        return []


def _writes(process: str, descriptor: str) -> bool:
    """proc(5): ``flags`` of fdinfo are those of open(2), in octal."""
    try:
        lines = Path(f"/proc/{process}/fdinfo/{descriptor}").read_bytes().split(b"\n")
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith(b"flags:")), b"flags: 0")
    return int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
