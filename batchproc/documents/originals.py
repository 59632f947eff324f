"""Originals: write-once files below a storage root, which are only ever read.

How a path is treated: at import it is resolved once, symbolic links and all, and the real path is registered, if it
lies below a root. What was found in a folder has to lie below that folder, too: whoever may put links there reaches no
file beside it. From then on every part of the path below the root must be what it was: each is opened relative to the
one before and none may be a symbolic link. The root itself is the operator's, and may be reached through links.
Only regular files are opened; for a pipe, a device or a folder nothing is waited for, and what the kernel makes up
as it is read (/proc, /sys) is no file of an archive. One descriptor serves for the
checksum and for reading, so what was checked is what is read.

That a file is missing, or is another, is believed only while its root is the one it was (``root_identity``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from batchproc.documents.original_faults import (
    Location,
    OriginalError,
    StorageGone,
    as_fault,
    is_storage_fault,
)
from batchproc.documents.paths import terminal_path
from batchproc.documents.walk import Identities, Way, folders_of, no_path, open_below

__all__ = [
    "HASH_CHUNK",
    "Location",
    "Original",
    "OriginalError",
    "StorageGone",
    "folders_of",
    "is_storage_fault",
    "locate",
]

HASH_CHUNK = 4 * 1024 * 1024
_BLOCK = 512  # of st_blocks, whatever the file system's are (POSIX, sys/stat.h; Linux)
_STEADY_TRIES = 3


def locate(path: bytes, roots: Sequence[bytes], within: bytes | None = None) -> Location:
    """Where ``path`` (absolute or relative to the working folder) really lies: below the innermost of ``roots``.

    Args:
        roots: absolute paths of folders.
        within: the folder that it was found in, and that it has to lie below, too. None: somebody named it himself.

    Raises:
        OriginalError: it is missing, not reachable, below none of the roots, or not below ``within``.
        StorageGone: the storage does not answer.
        OSError: of this process, such as too many open files.
    """
    if b"\0" in path:
        raise no_path(path)
    try:
        real = os.path.realpath(path, strict=True)
    except OSError as error:
        raise as_fault(error, path) from None
    below = [(os.path.realpath(root), root) for root in roots]
    below = [(resolved, root) for resolved, root in below if _is_below(real, resolved)]
    if not below:
        # The path itself is told with it.
        named = os.path.abspath(path)  # noqa: PTH100 - pathlib knows no bytes
        leads = "" if real == named else f"it leads to {terminal_path(real)}"
        raise OriginalError("outside_roots", leads)
    if within is not None and not _is_below(real, os.path.realpath(within)):
        raise OriginalError("outside_roots", f"it leads to {terminal_path(real)}, out of its folder")
    resolved, root = max(below, key=lambda pair: len(pair[0]))
    return Location(root, os.path.relpath(real, resolved))


class Original:
    """An open original, as a context manager. Reading it is left to whoever is handed its ``descriptor``.

    Args:
        location: where it is.
        known: what its root, and what is mounted on the way from there, is known again by. When that is not what is
            found, a file that is not there or not as it should be is not believed to be so.

    Raises (when made):
        OriginalError: the file is missing, no regular file, not readable, or reached through a symbolic link.
        StorageGone: the storage does not answer, or the root is not there, or not the one it was.
        OSError: of this process, such as too many open files.
    """

    def __init__(self, location: Location, known: Identities | None = None) -> None:
        self.location = location
        self._way = Way(location.root, known or {})
        self.descriptor = open_below(location, self._way)
        self._opened = os.fstat(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the descriptor; may be called twice."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    @property
    def size(self) -> int:
        """Bytes, as of when the file was opened."""
        return self._opened.st_size

    @property
    def folders(self) -> Identities:
        """What the root and what is mounted on the way are known again by, as they were when the file was opened."""
        return self._way.found

    def doubt(self) -> StorageGone | None:
        """Why a content that is not what it was says nothing of the original: it lies on another storage."""
        return self._way.doubt()

    def sha256(self, on_chunk: Callable[[], None] | None = None) -> bytes:
        """The digest of the whole content, in constant memory; ``on_chunk`` is called every few megabytes.

        Raises:
            OriginalError: it grows while it is read (``source_changed``), perhaps without end.
            StorageGone: the storage does not answer.
        """
        digest = hashlib.sha256()
        buffer = memoryview(bytearray(HASH_CHUNK))
        position, size = 0, os.fstat(self.descriptor).st_size
        try:
            while count := os.preadv(self.descriptor, [buffer], position):
                digest.update(buffer[:count])
                position += count
                if position > size:
                    raise self._never_rests()
                if on_chunk is not None:
                    on_chunk()
        except OSError as error:
            raise as_fault(error, self.location.full, self.location.root) from None
        return digest.digest()

    def steady_sha256(self, on_chunk: Callable[[], None] | None = None) -> tuple[bytes, int]:
        """The digest and the size of a content that did not change meanwhile; ``on_chunk`` as for ``sha256``.

        Raises:
            OriginalError: the file was being written to at each of several tries (``source_changed``).
        """
        for _ in range(_STEADY_TRIES):
            before = os.fstat(self.descriptor)
            try:
                digest = self.sha256(on_chunk)
            except OriginalError:
                continue  # it grew
            if not _differ(before, os.fstat(self.descriptor)):
                return digest, before.st_size
        raise self._never_rests()

    def is_mostly_hole(self) -> bool:
        """Whether most of its size was never written: such a file can claim to hold more than any disk."""
        found = os.fstat(self.descriptor)
        return found.st_blocks * _BLOCK < found.st_size // 2

    def touched(self) -> bool:
        """True when the file may have been written to since it was opened; a new name or mode counts, too."""
        return _differ(self._opened, os.fstat(self.descriptor))

    def _never_rests(self) -> OriginalError:
        return OriginalError("source_changed", f"{terminal_path(self.location.full)} changes while it is read")


def _is_below(path: bytes, folder: bytes) -> bool:
    return path.startswith(folder.rstrip(b"/") + b"/")


def _differ(one: os.stat_result, other: os.stat_result) -> bool:
    # The time of the change of the inode, too: that of the content can be set back by whoever wrote it.
    return (one.st_size, one.st_mtime_ns, one.st_ctime_ns) != (other.st_size, other.st_mtime_ns, other.st_ctime_ns)
