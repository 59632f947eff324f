"""Where an original is, and what an error on the way to it says: of the file, of its storage, or of neither."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from batchproc.documents.paths import terminal_path

# What a storage that is gone for now answers, as opposed to a file that is not there.
STORAGE_ERRNOS = frozenset(
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
PERMISSION_ERRNOS = frozenset({errno.EACCES, errno.EPERM})
# What says that no file is there; anything else, such as too many open files, says nothing about it.
MISSING_ERRNOS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})
_OTHER_SORT_ERRNOS = frozenset({errno.EISDIR, errno.ENXIO, errno.EOPNOTSUPP})

ORIGINAL_CODES = frozenset({"source_missing", "source_changed", "not_a_file", "outside_roots"})
"""Failure codes of an original that is not what was imported: older text of the document is in doubt, too."""


class OriginalError(Exception):
    """A file cannot serve as an original.

    ``code`` is ``source_missing``, ``not_a_file``, ``outside_roots``, ``permission_denied`` or ``source_changed``.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class StorageGone(Exception):
    """The storage does not answer, or its root is not there or another one: nothing can be said about the file.

    ``summary`` says it without the name of a file: the same for all that lies there.
    """

    def __init__(self, reason: str, summary: str | None = None) -> None:
        super().__init__(reason)
        self.summary = summary or reason


@dataclass(frozen=True, slots=True)
class Location:
    """A file below a storage root; ``path`` is relative to ``root``."""

    root: bytes
    path: bytes

    @property
    def full(self) -> bytes:
        return below(self.root, self.path)


def below(folder: bytes, path: bytes) -> bytes:
    """The path of what is called ``path`` in ``folder``."""
    return folder.rstrip(b"/") + b"/" + path


def is_storage_fault(error: OSError) -> bool:
    """True when the error says that the storage is gone for now, and nothing about the file."""
    return error.errno in STORAGE_ERRNOS


def storage_silent(root: bytes, error: OSError) -> str:
    """What to tell of a root whose storage answers with an error; nothing of the file that was asked for."""
    return f"the storage root {terminal_path(root)} does not answer: {os.strerror(error.errno or 0)}"


def as_fault(error: OSError, path: bytes, root: bytes | None = None) -> OriginalError | StorageGone | OSError:
    """What an error says about the file; the error itself when that is nothing, so that it may pass."""
    reason = f"{terminal_path(path)}: {os.strerror(error.errno or 0)}"
    if is_storage_fault(error):
        return StorageGone(reason, None if root is None else storage_silent(root, error))
    if error.errno in PERMISSION_ERRNOS:
        return OriginalError("permission_denied", reason)
    if error.errno in _OTHER_SORT_ERRNOS:
        return OriginalError("not_a_file", reason)
    if error.errno in MISSING_ERRNOS:
        return OriginalError("source_missing", reason)
    return error
