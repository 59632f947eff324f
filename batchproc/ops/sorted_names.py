"""The names in a folder in order, however many there are, in constant memory."""

from __future__ import annotations

import heapq
import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from typing import IO

_RUN = 20_000
"""Names that are sorted in memory: 2 MB of them. A folder with more is sorted in runs of so many, on disk."""
_BLOCK = 16 * 1024


class SortedNames:
    """Takes names in any order, and gives them in the order of their bytes. A name holds no NUL.

    More than ``run`` of them wait in a temporary file, which is gone with this object, or with its process.
    """

    def __init__(self, run: int = _RUN) -> None:
        self._run = run
        self._waiting: list[bytes] = []
        self._file: IO[bytes] | None = None
        self._ends = [0]

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, name: bytes) -> None:
        """Not to be called any more once they are given."""
        self._waiting.append(name)
        if len(self._waiting) == self._run:
            self._spill()

    def __iter__(self) -> Iterator[bytes]:
        self._waiting.sort()
        if self._file is None:
            return iter(self._waiting)
        return heapq.merge(self._waiting, *(self._names_in(start, end) for start, end in pairwise(self._ends)))

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        self._file.writelines(name + b"\0" for name in sorted(self._waiting))
        self._file.flush()
        self._ends.append(self._file.tell())
        self._waiting = []

    def _names_in(self, start: int, end: int) -> Iterator[bytes]:
        assert self._file is not None
        rest = b""
        while start < end:
            block = os.pread(self._file.fileno(), min(_BLOCK, end - start), start)
            start += len(block)
            *names, rest = (rest + block).split(b"\0")
            yield from names
