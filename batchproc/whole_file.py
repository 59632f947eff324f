"""Files that are replaced as a whole: who has one open, or serves it, never sees half of it."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def is_special(path: Path) -> bool:
    """Whether something is there that is no regular file: a device, a pipe, a folder. Links are followed.

    Raises:
        OSError: it cannot be looked at, or is a link to itself.
    """
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def write_whole(path: Path, data: bytes, *, mode: int | None = None, durable: bool = False) -> None:
    """Writes a file in one step, and where ``path`` is a link, what it leads to. The link stays one.

    A device or a pipe stays what it is, and is written to: it is not this program's to be replaced.

    Args:
        mode: its permissions; None: those of the file that is there, else what the umask leaves of 0666.
        durable: it is on the disk before it takes its place.

    Raises:
        OSError: it cannot be written, or is a folder, or a named pipe that nobody reads.
    """
    if is_special(path):
        # Nobody may ever come to read it.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "wb") as special:
            os.set_blocking(special.fileno(), True)
            special.write(data)
        return
    place = Path(os.path.realpath(path))
    descriptor, draft = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, _usual_mode(place) if mode is None else mode)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(descriptor)
        Path(draft).replace(place)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _usual_mode(place: Path) -> int:
    try:
        return stat.S_IMODE(place.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o666 & ~mask
