"""How long a failed job waits before its next attempt."""

from __future__ import annotations


def backoff(failures: int, *, base: float, cap: float, jitter: float) -> float:
    """Seconds until the next attempt: ``min(cap, base * 2**n)`` with jitter over its upper half.

    Exponential backoff with "equal jitter" (M. Brooker, Exponential Backoff And Jitter, 2015): the lower
    half keeps the wait from collapsing, the upper half spreads jobs that failed together.

    Args:
        failures: how many attempts failed before this one; n in the formula.
        base: seconds of the first wait.
        cap: seconds that no wait exceeds.
        jitter: a random number in [0, 1), from the caller.
    """
    # 2**n overflows a float long after any cap is reached.
    wait = cap if failures > 60 else min(cap, base * 2.0**failures)
    return wait * (0.5 + 0.5 * jitter)
