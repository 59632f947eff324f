"""Takes passwords out of what other users of the machine see of this process: ``ps`` shows every command line."""

from __future__ import annotations

import contextlib
import ctypes
import re
from pathlib import Path

_PASSWORDS = (re.compile(rb"://[^\s/:@\0]*:([^\s\0]*)@"), re.compile(rb"(?i)password(?:=|%3D)([^\s&\0]*)"))
_ARG_START, _ARG_END = 47, 48
"""Fields of ``/proc/PID/stat``, counted from 0: where in its own memory a process has its command line (proc(5))."""


def mask_passwords() -> None:
    """Overwrites the passwords of URLs in the command line of this process, with as many asterisks.

    Python has copied its arguments when it started, and goes on with those. Until then, some hundredths of a second,
    the password can be seen; ``BATCHPROC_DATABASE_URL`` never can. Where it cannot be done, such as on another system
    than Linux, it is left undone.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        place, shown = _command_line()
        masked = masked_line(shown)
        if masked != shown and ctypes.string_at(place, len(shown)) == shown:
            ctypes.memmove(place, masked, len(masked))


def masked_line(shown: bytes) -> bytes:
    """A command line, its arguments ended by NUL, with its passwords overwritten."""
    for pattern in _PASSWORDS:
        shown = pattern.sub(_overwritten, shown)
    return shown


def _overwritten(found: re.Match[bytes]) -> bytes:
    whole = found.group()
    start, end = (position - found.start() for position in found.span(1))
    return whole[:start] + b"*" * (end - start) + whole[end:]


def _command_line() -> tuple[int, bytes]:
    """Where it stands in memory, and what it is."""
    # The name in parentheses is the program's, and may hold blanks and parentheses itself.
    before, _, rest = Path("/proc/self/stat").read_bytes().rpartition(b")")
    fields = [*before.split(b" ", 1), *rest.split()]
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    shown = Path("/proc/self/cmdline").read_bytes()
    if not start or len(shown) != end - start:
        raise ValueError("the command line is not where it should be")
    return start, shown
