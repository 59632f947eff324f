"""How fast work went, told only as far as somebody has seen it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

Value = TypeVar("Value")

LEAST_SECONDS = 10.0
"""Of a shorter time no rate is told, only what was done and in which time: that workers start, that the first ones wait
for work and the last ones for their end is most of so short a time, and would be told as if it went on like that."""

WINDOW_SECONDS = 60.0
"""Over so long a time rates and times left are told where work goes on, so that they follow a change of it."""

_UNITS = (("s", 1.0), ("min", 60.0), ("h", 3600.0))


def tells(unit: float, seconds: float) -> bool:
    """Whether a time is long enough to tell how many it were in each ``unit`` seconds.

    Not where it is less than a unit: two jobs in three seconds are no forty a minute. And not where it is less than
    `LEAST_SECONDS`.
    """
    return seconds >= max(unit, LEAST_SECONDS)


def per(unit: float, number: float, seconds: float) -> float | None:
    """How many in each ``unit`` seconds; None where nobody can tell, by `tells`."""
    return number / seconds * unit if tells(unit, seconds) else None


def rate(number: float, seconds: float) -> str | None:
    """``15.0/s``, ``3.5/min``, ``1,234/h``: in the smallest unit with one at least; None as of `per`."""
    told = None
    for name, unit in _UNITS:
        if (each := per(unit, number, seconds)) is None:
            return None
        told = f"{each:.1f}/{name}" if each < 100 else f"{each:,.0f}/{name}"
        if each >= 1:
            break
    return told


def seconds_left(waited: Sequence[tuple[float, int]]) -> float | None:
    """How long until nothing waits, if that goes on as it went from the first to the last (second, jobs that waited).

    Jobs that end bring others (a document's ``ocr`` its ``classify``), so that what ends in a minute says little of
    what is left after it. None where something waits and nobody can tell: of less than `LEAST_SECONDS`, or where no
    fewer wait than did.
    """
    if not waited or not waited[-1][1]:
        return 0.0 if waited else None
    (since, before), (now, waiting) = waited[0], waited[-1]
    fewer, seconds = before - waiting, now - since
    return waiting * seconds / fewer if fewer > 0 and seconds >= LEAST_SECONDS else None


class Window(Generic[Value]):
    """What was seen lately, each with the second of its look, the oldest first: what a rate is told from.

    The oldest look stays until another one is as far back as the window is long. So the looks span the whole of it as
    soon as that has passed, and more only by the time between two of them.

    Args:
        seconds: how long the window is.
    """

    def __init__(self, seconds: float = WINDOW_SECONDS) -> None:
        self._length = seconds
        self._looks: deque[tuple[float, Value]] = deque()

    def add(self, now: float, seen: Value) -> None:
        """A look, not earlier than the one before."""
        self._looks.append((now, seen))
        while len(self._looks) > 1 and now - self._looks[1][0] >= self._length:
            self._looks.popleft()

    @property
    def looks(self) -> Sequence[tuple[float, Value]]:
        """All that are kept."""
        return self._looks

    @property
    def first(self) -> Value:
        """Of the oldest look; raises IndexError before any."""
        return self._looks[0][1]

    @property
    def last(self) -> Value:
        """Of the newest look; raises IndexError before any."""
        return self._looks[-1][1]

    @property
    def seconds(self) -> float:
        """From the oldest look to the newest; 0 before there are two."""
        return self._looks[-1][0] - self._looks[0][0] if self._looks else 0.0
