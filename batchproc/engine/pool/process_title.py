"""What ``ps`` and ``top`` show of our processes: which slot a worker is, which job it has, and how far that is.

Only the place of the command line is used, never that of the environment behind it, which is what workers and whatever
they start are recognised by (see ``process_tree``): a title is cut to the length of the command line. No name, of a
tenant or a document, is in it: every user of the machine can read it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from setproctitle import setproctitle

_KEEP_ENVIRONMENT = "SPT_NOENV"
"""setproctitle looks for this variable with its first title."""


def show(title: str) -> None:
    """Makes ``title`` the title of this process. It costs about a microsecond."""
    global _began
    if _began:
        setproctitle(title)
        return
    with _told_to_keep_environment():
        setproctitle(title)
    _began = True


def refresh(title: str) -> None:
    """As ``show``, in a process that has a title of ours already; an application that runs a node keeps its own."""
    if _began:
        setproctitle(title)


def command() -> str:
    """The arguments of this process as others see them, without the program; passwords are masked there by now."""
    shown = Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode(errors="replace").split("\0")
    return " ".join(shown[len(shown) - len(sys.argv[1:]) :])


class WorkerTitle:
    """The title of a worker. ``begin`` and ``progress`` are called for every job and page.

    Args:
        slot: its number, from 0, as ``status`` shows it.
    """

    def __init__(self, slot: int) -> None:
        self._name = self._job = f"batchproc worker {slot}"
        show(f"{self._name}: idle")

    def begin(self, job_id: int) -> None:
        self._job = f"{self._name}: job {job_id}"
        show(self._job)

    def progress(self, done: int, total: int) -> None:
        if total > 0:
            show(f"{self._job}, {done} of {total}")

    def end(self) -> None:
        """It has no job any more."""
        show(f"{self._name}: idle")


_began = False


@contextlib.contextmanager
def _told_to_keep_environment() -> Iterator[None]:
    before = os.environ.get(_KEEP_ENVIRONMENT)
    os.environ[_KEEP_ENVIRONMENT] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_KEEP_ENVIRONMENT]
        else:
            os.environ[_KEEP_ENVIRONMENT] = before
