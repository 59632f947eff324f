"""A tenant's file of passwords for its encrypted PDFs: one a line, readable for its owner alone.

It is read by a worker when a PDF needs a password, each time anew. What is in it is tried and forgotten: never stored,
shown or logged.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from batchproc.handlers.context import Context
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


def read_passwords(path: Path) -> list[str]:
    """The passwords in the order of the file, each as UTF-8, or where a line is none as Latin-1.

    Blanks belong to a password; an empty line is none.

    Raises:
        UnusablePasswordFile: it is missing, no regular file, another's, open to others, or too large.
    """
    try:
        data = _read(path)
    except OSError as error:
        raise UnusablePasswordFile(f"it cannot be read: {os.strerror(error.errno or 0)}") from error
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
        OcrFailure: `encrypted`, its password file cannot be used.
    """
    named = ctx.tenant_settings.get("password_file")
    if named is None:
        return []
    try:
        return read_passwords(Path(named))
    except UnusablePasswordFile as fault:
        ctx.log.error("the password file of tenant {} cannot be used: {}", ctx.tenant, fault)
        raise OcrFailure("encrypted", f"the PDF needs a password, and the tenant's password file: {fault}") from fault


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
