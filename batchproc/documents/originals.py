"""Originals: write-once files below a storage root, which are only ever read.

How a path is treated: at import it is resolved once, symbolic links and all, and the real path is registered, if it
lies below a root. From then on every part of it below the root must be what it was: each is opened relative to the
one before and none may be a symbolic link. The root itself is the operator's, and may be reached through links.
Only regular files are opened; for a pipe, a device or a folder nothing is waited for, and what the kernel makes up
as it is read (/proc, /sys) is no file of an archive. One descriptor serves for the
checksum and for reading, so what was checked is what is read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from batchproc.documents.kernel_files import is_made_by_kernel
from batchproc.documents.paths import terminal_path

HASH_CHUNK = 4 * 1024 * 1024
_STEADY_TRIES = 3
# What a storage that is gone for now answers, as opposed to a file that is not there.
_STORAGE_ERRNOS = frozenset(
    {
        errno.EIO,
        errno.ENOTCONN,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.ENODEV,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EREMOTEIO,
        errno.EAGAIN,  # somebody holds a lease on the file (fcntl(2)): a file server, for a client that writes to it
    }
)
_PERMISSION_ERRNOS = frozenset({errno.EACCES, errno.EPERM})
# What says that no file is there; anything else, such as too many open files, says nothing about it.
_MISSING_ERRNOS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})
_OTHER_SORT_ERRNOS = frozenset({errno.EISDIR, errno.ENXIO, errno.EOPNOTSUPP})


class OriginalError(Exception):
    """A file cannot serve as an original.

    ``code`` is ``source_missing``, ``not_a_file``, ``outside_roots``, ``permission_denied`` or ``source_changed``.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class StorageGone(Exception):
    """The storage does not answer, or the root itself is not there: nothing can be said about the file."""


@dataclass(frozen=True, slots=True)
class Location:
    """A file below a storage root; ``path`` is relative to ``root``."""

    root: bytes
    path: bytes

    @property
    def full(self) -> bytes:
        return self.root.rstrip(b"/") + b"/" + self.path


def locate(path: bytes, roots: Sequence[bytes]) -> Location:
    """Where ``path`` (absolute or relative to the working folder) really lies: below the innermost of ``roots``.

    Args:
        roots: absolute paths of folders.

    Raises:
        OriginalError: it is missing, not reachable, or below none of the roots.
        StorageGone: the storage does not answer.
        OSError: of this process, such as too many open files.
    """
    if b"\0" in path:
        raise _no_path(path)
    try:
        real = os.path.realpath(path, strict=True)
    except OSError as error:
        raise _as_fault(error, path) from None
    below = [(os.path.realpath(root), root) for root in roots]
    below = [(resolved, root) for resolved, root in below if _is_below(real, resolved)]
    if not below:
        raise OriginalError("outside_roots", f"{terminal_path(real)} lies below none of the storage roots")
    resolved, root = max(below, key=lambda pair: len(pair[0]))
    return Location(root, os.path.relpath(real, resolved))


class Original:
    """An open original, as a context manager. Reading it is left to whoever is handed its ``descriptor``.

    Raises (when made):
        OriginalError: the file is missing, no regular file, not readable, or reached through a symbolic link.
        StorageGone: the storage does not answer, or the root is not there.
        OSError: of this process, such as too many open files.
    """

    def __init__(self, location: Location) -> None:
        self.location = location
        self.descriptor = _open_below(location)
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
            raise _as_fault(error, self.location.full) from None
        return digest.digest()

    def steady_sha256(self) -> tuple[bytes, int]:
        """The digest and the size of a content that did not change meanwhile.

        Raises:
            OriginalError: the file was being written to at each of several tries (``source_changed``).
        """
        for _ in range(_STEADY_TRIES):
            before = os.fstat(self.descriptor)
            try:
                digest = self.sha256()
            except OriginalError:
                continue  # it grew
            if not _differ(before, os.fstat(self.descriptor)):
                return digest, before.st_size
        raise self._never_rests()

    def touched(self) -> bool:
        """True when the file was written to since it was opened."""
        return _differ(self._opened, os.fstat(self.descriptor))

    def _never_rests(self) -> OriginalError:
        return OriginalError("source_changed", f"{terminal_path(self.location.full)} changes while it is read")


def _open_below(location: Location) -> int:
    *folders, name = location.path.split(b"/")
    if b"\0" in location.full:
        raise _no_path(location.full)
    if any(part in (b"", b".", b"..") for part in (*folders, name)):
        raise OriginalError("outside_roots", f"{terminal_path(location.path)} is no path below a root")
    current = _open_root(location.root)
    try:
        for folder in folders:
            current = _replace(current, _open_folder(folder, current))
        return _open_regular(name, current)
    except OSError as error:
        raise _as_fault(error, location.full) from None
    finally:
        os.close(current)


def _open_root(root: bytes) -> int:
    try:
        return _open_folder(root)
    except PermissionError as error:
        raise _as_fault(error, root) from None
    except OSError as error:
        if error.errno not in _MISSING_ERRNOS | _STORAGE_ERRNOS:
            raise
        reason = os.strerror(error.errno or 0)
        raise StorageGone(f"the storage root {terminal_path(root)} cannot be opened: {reason}") from None


def _open_folder(name: bytes, parent: int | None = None) -> int:
    flags = os.O_DIRECTORY | os.O_CLOEXEC
    if parent is not None:
        flags |= os.O_NOFOLLOW
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise _became_link(name)
    try:
        # Opened for reading, so that a folder that is mounted on demand gets mounted.
        return os.open(name, os.O_RDONLY | flags, dir_fd=parent)
    except PermissionError:
        return os.open(name, os.O_PATH | flags, dir_fd=parent)  # may be passed through without being listed


def _open_regular(name: bytes, parent: int) -> int:
    # Looked at first, since opening a device can already do something.
    _require_regular(os.stat(name, dir_fd=parent, follow_symlinks=False), name)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    fd = os.open(name, flags, dir_fd=parent)
    try:
        _require_regular(os.fstat(fd), name)
        if is_made_by_kernel(fd):
            raise OriginalError("not_a_file", f"{terminal_path(name)} is made by the kernel, and no file of an archive")
    except BaseException:
        os.close(fd)
        raise
    return fd


def _require_regular(found: os.stat_result, name: bytes) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _became_link(name)
    if not stat.S_ISREG(found.st_mode):
        raise OriginalError("not_a_file", f"{terminal_path(name)} is no regular file")


def _became_link(name: bytes) -> OriginalError:
    return OriginalError(
        "outside_roots", f"{terminal_path(name)} is a symbolic link now; import the file from where it is"
    )


def _no_path(path: bytes) -> OriginalError:
    return OriginalError("source_missing", f"{terminal_path(path)}: no path holds a NUL character")


def _replace(old: int, new: int) -> int:
    os.close(old)
    return new


def _is_below(path: bytes, folder: bytes) -> bool:
    return path.startswith(folder.rstrip(b"/") + b"/")


def _differ(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_size, one.st_mtime_ns) != (other.st_size, other.st_mtime_ns)


def is_storage_fault(error: OSError) -> bool:
    """True when the error says that the storage is gone for now, and nothing about the file."""
    return error.errno in _STORAGE_ERRNOS


def _as_fault(error: OSError, path: bytes) -> OriginalError | StorageGone | OSError:
    """What an error says about the file; the error itself when that is nothing, so that it may pass."""
    reason = f"{terminal_path(path)}: {os.strerror(error.errno or 0)}"
    if is_storage_fault(error):
        return StorageGone(reason)
    if error.errno in _PERMISSION_ERRNOS:
        return OriginalError("permission_denied", reason)
    if error.errno in _OTHER_SORT_ERRNOS:
        return OriginalError("not_a_file", reason)
    if error.errno in _MISSING_ERRNOS:
        return OriginalError("source_missing", reason)
    return error
