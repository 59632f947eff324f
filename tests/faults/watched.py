"""Whether anybody, native code included, opened or read a file meanwhile: inotify(7)."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

_IN_NONBLOCK = os.O_NONBLOCK
_IN_ACCESS, _IN_OPEN = 0x1, 0x20

_libc = ctypes.CDLL(None, use_errno=True)


class Watch:
    """Notices every open and read of one file."""

    def __init__(self, path: Path) -> None:
        self._fd = _libc.inotify_init1(_IN_NONBLOCK)
        if _libc.inotify_add_watch(self._fd, os.fsencode(path), _IN_ACCESS | _IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), f"cannot watch {path}")

    def touched(self) -> bool:
        """Whether the file was opened or read since this was last asked."""
        with contextlib.suppress(BlockingIOError):
            return bool(os.read(self._fd, 4096))
        return False

    def close(self) -> None:
        os.close(self._fd)


@contextlib.contextmanager
def watched(path: Path) -> Iterator[Watch]:
    """A watch that is known to work: it has noticed an open of this test's own."""
    watch = Watch(path)
    try:
        path.read_bytes()
        assert watch.touched(), "inotify does not notice what happens here"
        yield watch
    finally:
        watch.close()
