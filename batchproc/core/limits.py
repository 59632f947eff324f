"""Bounds on what is stored, so that the write of an outcome never fails for its content."""

from __future__ import annotations

import json
import re
from typing import Any

RESULT_BYTES = 64 * 1024
DETAIL_CHARACTERS = 2000
ERROR_TYPE_CHARACTERS = 300
LONGEST_DELAY = 100 * 366 * 86400.0
"""Seconds; a later time would soon be more than a database holds."""
# A handler that snoozes for less would be claimed again and again, before every other job of its queue.
LEAST_SNOOZE = 1.0
CODE = re.compile(r"^[a-z][a-z0-9_]{0,62}\Z")
# PostgreSQL stores neither NUL nor a lone surrogate in text or jsonb.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class ResultTooLarge(ValueError):
    """A result is over 64 kB as JSON."""


def clean_text(text: str) -> tuple[str, int]:
    """``text`` without NUL and lone surrogates, and how many of them there were."""
    return _UNSTORABLE.subn("", text)


class Cleaner:
    """Cleans texts and JSON values; ``stripped`` counts the characters and bytes that it took out."""

    def __init__(self) -> None:
        self.stripped = 0

    def text(self, text: str) -> str:
        """``clean_text``, counted."""
        cleaned, stripped = clean_text(text)
        self.stripped += stripped
        return cleaned

    def value(self, value: Any) -> Any:
        """A JSON value with every string in it, keys included, cleaned. Bytes become the text they are in UTF-8."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes | bytearray):
            return self._decoded(bytes(value))
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.value(str(key)): self.value(item) for key, item in value.items()}
        return value

    def _decoded(self, value: bytes) -> str:
        text = value.decode("utf-8", "ignore")
        self.stripped += len(value) - len(text.encode())
        return self.text(text)


def clean_value(value: Any) -> Any:
    """A JSON value as ``Cleaner.value`` returns it."""
    return Cleaner().value(value)


def bounded_json(text: str, cleaner: Cleaner | None = None) -> str:
    """A JSON object as text, cleaned (by ``cleaner``, which counts), in ASCII.

    Raises:
        ResultTooLarge: it is longer than 64 kB.
        ValueError: it is not a JSON object, holds NaN or an infinity, or is nested hundreds of levels deep.
    """
    try:
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        stored = json.dumps((cleaner or Cleaner()).value(value), allow_nan=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if len(stored) > RESULT_BYTES:
        raise ResultTooLarge(f"{len(stored)} bytes of JSON, at most {RESULT_BYTES} are stored")
    return stored


def bounded_text(text: str | None, limit: int) -> str | None:
    """``text`` cleaned and cut to ``limit`` characters, with a mark where it was cut."""
    if text is None:
        return None
    cleaned, _ = clean_text(text)
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"
