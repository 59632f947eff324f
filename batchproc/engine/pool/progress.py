"""The progress record of a worker: shared memory that it writes and the node reads, without locks between them.

Two records take turns, each with a sequence number and a checksum. So a reader always finds a whole one, also when
the worker was killed in the middle of a write, and on any processor. Only the worker writes them; a record counts for
a job only when it bears that job's ``claim_id``, so a new job begins from nothing. The file is mapped, 4 kB, in the
worker's own folder; times are CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

_BODY = struct.Struct("=Q16sqqQQddq?")
_CHECKSUM = struct.Struct("=I")
_LENGTH = _CHECKSUM.size + _BODY.size
_OFFSETS = (0, 256)
_STOP_OFFSET, _UNFIT_OFFSET, _SKIP_OFFSET = 512, 513, 1024
_FILE_BYTES = mmap.PAGESIZE
MOST_JOBS = 1024
"""Jobs that can be sent to a worker at once: each has a byte by which the node takes it back before it has begun."""

_NO_CLAIM = bytes(16)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the job of a claim is. ``done`` and ``total`` in the handler's own unit, often pages.

    ``beats`` counts every sign of life, ``last_beat_monotonic`` is the time of the last one, ``begun_monotonic`` that
    of the first. ``backend_pid`` is the database backend of the worker's connection. ``loading``: the worker is
    fetching the job from the database, and its handler has not begun.
    """

    claim_id: UUID | None = None
    done: int = 0
    total: int = 0
    beats: int = 0
    checkpoints: int = 0
    begun_monotonic: float = 0.0
    last_beat_monotonic: float = 0.0
    backend_pid: int | None = None
    loading: bool = False


class ProgressWriter:
    """The worker's side. Safe to use from several threads of the worker."""

    def __init__(self, path: Path) -> None:
        self.told: Callable[[int, int], None] = lambda _done, _total: None
        """Is told of every progress, too."""
        self._memory = _map(path)
        self._lock = threading.Lock()
        self._sequence = 0
        self._backend_pid = 0
        self._reset(_NO_CLAIM, 0.0)

    def begin(self, claim_id: UUID) -> float:
        """A new job: everything back to nothing, but for the connection, which stays. Returns the time."""
        now = time.monotonic()
        with self._lock:
            self._reset(claim_id.bytes, now)
            self._write()
        return now

    def skips(self, position: int) -> bool:
        """Whether the node has taken back the job at that position of its bundle. To be asked after ``begin``.

        The node looks whether a job has begun after it has taken it back. So either it sees that, or this sees it.
        """
        return self._memory[_SKIP_OFFSET + position] != 0

    def beat(self) -> None:
        """A sign of life, which puts off the stall limit."""
        with self._lock:
            self._beat()

    def set(self, done: int, total: int) -> None:
        """So much of so much is done; a sign of life too."""
        with self._lock:
            self._done, self._total = _fit(done), _fit(total)
            self._beat()
        self.told(self._done, self._total)

    def checkpoint(self) -> None:
        """A part is done for good; a sign of life too."""
        with self._lock:
            self._checkpoints += 1
            self._beat()

    def loading(self, on: bool) -> None:
        """Whether the job is being fetched, so that a limit passes by no fault of its own; a sign of life too."""
        with self._lock:
            self._loading = on
            self._beat()

    def note_backend(self, pid: int) -> None:
        """The database backend that the node has to end when it kills this worker."""
        with self._lock:
            self._backend_pid = pid
            self._write()

    def stopping(self) -> bool:
        """Whether the node is shutting down: a good moment to return after the current page."""
        return self._memory[_STOP_OFFSET] != 0

    def declare_unfit(self) -> None:
        """This worker should get no other job: the last one left something in it that cannot be put right."""
        self._memory[_UNFIT_OFFSET] = 1

    @property
    def unfit(self) -> bool:
        """Whether that was declared."""
        return self._memory[_UNFIT_OFFSET] != 0

    def close(self) -> None:
        self._memory.close()

    def _reset(self, claim: bytes, now: float) -> None:
        self._claim = claim
        self._done = self._total = self._beats = self._checkpoints = 0
        self._begun = self._last_beat = now
        self._loading = False

    def _beat(self) -> None:
        self._beats += 1
        self._last_beat = time.monotonic()
        self._write()

    def _write(self) -> None:
        self._sequence += 1
        body = _BODY.pack(
            self._sequence,
            self._claim,
            self._done,
            self._total,
            self._beats,
            self._checkpoints,
            self._begun,
            self._last_beat,
            self._backend_pid,
            self._loading,
        )
        offset = _OFFSETS[self._sequence % 2]
        self._memory[offset : offset + _LENGTH] = _CHECKSUM.pack(zlib.crc32(body)) + body


class ProgressReader:
    """The node's side, which makes the file."""

    def __init__(self, path: Path) -> None:
        with path.open("xb") as file:
            # Real blocks, not a hole: writing into a mapped hole of a full disk would kill the worker.
            file.write(bytes(_FILE_BYTES))
        self._memory = _map(path)

    def read(self) -> Progress:
        """The newest whole record; an empty one when nothing was written yet."""
        # Both can be torn at once only when the worker wrote twice while they were read here.
        for _ in range(100):
            records = [self._record(offset) for offset in _OFFSETS]
            whole = [record for record in records if record is not None]
            if whole:
                return max(whole, key=lambda record: record[0])[1]
        return Progress()

    def ask_to_stop(self) -> None:
        """Makes ``stopping`` true for the handler."""
        self._memory[_STOP_OFFSET] = 1

    def skip(self, positions: Iterable[int]) -> None:
        """Takes back the jobs at these positions of the bundle; those that have begun by now may not have seen it."""
        for position in positions:
            self._memory[_SKIP_OFFSET + position] = 1

    def skip_none(self) -> None:
        """A new bundle is about to be sent."""
        self._memory[_SKIP_OFFSET : _SKIP_OFFSET + MOST_JOBS] = bytes(MOST_JOBS)

    def unfit(self) -> bool:
        """Whether the worker should get no other job."""
        return self._memory[_UNFIT_OFFSET] != 0

    def close(self) -> None:
        self._memory.close()

    def _record(self, offset: int) -> tuple[int, Progress] | None:
        raw = self._memory[offset : offset + _LENGTH]
        body = raw[_CHECKSUM.size :]
        if not any(raw):
            return 0, Progress()
        if _CHECKSUM.unpack_from(raw)[0] != zlib.crc32(body):
            return None
        sequence, claim, done, total, beats, checkpoints, begun, last_beat, backend_pid, loading = _BODY.unpack(body)
        claim_id = None if claim == _NO_CLAIM else UUID(bytes=claim)
        return sequence, Progress(
            claim_id, done, total, beats, checkpoints, begun, last_beat, backend_pid or None, loading
        )


def _map(path: Path) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return mmap.mmap(handle, _FILE_BYTES)
    finally:
        os.close(handle)


def _fit(number: object) -> int:
    """A handler's nonsense (NaN, a text, a huge number) must not fail its job."""
    try:
        whole: int = int(number)  # type: ignore[call-overload] # whatever it is
    except OverflowError:  # an infinity
        whole = 2**63 if number > 0 else -(2**63)  # type: ignore[operator]
    except (TypeError, ValueError):
        return 0
    return max(-(2**63), min(2**63 - 1, whole))
