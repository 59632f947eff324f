"""A tenant's file of passwords for its encrypted PDFs: one a line, readable for its owner alone.

It is read by a worker when a PDF needs a password, each time anew. What is in it is tried and forgotten: never stored,
shown or logged.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from batchproc.documents.original_faults import OriginalError, StorageGone, as_fault
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure, StorageUnavailable
from batchproc.ocr.errors import OcrFailure

MAX_BYTES: Final = 64 * 1024
MAX_PASSWORDS: Final = 100
"""Each costs an attempt to open the document: milliseconds with the slow hash of PDF 2.0."""

MAX_PASSWORD_BYTES: Final = 127
"""No PDF has a longer one (ISO 32000-2, 7.6.4.3.3)."""

_OTHERS: Final = 0o177
"""What must not be set: any right of others, and execution."""


class UnusablePasswordFile(Exception):
    """Why a password file cannot be used, in words that may be stored and shown: no path, nothing of its content."""


class MissingPasswordFile(UnusablePasswordFile):
    """There is none, here and now: a node without it, or a folder that is not mounted."""


class SilentPasswordFile(UnusablePasswordFile):
    """Its storage does not answer."""


def read_passwords(path: Path) -> list[str]:
    """The passwords in the order of the file, each as UTF-8, or where a line is none as Latin-1.

    Blanks belong to a password; an empty line is none.

    Raises:
        UnusablePasswordFile: it is no regular file, another's, open to others, or too large; of it a
            MissingPasswordFile, if there is none, or a SilentPasswordFile, if its storage does not answer.
        OSError: of this process, such as too many open files.
    """
    try:
        data = _read(path)
    except OSError as error:
        raise _as_unusable(error, path) from error
    if len(data) > MAX_BYTES:
        raise UnusablePasswordFile(f"it has more than {MAX_BYTES} bytes")
    lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").split(b"\n")
    passwords = list(dict.fromkeys(_decoded(line) for line in lines if line))
    if len(passwords) > MAX_PASSWORDS:
        raise UnusablePasswordFile(f"it has {len(passwords)} passwords, at most {MAX_PASSWORDS} are tried")
    if any("\0" in password or len(password.encode()) > MAX_PASSWORD_BYTES for password in passwords):
        raise UnusablePasswordFile(
            f"a line is longer than {MAX_PASSWORD_BYTES} bytes or holds a NUL, as no password does"
        )
    return passwords


def tenant_passwords(ctx: Context) -> list[str]:
    """The passwords of the job's tenant; none when it has no password file.

    Raises:
        OcrFailure: `encrypted`, its password file is not one that can be used.
        Failure: `password_file_missing`, to be tried again.
        StorageUnavailable: that of the password file does not answer.
        OSError: of this process, such as too many open files.
    """
    named = ctx.tenant_settings.get("password_file")
    if named is None:
        return []
    try:
        return read_passwords(Path(named))
    except SilentPasswordFile as fault:
        ctx.log.warning("the password file of tenant {}: {}", ctx.tenant, fault)
        # The document is named, so that no twenty of them in a row say the same, and so speak for their own root.
        raise StorageUnavailable(f"{_needed(ctx)}: {fault}") from fault
    except MissingPasswordFile as fault:
        ctx.log.error("the password file of tenant {}: {}", ctx.tenant, fault)
        raise Failure(
            "password_file_missing",
            detail=f"{_needed(ctx)}: {fault}; mount or create it on every node, or set another:"
            " batchproc tenants set SLUG --password-file PATH",
            retry=True,
        ) from fault
    except UnusablePasswordFile as fault:
        ctx.log.error("the password file of tenant {} cannot be used: {}", ctx.tenant, fault)
        raise OcrFailure(
            "encrypted", f"the PDF needs a password; the tenant's password file was not used: {fault}"
        ) from fault


def _needed(ctx: Context) -> str:
    return f"document {ctx.document_id} needs a password, and the file in its tenant's setting password_file"


def _as_unusable(error: OSError, path: Path) -> UnusablePasswordFile | OSError:
    """What an error says of the file; the error itself when that is nothing, so that it may pass."""
    fault, why = as_fault(error, os.fsencode(path)), os.strerror(error.errno or 0)
    if isinstance(fault, StorageGone):
        return SilentPasswordFile(f"its storage does not answer: {why}")
    if not isinstance(fault, OriginalError):
        return error
    sort = MissingPasswordFile if fault.code == "source_missing" else UnusablePasswordFile
    return sort(f"it cannot be read: {why}")


def _read(path: Path) -> bytes:
    # Not blocking, for what turns out to be a pipe; what was judged is what is read, by one descriptor.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123  # of a descriptor
        _require_private(os.fstat(descriptor))
        return file.read(MAX_BYTES + 1)


def _require_private(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnusablePasswordFile("it is no regular file")
    mode = stat.S_IMODE(found.st_mode)
    if mode & _OTHERS:
        raise UnusablePasswordFile(f"its mode is {mode:04o}, which opens it to others: chmod 600")
    user = os.geteuid()
    if user != 0 and found.st_uid not in (0, user):
        raise UnusablePasswordFile("it belongs to another user")


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")
