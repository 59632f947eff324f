"""Bounds on what is stored, so that the write of an outcome never fails for its content."""

from __future__ import annotations

import json
import re
from typing import Any

RESULT_BYTES = 64 * 1024
DETAIL_CHARACTERS = 2000
ERROR_TYPE_CHARACTERS = 300
LONGEST_DELAY = 100 * 366 * 86400.0
# A handler that snoozes for less would be claimed again and again, before every other job of its queue.
LEAST_SNOOZE = 1.0
"""Seconds; a later time would soon be more than a database holds."""
CODE = re.compile(r"^[a-z][a-z0-9_]{0,62}\Z")
# PostgreSQL stores neither NUL nor a lone surrogate in text or jsonb.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class ResultTooLarge(ValueError):
    """A result is over 64 kB as JSON."""


def clean_text(text: str) -> tuple[str, int]:
    """``text`` without NUL and lone surrogates, and how many of them there were."""
    return _UNSTORABLE.subn("", text)


def clean_value(value: Any) -> Any:
    """A JSON value with every string in it, keys included, cleaned by ``clean_text``."""
    if isinstance(value, str):
        return clean_text(value)[0]
    if isinstance(value, list | tuple):
        return [clean_value(item) for item in value]
    if isinstance(value, dict):
        return {clean_value(str(key)): clean_value(item) for key, item in value.items()}
    return value


def bounded_json(text: str) -> str:
    """A JSON object as text, cleaned, in ASCII.

    Raises:
        ResultTooLarge: it is longer than 64 kB.
        ValueError: it is not a JSON object, holds NaN or an infinity, or is nested hundreds of levels deep.
    """
    try:
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        stored = json.dumps(clean_value(value), allow_nan=False)
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
