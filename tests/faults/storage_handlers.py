"""A storage that fails, in workers that import this module: reading originals ends with the error named in a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VARIABLE = "BATCHPROC_TEST_STORAGE_ERROR"
"""The path of that file; without the file everything is read as usual."""

_pread, _preadv = os.pread, os.preadv


def _fail() -> None:
    try:
        number = int(Path(os.environ[VARIABLE]).read_text())
    except (KeyError, FileNotFoundError):
        return
    raise OSError(number, os.strerror(number))


def pread(descriptor: int, count: int, offset: int, /) -> bytes:
    _fail()
    return _pread(descriptor, count, offset)


def preadv(descriptor: int, buffers: Sequence[Any], offset: int, flags: int = 0, /) -> int:
    _fail()
    return _preadv(descriptor, buffers, offset, flags)


if VARIABLE in os.environ:
    os.pread, os.preadv = pread, preadv  # type: ignore[assignment]  # of what is read into, anything
