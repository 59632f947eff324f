"""How long an owner of jobs waited for each of them to be started."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from batchproc.ops.bench.figures import percentile


class Start(NamedTuple):
    """A job of ``owner`` was started then, in seconds."""

    owner: int
    started: float


class Wait(NamedTuple):
    """From its owner's previous start, or the arrival of its jobs, until a job was started.

    ``turns``: so many jobs of others were started meanwhile; ``rounds``: so many of them of the same other.
    """

    turns: int
    rounds: int
    seconds: float


def waits(starts: Sequence[Start], owner: int, came: float) -> list[Wait]:
    """The waits of one owner, all of whose jobs came in at ``came``.

    Args:
        starts: all that there were, of whomever, in their order.
    """
    before = bisect_left([start.started for start in starts], came) - 1
    since, found = came, []
    for place, start in enumerate(starts):
        if start.owner != owner:
            continue
        others = Counter(between.owner for between in starts[before + 1 : place])
        # The clock is read after the commit: by then the first job may have been started.
        found.append(Wait(others.total(), max(others.values(), default=0), max(0.0, start.started - since)))
        before, since = place, max(came, start.started)
    return found


def summed_up(waits: Sequence[Wait]) -> dict[str, Any]:
    """Percentiles and the worst, of turns and of seconds, and the most rounds."""
    turns = [wait.turns for wait in waits]
    seconds = [wait.seconds for wait in waits]
    return {
        "p50_turns": percentile(turns, 0.5),
        "p99_turns": percentile(turns, 0.99),
        "worst_turns": max(turns),
        "worst_rounds": max(wait.rounds for wait in waits),
        "p50_s": round(percentile(seconds, 0.5), 3),
        "p99_s": round(percentile(seconds, 0.99), 3),
        "worst_s": round(max(seconds), 3),
    }
