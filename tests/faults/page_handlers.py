"""Counts the engine's calls page by page in a worker, and makes chosen pages bad; imported through ``handlers``.

Two variables of the environment tell what to do. The file that ``CALLS`` names gets a line ``page pid`` for each call
of the engine, before it. ``FAULTS`` is JSON: by page, what happens first in its first, second, ... call.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
from pathlib import Path
from typing import Any

import psycopg

from batchproc.handlers import ocr_reading
from batchproc.ocr.engine import Recognised
from batchproc.ocr.tesseract import TesseractEngine

MODULE = __name__
CALLS, FAULTS = "BATCHPROC_TEST_PAGE_CALLS", "BATCHPROC_TEST_PAGE_FAULTS"

_real_open = vars(ocr_reading)["open_source"]
_real_recognise = TesseractEngine.recognise
_at = [0]


def hang() -> None:
    """In C, with the GIL held: no signal handler and no thread of Python runs any more."""
    ctypes.PyDLL(None).sleep(600)


def die() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait() -> None:
    """For the test to kill the worker or its node here."""
    ctypes.CDLL(None).sleep(600)


def grow() -> None:
    """Takes memory until the node kills the worker for it."""
    taken = []
    while True:
        taken.append(b"x" * (16 << 20))


def fail() -> None:
    raise RuntimeError("made up")


def fill_disk() -> None:
    """As the database says it."""
    raise psycopg.errors.DiskFull("made up")


_KINDS = {
    "fill_disk": fill_disk,
    "hang": hang,
    "die": die,
    "be_killed": be_killed,
    "wait": wait,
    "grow": grow,
    "fail": fail,
}


def calls_in(file: Path) -> list[tuple[int, int]]:
    """(page, pid) of each call of the engine so far."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(page), int(pid)) for page, pid in (line.split() for line in lines)]


def _opened(*args: Any, **more: Any) -> Any:
    source = _real_open(*args, **more)
    get = source.page

    def get_page(index: int) -> Any:
        _at[0] = index + 1
        return get(index)

    source.page = get_page
    return source


def _recognise(engine: TesseractEngine, *args: Any, **more: Any) -> Recognised:
    calls, faults = Path(os.environ[CALLS]), json.loads(os.environ.get(FAULTS, "{}"))
    page = _at[0]
    before = sum(number == page for number, _ in calls_in(calls))
    with calls.open("a") as file:
        file.write(f"{page} {os.getpid()}\n")
    kinds = faults.get(str(page), [])
    if before < len(kinds):
        _KINDS[kinds[before]]()
    return _real_recognise(engine, *args, **more)


if CALLS in os.environ:  # not in the test that imports this, and in those after it
    vars(ocr_reading)["open_source"] = _opened
    TesseractEngine.recognise = _recognise  # type: ignore[method-assign,assignment]
