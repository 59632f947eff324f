"""``--until``: the end of a run's time, as a person gives it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, time

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_MINUTE = 60
_LONGEST_SEARCH = 3 * 24 * 60
"""Minutes. A clock shows every time of day within two days of any moment, or jumps over it."""


def parse_clock(text: str) -> time:
    """The time of day in ``06:00``.

    Raises:
        ValueError: it is none.
    """
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        raise ValueError("must be a time of day such as 06:00")
    return time(int(found.group(1)), int(found.group(2)))


def next_time(at: time, now: float, wall: Callable[[float], datetime]) -> float:
    """The first moment after ``now`` at which the local clock comes to ``at``, or jumps past it.

    So 02:30 in the night in which summer time begins is the moment of the jump from 02:00 to 03:00, and in the one in
    which it ends the first of the two, or the second for a run that begins in between. Offsets of zones and their
    changes are of whole minutes (since 1972, see the tz database's theory.html), so looking at each is enough.

    Args:
        at: the time of day, in whole minutes.
        now: seconds since the epoch.
        wall: what the local clock shows at a moment, as a naive datetime.
    """
    moment = now // _MINUTE * _MINUTE
    before = wall(moment)
    for _ in range(_LONGEST_SEARCH):
        moment += _MINUTE
        after = wall(moment)
        if any(before < datetime.combine(day, at) <= after for day in {after.date(), before.date()}):
            return float(moment)
        before = after
    raise ValueError(f"the local clock never shows {at:%H:%M}")
