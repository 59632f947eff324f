"""How fast work went, told only as far as somebody has seen it."""

from __future__ import annotations

from collections.abc import Sequence

LEAST_SECONDS = 10.0
"""Of a shorter time no rate is told, only what was done and in which time: that workers start, that the first ones wait
for work and the last ones for their end is most of so short a time, and would be told as if it went on like that."""

_UNITS = (("s", 1.0), ("min", 60.0), ("h", 3600.0))


def per(unit: float, number: float, seconds: float) -> float | None:
    """How many in each ``unit`` seconds.

    None where it went on for less than a unit: two jobs in three seconds are no forty a minute. And where it went on
    for less than `LEAST_SECONDS`.
    """
    return number / seconds * unit if seconds >= max(unit, LEAST_SECONDS) else None


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
