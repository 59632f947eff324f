"""Files that have come to rest: nobody writes to them any more, as far as their size and times tell."""

from __future__ import annotations

import hashlib
import math

from batchproc.documents.file_stamp import FileStamp

_EMPTY_SECONDS = 60.0
"""A file without content has mostly been made to be written to; how long that takes is up to who makes it."""
_DONE = math.inf


class Resting:
    """Remembers from look to look since when each file has been as it is.

    Of each file of the latest look it keeps 16 bytes of hash and a time, about 150 bytes in all. Times are monotonic,
    in seconds: those that a file shows are its storage's, whose clock may be wrong.

    Args:
        settle: seconds that a file has to stay as it is.
    """

    def __init__(self, settle: float) -> None:
        self._settle = settle
        self._before: dict[bytes, float] = {}
        self._now: dict[bytes, float] = {}

    def __len__(self) -> int:
        return len(self._before)

    def begin(self) -> None:
        """A look begins. One that is broken off is simply begun again: what was known before it still is."""
        self._now = {}

    def rests(self, path: bytes, stamp: FileStamp, now: float) -> bool:
        """Whether it has come to rest and is not done with yet."""
        key = _key(path, stamp)
        since = self._now[key] = self._before.get(key, now)
        needed = self._settle if stamp.bytes else max(self._settle, _EMPTY_SECONDS)
        return since != _DONE and now - since >= needed

    def done(self, path: bytes, stamp: FileStamp) -> None:
        """As long as it is as it is, it rests no more."""
        key = _key(path, stamp)
        self._before[key] = self._now[key] = _DONE

    def end(self) -> None:
        """The look has seen everything: whatever it did not see is forgotten."""
        self._before = self._now


def _key(path: bytes, stamp: FileStamp) -> bytes:
    times = b"%d %d %d " % (stamp.bytes, stamp.modified_ns, stamp.changed_ns)
    return hashlib.blake2b(times + path, digest_size=16).digest()
