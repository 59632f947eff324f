"""What a storage root is known again by: a marker file that its operator placed, else device, file system and inode.

Where something else is mounted, or nothing, the folder is another one. Of the numbers, that of the device changes for
many kinds of storage with each mount (NFS, overlay, btrfs); the file system's own (``f_fsid`` of statvfs(2)) tells two
disks apart that come up under the same device, whose roots have the same inode, and is 0 where the kernel knows none.
Only the marker tells with certainty, and only it is the same on every machine.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self
from uuid import UUID

from batchproc.documents.paths import terminal_path

MARKER = b".batchproc-root"
"""The file's name, in the root itself. Its first line is an id that no other root has; nothing here ever writes it."""

_MARKER_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_MOST_BYTES = 256
_WORD = 2**64
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class RootIdentity:
    """A folder as it was found. The numbers are the kernel's 64 bits, as signed ones: an inode's may use all of them.

    ``marker`` is None where there is no marker file, or none that this user can read and that holds an id.
    """

    device: int
    inode: int
    filesystem: int
    marker: str | None = None

    @classmethod
    def of(cls, folder: int) -> Self:
        """That of an open folder. Raises OSError when its storage does not answer."""
        found = os.fstat(folder)
        return cls(
            _signed(found.st_dev), _signed(found.st_ino), _signed(os.fstatvfs(folder).f_fsid), _marker_in(folder)
        )

    def is_the(self, known: RootIdentity) -> bool:
        """Whether this is the folder that is known; a marker goes before all numbers."""
        if known.marker is not None:
            return self.marker == known.marker
        return self._numbers == known._numbers

    def unlike(self, known: RootIdentity) -> str:
        """In what this differs from the folder that is known, for a person."""
        if known.marker is not None:
            held = "has no marker" if self.marker is None else f"has the marker {self.marker}"
            return f"it {held} instead of {known.marker}"
        return f"it is {self.shown()} instead of {known.shown()}"

    def shown(self) -> str:
        """The numbers, for a person."""
        device = self.device % _WORD
        shown = f"device {os.major(device)}:{os.minor(device)} inode {self.inode % _WORD}"
        return f"{shown} file system {self.filesystem % _WORD:x}" if self.filesystem else shown

    @property
    def _numbers(self) -> tuple[int, int, int]:
        return self.device, self.inode, self.filesystem


def marker_problem(folder: int) -> str | None:
    """Why the marker file of an open folder is of no use; None when it is, or there is none."""
    try:
        os.stat(MARKER, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    name = terminal_path(MARKER)
    if _marker_in(folder) is None:
        return f"{name} is no plain file with an id on its first line (letters, digits, . _ : -, at most 64)"
    return None


@cache
def boot_id() -> UUID:
    """The kernel's name for the time since it was started, as long as devices keep their numbers; 0 without one.

    All containers of a machine share it.
    """
    try:
        return UUID(_BOOT_ID.read_text("ascii").strip())
    except (OSError, ValueError):
        return UUID(int=0)


def _marker_in(folder: int) -> str | None:
    try:
        # Looked at first, since opening a device can already do something.
        if not stat.S_ISREG(os.stat(MARKER, dir_fd=folder, follow_symlinks=False).st_mode):
            return None
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(MARKER, flags, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        first = os.pread(descriptor, _MOST_BYTES, 0).split(b"\n", 1)[0].strip()
    finally:
        os.close(descriptor)
    return first.decode("ascii") if _MARKER_ID.fullmatch(first) else None


def _signed(number: int) -> int:
    word = number % _WORD
    return word - _WORD if word >= _WORD // 2 else word
