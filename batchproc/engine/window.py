"""The time that a run has: gone at its end.

Claims stop ``shutdown_grace`` before the end, what runs is asked to stop then, and a moment before the end whatever is
left is interrupted, so that at the end the process is gone. Of kinds whose jobs would not end in time nothing is
claimed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from batchproc.core.expectations import Expectations
from batchproc.core.until import next_time, parse_clock
from batchproc.setting_types import parse_duration

LEAVING = 2.0
"""Seconds before the end at which what still runs is killed: settling it and leaving takes less."""
_LEAST = 0.1
_LEAST_ANSWER = 0.5


@dataclass(frozen=True)
class Window:
    """Ends at ``end``, by ``clock``; ``length`` is what was left of it when the run began. All in seconds.

    ``shown``: the end as a person reads it.
    """

    end: float
    clock: Callable[[], float]
    length: float
    shown: str

    @property
    def left(self) -> float:
        """Until the end."""
        return self.end - self.clock()

    def work_left(self) -> float:
        """Until what still runs is killed."""
        return self.left - LEAVING

    def claims_left(self, grace: float) -> float:
        """Until nothing more is claimed."""
        return self.left - max(grace, LEAVING)


def patience(window: Window | None, most: float) -> float:
    """Seconds that one of the things that come after the work may take: ``most``, or half of what is left by then.

    So however many of them are slow, the process is gone at the end, or a moment after it.
    """
    return most if window is None else min(most, max(_LEAST, window.left / 2))


def answer_within(window: Window | None, most: float) -> float:
    """Seconds that the database may take for one answer, from now: ``most``, or until what still runs is killed.

    Half a second it always has: to settle that, and in a window that was over before the run began.
    """
    return most if window is None else min(most, max(_LEAST_ANSWER, window.work_left()))


def window_until(text: str) -> Window:
    """The window from now until ``06:00``, the next time that the local clock shows it, or for ``+7h``.

    A time of day is a matter of the wall clock, also when that is set meanwhile; a length is one of CLOCK_BOOTTIME,
    which nobody sets and which goes on while the machine sleeps.

    Raises:
        ValueError: it is neither.
    """
    now = time.time()
    if text.strip().startswith("+"):
        length = _length(text.strip()[1:])
        return Window(_boottime() + length, _boottime, length, _shown(now + length))
    end = next_time(parse_clock(text), now, datetime.fromtimestamp)
    return Window(end, time.time, end - now, _shown(end))


def _length(text: str) -> float:
    try:
        length = parse_duration(text)
    except ValueError as error:
        raise ValueError(str(error)) from None
    if text.strip().replace(".", "").isdigit():
        raise ValueError("needs a unit, such as +7h or +90m")
    if length <= 0:
        raise ValueError("must be longer than nothing")
    return length


def _boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _shown(moment: float) -> str:
    local = datetime.fromtimestamp(moment).astimezone()
    if local.second or local.microsecond >= 500_000:
        local += timedelta(microseconds=500_000)
        return f"{local:%Y-%m-%d %H:%M:%S %Z}"
    return f"{local:%Y-%m-%d %H:%M %Z}"


class WindowWatch:
    """What of the window a dispatcher heeds: whether it may claim, and what of.

    Without a window it may, for ever and anything.
    """

    def __init__(self, window: Window | None = None) -> None:
        self._window = window
        self._expected: Expectations | None = None

    def heed(self, expected: Expectations) -> None:
        """From now on also how long jobs are expected to take."""
        self._expected = expected

    def withheld(self) -> frozenset[str]:
        """Kinds of which nothing is to be claimed now, because it would not end in time."""
        if self._window is None or self._expected is None:
            return frozenset()
        return self._expected.longer_than(self._window.work_left())

    def until_claims_end(self, grace: float) -> float | None:
        """Seconds; None without a window."""
        return None if self._window is None else self._window.claims_left(grace)

    def until_kill(self) -> float | None:
        """Seconds; None without a window."""
        return None if self._window is None else self._window.work_left()
