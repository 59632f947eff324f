"""Limits of the kernel's own for processes of a test: a cgroup below this process's, where one can be made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.waiting import wait_until

_ROOT = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def limited(controller: str, v1: dict[str, str], v2: dict[str, str]) -> Iterator[Path]:
    """A cgroup of this controller with these limits, empty; the test is skipped where none can be made."""
    folder = next((made for base in _bases(controller) if (made := _made(*base, v1, v2))), None)
    if folder is None:
        pytest.skip(f"no {controller} cgroup can be made here: that takes root, and cgroup v1 or a delegated v2")
    try:
        yield folder
        wait_until(lambda: not (folder / "cgroup.procs").read_text(), what="an empty cgroup")
    finally:
        folder.rmdir()


def _bases(controller: str) -> Iterator[tuple[Path, bool]]:
    """Folders of this process's own cgroups that may have the controller, and whether they are of version 1."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            yield Path(f"{_ROOT}/{controller}{path}"), True
        elif number == "0":
            yield Path(f"{_ROOT}{path}"), False


def _made(base: Path, is_v1: bool, v1: dict[str, str], v2: dict[str, str]) -> Path | None:
    folder = base / f"batchproc-test-{uuid4().hex[:8]}"
    try:
        folder.mkdir()
    except OSError:
        return None
    try:
        for name, value in (v1 if is_v1 else v2).items():
            (folder / name).write_text(value)
    except OSError:  # the controller is not passed on to groups below
        folder.rmdir()
        return None
    return folder
