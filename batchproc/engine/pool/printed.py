"""What handlers, their libraries and their programs print: kept in a file of their worker until it is logged.

So a service's log has lines of its own format alone, each with its job, with passwords and escapes masked as in every
other. A file, because nobody has to read it for the job to go on: once a pipe is full, a native call that holds the
interpreter's lock would wait for ever for a reader in the same process. And what a worker could not log any more when
it died, such as the last words of a library, its node can.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import TextIO

from loguru import logger

from batchproc import log

PRINTED_FILE = "printed"

_LOGGED = 256 << 10
"""Bytes of one job, or of what it has printed since it was looked at last, that are logged."""
_KEPT = 64 << 20
"""Bytes, beyond which what a job has printed is thrown away while it runs: the temp folder is for work."""
_ENDS = re.compile(r"[\r\n]+")


def redirect(file: Path) -> TextIO:
    """From now on this process and all that it starts print there. Returns what was stderr before, for the log."""
    before = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:  # what a job printed before its worker died has been written
        reconfigure(line_buffering=True, errors="backslashreplace")
    return before


def flush() -> None:
    """Writes what this process has printed and not written yet."""
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 - of every job
            stream.flush()
        except Exception:  # noqa: BLE001, S110 - a handler may have put anything there
            pass


def tell(file: Path, **bound: object) -> None:
    """Logs what was printed since the last call, a line for each, with these extras."""
    try:
        if (size := os.stat(file).st_size) == 0:  # noqa: PTH116 - of every job
            return
        with file.open("r+b") as kept:
            text = kept.read(_LOGGED).decode("utf-8", "backslashreplace")
            kept.truncate(0)
    except OSError:  # it went with the worker, or there never was one
        return
    log.each(lambda: [(f"printed: {line}", bound) for line in _ENDS.split(text) if line.strip()])
    if size > _LOGGED:
        logger.bind(**bound).warning("printed: {} bytes more, which are not logged", size - _LOGGED)


def bound(file: Path) -> None:
    """Throws away what was printed when it takes too much room. For the node, while the worker runs."""
    with contextlib.suppress(OSError):
        if file.stat().st_size > _KEPT:
            os.truncate(file, 0)
            logger.warning("a job has printed more than {} MiB: that is not logged", _KEPT >> 20)
