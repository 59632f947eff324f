"""The folder that the jobs of a worker have for their files, one job after the other: each finds it empty."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from batchproc.engine.pool import removal

_YEARS_NS: Final = 10**18


class JobFolder:
    """See the module.

    Once it is empty, the time at which its content was changed is set to one that nothing else has, some moment of the
    thirty years after 1970. Whatever is made in it sets another, also an unpacked archive that sets a time of its own.
    So one look, of a microsecond, tells that a job had no use for the folder; a listing takes ten, after each job.

    Args:
        path: a folder that is there, for this worker alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark_ns = secrets.randbelow(_YEARS_NS)
        self._untouched: tuple[int, ...] | None = None

    def tidy(self) -> bool:
        """Leaves nothing of a job's files, nor the space they take, to the next one; False when something stays.

        No link is followed, also when the folder itself has become one. One that is gone is made again.

        Raises:
            OSError: it cannot be looked at, or not be made.
        """
        if self._untouched is not None:
            try:
                if _seen(os.lstat(self.path)) == self._untouched:
                    return True
            except FileNotFoundError:
                pass
        self._untouched = None
        try:
            folder = self._opened()
        except FileNotFoundError:
            self.path.mkdir(mode=0o700, parents=True)
            folder = self._opened()
        except OSError:
            return False
        try:
            return self._emptied(folder)
        finally:
            os.close(folder)

    def _opened(self) -> int:
        return os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def _emptied(self, folder: int) -> bool:
        os.fchmod(folder, 0o700)  # whatever a job made of it
        removal.empty(folder)
        # First the time, then the second look: what a thread of the job makes meanwhile is seen by it, or changes that.
        os.utime(folder, ns=(self._mark_ns, self._mark_ns))
        if os.listdir(folder):
            return False
        found = os.fstat(folder)
        if found.st_mtime_ns == self._mark_ns:
            self._untouched = _seen(found)
        return True


def _seen(found: os.stat_result) -> tuple[int, ...]:
    # The last one is when any of the others was set, which nobody can set.
    return found.st_dev, found.st_ino, found.st_mode, found.st_mtime_ns, found.st_ctime_ns
