"""Waiting in tests: for a condition, with a deadline, never for a length of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T | None], deadline_seconds: float = 10.0, what: str = "") -> T:
    """Returns the first true value of ``condition``; raises AssertionError when there is none in time."""
    give_up = time.monotonic() + deadline_seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > give_up:
            raise AssertionError(f"not within {deadline_seconds:g} s: {what or condition}")
        time.sleep(0.005)
