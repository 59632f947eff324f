"""Temp folders that belong to one process, and the removal of those whose process was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from batchproc.core.errors import EnvironmentFault
from batchproc.engine.pool import removal


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """A folder of mode 0700 in the temp folder, with a lock that lasts as long as this process.

    The lock tells the folders of living processes from those of dead ones, also between containers that share a temp
    folder and do not see each other's processes.
    """

    path: Path
    lock: int

    def remove(self) -> None:
        """The folder with all it holds."""
        removal.remove(self.path)
        os.close(self.lock)


def make(prefix: str) -> OwnFolder:
    """A new one; its name begins with ``prefix``. Raises EnvironmentFault when the temp folder knows no locks."""
    parent = Path(tempfile.gettempdir())
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # until it is locked, another node that starts may take it for a leftover
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            os.close(lock)
            folder.rmdir()
            raise EnvironmentFault(
                f"the temp folder {parent} knows no locks ({error.strerror})", "set TMPDIR to a folder of a local disk"
            ) from None
        if folder.exists():
            return OwnFolder(folder, lock)
        os.close(lock)


def remove_leftovers(prefix: str) -> None:
    """Removes the folders whose process is dead."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            _remove_if_dead(folder)


def _remove_if_dead(folder: Path) -> None:
    # No link is followed, and another user's folder is not ours to remove.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            removal.remove(folder)
    finally:
        os.close(descriptor)
