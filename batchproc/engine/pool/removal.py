"""Removing folders of which a handler may have made anything: trees of any depth, with something mounted in them.

``shutil.rmtree`` calls itself for each level (before Python 3.13), so that a thousand of them end the process that
removes them, and it empties what is mounted. Here each folder is moved to the top before it is looked into: nothing
gets deep, and what is mounted cannot be moved (rename(2), EBUSY), so that nobody looks into it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(path: Path) -> bool:
    """Removes a folder with all it holds; False when something of it stays. No link is followed. It does not raise."""
    try:
        folder = os.open(path, _FOLDER)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        empty(folder)
    except OSError:
        return False
    finally:
        os.close(folder)
    try:
        path.rmdir()
    except OSError:
        return False
    return True


def empty(folder: int) -> bool:
    """Removes what an open folder holds, on the same file system; False when something stays. No link is followed.

    Raises:
        OSError: it cannot be read.
    """
    waiting = [name for inner in _folders_left(folder) if (name := _to_the_top(folder, inner, folder))]
    while waiting:
        name = waiting.pop()
        with contextlib.suppress(OSError):
            waiting += _dissolved(folder, name)
            os.rmdir(name, dir_fd=folder)
    return not os.listdir(folder)


def _dissolved(top: int, name: str) -> list[str]:
    """Removes the files in a folder at the top; the names under which the folders in it are at the top now."""
    folder = os.open(name, _FOLDER, dir_fd=top)
    try:
        return [moved for inner in _folders_left(folder) if (moved := _to_the_top(folder, inner, top))]
    finally:
        os.close(folder)


def _folders_left(folder: int) -> Iterator[str]:
    """Removes the files, and gives the names of the folders."""
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except OSError:
            with contextlib.suppress(OSError):
                if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    yield name


def _to_the_top(folder: int, name: str, top: int) -> str | None:
    """The name under which it is there, writable; None when it cannot be moved."""
    moved = f".{secrets.token_hex(8)}"
    try:
        _make_writable(folder, name)
        os.rename(name, moved, src_dir_fd=folder, dst_dir_fd=top)
    except OSError:
        return None
    return moved


def _make_writable(folder: int, name: str) -> None:
    # By a descriptor that needs no permission, since chmod(2) would follow a link.
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if stat.S_IMODE(os.fstat(found).st_mode) & 0o700 != 0o700:
            Path(f"/proc/self/fd/{found}").chmod(0o700)
    finally:
        os.close(found)
