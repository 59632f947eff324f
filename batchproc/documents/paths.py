"""How paths, which are bytes, are shown and read as text.

A path is bytes that need not be UTF-8. In text every byte that is no part of valid UTF-8 stands as ``\\xNN``, and
so does a backslash that itself begins such a sequence (as ``\\x5c``). So the rule can be undone: each ``\\xNN`` is
one byte, everything else is itself.
"""

from __future__ import annotations

import re
import unicodedata

_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})")
_ESCAPE_BYTES = re.compile(rb"\\x([0-9a-fA-F]{2})")


def display_path(path: bytes) -> str:
    """``path`` as text for JSON; ``path_from_text`` gives the same bytes back."""
    literal = path.decode("utf-8", "surrogateescape")
    unambiguous = _ESCAPE.sub(lambda found: r"\x5c" + found.group(0)[1:], literal)
    return "".join(_escaped(ord(char) - 0xDC00) if "\udc80" <= char <= "\udcff" else char for char in unambiguous)


def terminal_path(path: bytes) -> str:
    """``path`` as one line that is safe on a terminal: control and invisible formatting characters escaped too."""
    return "".join("".join(map(_escaped, char.encode())) if _disturbs(char) else char for char in display_path(path))


def path_from_text(text: str) -> bytes:
    """The bytes of a path written as ``display_path`` shows it.

    Raises:
        ValueError: the text holds a lone surrogate.
    """
    return _ESCAPE_BYTES.sub(lambda found: bytes([int(found.group(1), 16)]), text.encode())


def _escaped(byte: int) -> str:
    return f"\\x{byte:02x}"


def _disturbs(char: str) -> bool:
    # Cc: control; Cf: such as text direction overrides; Zl, Zp: line and paragraph separators.
    return unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")
