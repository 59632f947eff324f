"""Rates of jobs, as people write them: ``10/s``, ``600/m``, ``1000/h``, ``50/d``.

A kind with a rate has a bucket of tokens: it gains so many a second, holds ``burst`` of them at most, and each claim
takes one. So in any t seconds no more than burst + rate * t jobs of the kind are begun, on all nodes together.
"""

from __future__ import annotations

import re

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)/([smhd])")
FASTEST = 1e6
"""Jobs a second. More than any database claims, and far from what a sum of tokens is exact to."""
SLOWEST = 1 / 86400
"""One a day. What is slower is a pause, or was meant in another unit."""
LARGEST_BURST = 1_000_000


def parse_rate(text: str) -> float:
    """Jobs a second.

    Raises:
        ValueError: it is not of that form, slower than ``SLOWEST`` or faster than ``FASTEST``.
    """
    found = _RATE.fullmatch(text.strip())
    rate = float(found[1]) / _SECONDS[found[2]] if found else 0.0
    if 0 < rate < SLOWEST:
        raise ValueError("must be one a day at least, such as 1/d or 10/s")
    if not 0 < rate <= FASTEST:
        raise ValueError("must be jobs per time such as 10/s, 600/m, 1000/h or 50/d")
    return rate


def shown(rate: float) -> str:
    """As ``parse_rate`` takes it, in the first unit that needs no fraction, else in the first of which one or more."""
    jobs = {unit: rate * seconds for unit, seconds in _SECONDS.items()}
    for unit, number in jobs.items():
        if round(number) >= 1 and abs(number - round(number)) < 1e-6:
            return f"{round(number)}/{unit}"
    unit, number = next(((unit, number) for unit, number in jobs.items() if number >= 1), ("d", jobs["d"]))
    return f"{number:g}/{unit}"
