"""The outcomes of a bundle on their way to the node, each as soon as its job has ended: memory shared with the worker.

A file of the worker's own folder, mapped by both. The worker appends records, the node reads them in its own time, and
neither ever waits for the other. A record counts when it is whole, by its checksum, so that a worker killed in the
middle of a write leaves those before it; and when it bears the number of the present sending, so that what an earlier
one left behind is not read again. A handler may close every descriptor: the mapping needs none.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

BYTES = 1 << 16
LARGEST_REPLY = 1 << 13
"""A larger reply, such as one with a big result, goes through the pipe, which ends its sending."""

_CHECKSUM = struct.Struct("=I")
_HEAD = struct.Struct("=IIId")  # number of the sending, position of the job in it, length of the reply, seconds
_BEFORE_REPLY = _CHECKSUM.size + _HEAD.size


class Record(NamedTuple):
    """How one job ended: ``reply`` is its encoded outcome, None when it was skipped; ``seconds`` from its begin.

    ``position``: the job's place in the sending, from 0.
    """

    position: int
    seconds: float
    reply: bytes | None


class OutboxWriter:
    """The worker's side."""

    def __init__(self, path: Path) -> None:
        self._memory = _map(path)
        self._number = 0
        self._offset = 0

    def begin(self, number: int) -> None:
        """A new sending: its records begin where those of the last one began."""
        self._number, self._offset = number, 0

    def put(self, position: int, seconds: float, reply: bytes) -> bool:
        """Appends a record; False when the reply is too large, or there is no room left."""
        end = self._offset + _BEFORE_REPLY + len(reply)
        if len(reply) > LARGEST_REPLY or end > BYTES:
            return False
        body = _HEAD.pack(self._number, position, len(reply), seconds) + reply
        self._memory[self._offset : end] = _CHECKSUM.pack(zlib.crc32(body)) + body
        self._offset = end
        return True

    def skip(self, position: int) -> bool:
        """Appends that this job was not begun, as the node wished; False as for ``put``."""
        return self.put(position, 0.0, b"")

    def close(self) -> None:
        self._memory.close()


class OutboxReader:
    """The node's side, which makes the file."""

    def __init__(self, path: Path) -> None:
        with path.open("xb") as file:
            # Real blocks, not a hole: writing into a mapped hole of a full disk would kill the worker.
            file.write(bytes(BYTES))
        self._memory = _map(path)
        self._number = 0
        self._offset = 0

    def begin(self) -> int:
        """The number of a new sending. The worker must have returned from the last one."""
        self._number, self._offset = self._number + 1, 0
        return self._number

    def take(self) -> list[Record]:
        """The records that have become whole since the last call."""
        found = []
        while (record := self._next()) is not None:
            found.append(record)
        return found

    def close(self) -> None:
        self._memory.close()

    def _next(self) -> Record | None:
        begin = self._offset + _BEFORE_REPLY
        if begin > BYTES:
            return None
        head = self._memory[self._offset : begin]
        number, position, length, seconds = _HEAD.unpack_from(head, _CHECKSUM.size)
        if number != self._number or begin + length > BYTES:
            return None
        reply = self._memory[begin : begin + length]
        if _CHECKSUM.unpack_from(head)[0] != zlib.crc32(reply, zlib.crc32(head[_CHECKSUM.size :])):
            return None
        self._offset = begin + length
        return Record(position, seconds, reply or None)


def _map(path: Path) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return mmap.mmap(handle, BYTES)
    finally:
        os.close(handle)
