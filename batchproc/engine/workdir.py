"""The node's private temp folder, and the removal of those that killed nodes left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from batchproc.core.errors import EnvironmentFault

_PREFIX = "batchproc-node-"


@contextlib.contextmanager
def node_folder() -> Iterator[Path]:
    """A folder of mode 0700 for this node's workers, removed in the end.

    The lock on it tells living nodes from dead ones, also between containers that share a temp folder and do not
    see each other's processes.
    """
    parent = Path(tempfile.gettempdir())
    _remove_leftovers(parent)
    folder, descriptor = _new_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _new_folder(parent: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # until it is locked, another node that starts may take it for a leftover
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            os.close(descriptor)
            folder.rmdir()
            raise EnvironmentFault(
                f"the temp folder {parent} knows no locks ({error.strerror})", "set TMPDIR to a folder of a local disk"
            ) from None
        if folder.exists():
            return folder, descriptor
        os.close(descriptor)


def _remove_leftovers(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            _remove_if_dead(folder)


def _remove_if_dead(folder: Path) -> None:
    # No link is followed, and another user's folder is not ours to remove.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
