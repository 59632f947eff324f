"""Properties of the wait between attempts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.backoff import backoff

JITTER = st.floats(0, 1, exclude_max=True)
BASES = st.floats(0.001, 1e4)
CAPS = st.floats(0.001, 366 * 86400.0)


@given(st.integers(0, 100), BASES, CAPS, JITTER)
def test_the_jitter_covers_the_upper_half_of_the_capped_power(n: int, base: float, cap: float, jitter: float) -> None:
    full = min(cap, base * 2**n)
    wait = backoff(n, base=base, cap=cap, jitter=jitter)
    assert full / 2 <= wait <= full
    assert wait == pytest.approx(full / 2 + jitter * full / 2)


@given(st.integers(0, 100), BASES, CAPS, JITTER, JITTER)
def test_more_jitter_waits_longer(n: int, base: float, cap: float, one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert backoff(n, base=base, cap=cap, jitter=less) <= backoff(n, base=base, cap=cap, jitter=more)


@given(st.integers(0, 100), BASES, CAPS, JITTER)
def test_a_further_failure_never_waits_less(n: int, base: float, cap: float, jitter: float) -> None:
    assert backoff(n, base=base, cap=cap, jitter=jitter) <= backoff(n + 1, base=base, cap=cap, jitter=jitter)


@given(st.integers(61, 10**30), BASES, CAPS, JITTER)
def test_any_number_of_failures_waits_for_the_cap(n: int, base: float, cap: float, jitter: float) -> None:
    wait = backoff(n, base=base, cap=cap, jitter=jitter)
    assert math.isfinite(wait)
    assert cap / 2 <= wait <= cap


@pytest.mark.parametrize(
    ("n", "expected"), [(0, 2), (1, 4), (2, 8), (6, 128), (7, 256), (8, 300), (9, 300), (4000, 300)]
)
def test_the_defaults_double_from_two_seconds_to_five_minutes(n: int, expected: float) -> None:
    assert backoff(n, base=2, cap=300, jitter=0) == expected / 2
    assert backoff(n, base=2, cap=300, jitter=0.5) == expected * 0.75
