"""JSON from outside, read so that it means one thing to everybody, and can be stored."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 64


class NestedTooDeeply(ValueError):
    """More levels than anything that is meant has; its text says how many."""


def loads(text: str | bytes) -> Any:
    """The value in ``text`` (RFC 8259, in UTF-8).

    Refused besides what is no JSON: a name that is set twice in an object (another reader would take the other
    value), NaN, infinities and numbers that become one, numbers of thousands of digits, more than 64 levels.

    Raises:
        ValueError: says why, without quoting values.
    """
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    try:
        value = json.loads(decoded, object_pairs_hook=_object, parse_constant=_constant, parse_float=_number)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise _too_deep() from None
    _check_depth(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object sets the same name twice")
    return found


def _constant(_: str) -> float:
    raise ValueError("it holds NaN or an infinity")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("it holds a number that is too large")
    return value


def _check_depth(value: Any) -> None:
    """Level by level and not by recursion, which a deep value would break."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise _too_deep()


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _too_deep() -> NestedTooDeeply:
    return NestedTooDeeply(f"it is nested more than {MAX_DEPTH} levels deep")
