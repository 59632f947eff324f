"""Text from outside as it may be shown: in the log, on a screen, in an error. Without passwords, and on one line."""

from __future__ import annotations

import re

MASK = "***"

# Nothing here may begin with an unbounded repetition: a log line can be as long as a page.
# A cloud's tokens, used as passwords, have some thousands of characters.
_URL_PASSWORD = re.compile(r"(://[^\s/:@]{0,255}):\S{0,4000}@")
_NAMES_OF_SECRETS = r"password|passwd|pwd|passphrase|secret|api[_-]?key|(?:access|auth|refresh|bearer)[_-]?token"
_NAMED_PASSWORD = re.compile(
    rf"""(?ix) ( (?:{_NAMES_OF_SECRETS}) \\?['"]? \s* (?:=|:|%3D) \s* )
        (?: '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | ['"]?[^\s&,;)}}'"]+ )"""
)
_NAME_OF_A_SECRET = re.compile(rf"(?i)(?:{_NAMES_OF_SECRETS})$")
_AUTHORIZATION = re.compile(r"(?i)(authorization['\"]?\s*[=:]\s*['\"]?(?:basic|bearer|digest|token)\s+)[^\s,;'\"]+")


def redact(text: str) -> str:
    """The text with the passwords in URLs and in ``password=...`` replaced by ``***``; rather too many than too few.

    Besides passwords: passphrases, secrets, API keys, access tokens, and what follows ``Authorization:``.
    """
    text = _URL_PASSWORD.sub(rf"\g<1>:{MASK}@", text)
    return _AUTHORIZATION.sub(rf"\g<1>{MASK}", _NAMED_PASSWORD.sub(rf"\g<1>{MASK}", text))


def is_secret(name: str) -> bool:
    """Whether a value of that name is a password or the like."""
    return _NAME_OF_A_SECRET.search(name) is not None


def one_line(text: str, limit: int | None = None) -> str:
    r"""The text with all that is not printable escaped (``\n``, ``\x1b``, ``\udcff``), cut to ``limit`` characters."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    return text if limit is None or len(text) <= limit else text[: limit - 1] + "…"
