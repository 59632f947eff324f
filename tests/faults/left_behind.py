"""What a test leaves behind on the machine: processes, threads, descriptors, files in the temp folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psutil

from batchproc.engine.pool import processes
from tests.waiting import wait_until

TEST_VARIABLE = "BATCHPROC_TEST_MARK"
"""In the environment of everything that a test starts, unless it was emptied."""


@dataclass(frozen=True)
class Counts:
    """Of this process."""

    threads: int
    descriptors: int
    children: frozenset[int]


def counts() -> Counts:
    return Counts(
        threading.active_count(),
        len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - of this moment
        frozenset(child.pid for child in psutil.Process().children(recursive=True)),
    )


def marked(mark: str) -> list[int]:
    """Every living process that was started with this mark in its environment, but for this one."""
    entry = f"{TEST_VARIABLE}={mark}".encode()
    found = []
    for pid in processes.all_pids():
        stat = processes.read_stat(pid)
        if pid != os.getpid() and stat is not None and stat.alive and entry in (processes.environment(pid) or []):
            found.append(pid)
    return found


@contextlib.contextmanager
def nothing_left_behind(deadline_seconds: float = 5.0) -> Iterator[Path]:
    """Within, TMPDIR is a folder of its own. In the end it must be empty, and no process, thread or descriptor more.

    Processes are found by a mark in their environment, and by their parent: orphans come to this process meanwhile.
    """
    mark = str(uuid4())
    folder = Path(tempfile.mkdtemp(prefix="bpf-", dir="/tmp"))
    changed = {"TMPDIR": str(folder), TEST_VARIABLE: mark}
    before_environment = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    tempfile.tempdir = None
    processes.prctl(processes.PR_SET_CHILD_SUBREAPER, 1)
    before = counts()
    try:
        yield folder
        wait_until(lambda: not marked(mark), deadline_seconds, "no marked process left")
        wait_until(lambda: counts().children <= before.children, deadline_seconds, "no child left")
        wait_until(lambda: counts().threads <= before.threads, deadline_seconds, f"threads: {threading.enumerate()}")
        wait_until(lambda: counts().descriptors <= before.descriptors, deadline_seconds, "no descriptor left")
        left = sorted(path.name for path in folder.iterdir())
        assert not left, f"left in the temp folder: {left}"
    finally:
        processes.prctl(processes.PR_SET_CHILD_SUBREAPER, 0)
        for name, value in before_environment.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        tempfile.tempdir = None
        shutil.rmtree(folder, ignore_errors=True)
