"""Whether there was memory enough for native code that does not tell.

With an allocation refused, Tesseract returned an empty text, an error as of a damaged page, raised or crashed, and
pdfium left a scanned page's image out, so that the page was blank: all that was seen when the limit was scanned size by
size. It cannot be told from a page that is like that. So what they return counts only when no allocation can have been
refused.
"""

from __future__ import annotations

import mmap
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

BASE: Final = 32 << 20
"""Bytes: no single block that is asked for is bigger, apart from those that grow with the pixels or the data."""

PER_PIXEL: Final = 8
"""Bytes: twice what the widest copy of a picture takes, 32 bits a pixel."""

_STATUS: Final = Path("/proc/self/status")


@contextmanager
def room(extra: int = 0) -> Iterator[None]:
    """Guards a block of native work.

    A block of memory is refused only while all that is mapped, with it, is above the limit of the address space. So as
    long as the highest that was ever mapped stays further below the limit than the largest block is big, none was.

    Args:
        extra: bytes of the largest block that may be asked for, beyond `BASE`.

    Raises:
        MemoryError: there is no room for such a block to begin with, or it got short meanwhile: whatever came of the
            work, a result or a failure, is not to be believed. The process's peak never falls, so this goes on until
            the worker is replaced, which the pool does after such an end.
    """
    reserve = BASE + extra
    _require(reserve)
    try:
        yield
    except Exception as error:
        if _got_short(reserve):
            raise MemoryError("the address space got short, so that this failure is not to be believed") from error
        raise
    if _got_short(reserve):
        raise MemoryError("the address space got short, so that the result is not to be believed")


def _require(size: int) -> None:
    """Maps that much and lets go of it again: two calls, no page is touched."""
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError as error:
        raise MemoryError(f"no room for a block of {size >> 20} MiB") from error


def _got_short(reserve: int) -> bool:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return limit != resource.RLIM_INFINITY and _highest_mapped() > limit - reserve


def _highest_mapped() -> int:
    """In bytes, since the process was started or forked."""
    for line in _STATUS.read_bytes().splitlines():
        if line.startswith(b"VmPeak:"):
            return int(line.split()[1]) * 1024
    return 0
