"""The exit code of commands that change many things."""

from __future__ import annotations


def left_over(*counts: int) -> int:
    """1 when some of what was to be changed was not: somebody held its row, or it still runs. Else 0.

    What was left alone for a reason that giving the command again would find again is none of that.
    """
    return int(any(counts))
