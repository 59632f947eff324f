"""Work that is worth waiting for, but not for longer than a time that somebody else has set."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

Value = TypeVar("Value")


class OutOfTime(Exception):
    """It was not done in time; what it comes to later, nobody hears."""


def within(seconds: float, work: Callable[[], Value]) -> Value:
    """What ``work`` gives or raises, in a thread of its own; a process that ends does not wait for it.

    Raises:
        OutOfTime: it takes longer.
    """
    done: list[Value] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again below
            raised.append(error)

    thread = Thread(target=run, name="within", daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if not done:
        raise OutOfTime
    return done[0]
