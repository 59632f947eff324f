"""The way from a storage root down to a file: folder by folder, through no symbolic link, and never out of it.

Every folder is opened relative to the one before. Where the device changes on the way, something is mounted: such a
folder is told apart like the root itself, since the folder below an unmounted file system is empty, too. Where nothing
is known of it although the root is known, it was mounted later, over the folder that the originals lie in.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from batchproc.documents.kernel_files import is_made_by_kernel
from batchproc.documents.original_faults import (
    MISSING_ERRNOS,
    PERMISSION_ERRNOS,
    STORAGE_ERRNOS,
    Location,
    OriginalError,
    StorageGone,
    as_fault,
    below,
    storage_silent,
)
from batchproc.documents.paths import terminal_path
from batchproc.documents.root_identity import RootIdentity, marker_problem

Identities = Mapping[bytes, RootIdentity]
"""Of roots and of folders below them that something is mounted on, by path."""


@dataclass(slots=True)
class Way:
    """The folders that were passed which are known again, as they were found."""

    root: bytes
    known: Identities
    found: dict[bytes, RootIdentity] = field(default_factory=dict)

    def doubt(self) -> StorageGone | None:
        """Why nothing that was found there can be believed: what is known was not passed, or is another folder, or lies
        below something that was mounted since.
        """
        for path, known in self.known.items():
            found = self.found.get(path)
            if found is None:
                return _gone(path, "is not there")
            if not found.is_the(known):
                return _gone(path, f"is not the one it was: {found.unlike(known)}")
        later = [path for path in self.found if path not in self.known] if self.root in self.known else []
        return _mounted_later(later[0]) if later else None

    def passed(self, folder: int, path: bytes, device: int | None) -> int:
        """Takes notice of an open folder on a way that came over ``device``; gives its device."""
        here = os.fstat(folder).st_dev
        if here != device or path in self.known:
            self.found[path] = RootIdentity.of(folder)
        return here


def folders_of(location: Location) -> list[bytes]:
    """The paths of the root and of all folders below it that the file lies in."""
    paths = [location.root]
    for name in location.path.split(b"/")[:-1]:
        paths.append(below(paths[-1], name))
    return paths


def open_below(location: Location, way: Way) -> int:
    """A descriptor of the file.

    Raises:
        OriginalError: the file is missing, no regular file, not readable, or reached through a symbolic link.
        StorageGone: the storage does not answer, the root is not there, or what was found is not to be believed.
        OSError: of this process, such as too many open files.
    """
    *folders, name = location.path.split(b"/")
    if b"\0" in location.full:
        raise no_path(location.full)
    if any(part in (b"", b".", b"..") for part in (*folders, name)):
        raise OriginalError("outside_roots", f"{terminal_path(location.path)} is no path below a root")
    current = open_root(location.root)
    try:
        path = location.root
        device = way.passed(current, path, None)
        for folder in folders:
            current, path = _replace(current, _open_folder(folder, current)), below(path, folder)
            device = way.passed(current, path, device)
        return _open_regular(name, current)
    except OriginalError as fault:
        raise way.doubt() or fault from None
    except OSError as error:
        fault_of_file = as_fault(error, location.full, location.root)
        raise (way.doubt() if isinstance(fault_of_file, OriginalError) else None) or fault_of_file from None
    finally:
        os.close(current)


def open_root(root: bytes) -> int:
    """A descriptor of the folder, which may be reached through symbolic links.

    Raises:
        StorageGone: it is not there, or this user may not enter it.
        OSError: of this process, such as too many open files.
    """
    try:
        return _open_folder(root)
    except OSError as error:
        if error.errno not in MISSING_ERRNOS | STORAGE_ERRNOS | PERMISSION_ERRNOS:
            raise
        raise _gone(root, f"cannot be opened: {os.strerror(error.errno or 0)}") from None


def identity_at(folder: bytes) -> tuple[RootIdentity, str | None]:
    """That of a root or mounted folder as it is now, and what is wrong with its marker, if anything.

    Raises as ``open_root``.
    """
    opened = open_root(folder)
    try:
        return RootIdentity.of(opened), marker_problem(opened)
    except OSError as error:
        if error.errno not in STORAGE_ERRNOS:
            raise
        raise StorageGone(storage_silent(folder, error)) from None
    finally:
        os.close(opened)


def open_for_reading(name: bytes, parent: int) -> int:
    """Opens a file without waiting for anything, and without a trace in its time of access where that is allowed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        return os.open(name, flags | os.O_NOATIME, dir_fd=parent)
    except PermissionError:
        return os.open(name, flags, dir_fd=parent)  # only a file's owner may leave no trace (open(2))


def no_path(path: bytes) -> OriginalError:
    """The fault of a path that cannot be one."""
    return OriginalError("source_missing", f"{terminal_path(path)}: no path holds a NUL character")


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
    fd = open_for_reading(name, parent)
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


def _gone(path: bytes, what: str) -> StorageGone:
    return StorageGone(f"the storage root {terminal_path(path)} {what}")


def _mounted_later(path: bytes) -> StorageGone:
    name = terminal_path(path)
    return StorageGone(
        f"something is mounted on {name} in which no original was found yet: unmount it or, if the originals were moved"
        f" there and are really missing: batchproc storage accept {name}"
    )


def _replace(old: int, new: int) -> int:
    os.close(old)
    return new
