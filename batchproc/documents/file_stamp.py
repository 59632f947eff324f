"""What a file that has not been written to since is known by, without reading it."""

from __future__ import annotations

import os
from dataclasses import dataclass

_COARSE_NS = 2_000_000_000
"""The coarsest clock of a file system in use is FAT's, of 2 s; those of Linux tick every 1 to 10 ms."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """The size in bytes, and when content and inode last changed, in ns since 1970 by the clock of the storage.

    Whoever writes to a file may set the time of its content back (``cp -p``, ``touch``), but not that of its inode. A
    device or inode number is not part of it: both become others when a file system is mounted elsewhere.
    """

    bytes: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileStamp:
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def tells(self, now_ns: int) -> bool:
        """Whether a change from ``now_ns`` on (ns since 1970) is certain to give another stamp.

        A file that changed a moment ago can change again within the same tick of its storage's clock.
        """
        times = (self.modified_ns, self.changed_ns)
        # File systems hold years that 64 bits of ns do not reach.
        return max(times) < now_ns - _COARSE_NS and min(times) > -(2**63)
