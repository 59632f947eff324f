"""Rates are told of what was seen, and never made up from less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.throughput import LEAST_SECONDS, Window, per, rate, seconds_left, tells


@pytest.mark.parametrize(
    ("number", "seconds", "told"),
    [
        (2, 3.0, None),  # no 40 a minute
        (900, 3.0, None),
        (900, 20.0, "45.0/s"),
        (20, 40.0, None),  # no 30 a minute: nobody has seen a minute
        (30, 60.0, "30.0/min"),
        (9_000, 60.0, "150/s"),
        (3, 300.0, None),  # no 36 an hour
        (3, 7200.0, "1.5/h"),
        (1, 36_000.0, "0.1/h"),
        (0, 7200.0, "0.0/h"),
        (5, 0.0, None),
    ],
)
def test_a_rate_is_told_in_the_smallest_unit_that_was_seen(number: int, seconds: float, told: str | None) -> None:
    assert rate(number, seconds) == told


@given(st.integers(0, 10**9), st.floats(0, 1e6), st.sampled_from([1.0, 60.0, 3600.0]))
def test_nothing_is_told_that_is_more_than_what_was_done(number: int, seconds: float, unit: float) -> None:
    each = per(unit, number, seconds)
    assert (each is not None) is tells(unit, seconds) is (seconds >= LEAST_SECONDS and seconds >= unit)
    if each is not None:
        assert each <= number * (1 + 1e-9)


@pytest.mark.parametrize(
    ("waited", "left"),
    [
        ([], None),
        ([(0.0, 7)], None),
        ([(0.0, 100), (9.0, 10)], None),
        ([(0.0, 100), (20.0, 80)], 80.0),
        ([(5.0, 100), (12.0, 300), (25.0, 80)], 80.0),
        ([(0.0, 80), (20.0, 80)], None),  # as much comes as goes
        ([(0.0, 80), (20.0, 90)], None),
        ([(0.0, 80), (20.0, 0)], 0.0),
    ],
)
def test_the_time_left_follows_from_how_fast_fewer_wait(waited: list[tuple[float, int]], left: float | None) -> None:
    assert seconds_left(waited) == left


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 100))
def test_a_window_spans_all_of_its_time_and_hardly_more(gaps: list[int], length: int) -> None:
    """Times are whole numbers here, so that their differences are exact."""
    window: Window[int] = Window(float(length))
    assert window.seconds == 0.0
    looks: list[tuple[float, int]] = []
    now = 1000.0
    for number, gap in enumerate(gaps):
        now += gap
        looks.append((now, number))
        window.add(now, number)
        kept = list(window.looks)
        assert kept == looks[-len(kept) :], "none is lost but the oldest"
        assert (window.first, window.last) == (kept[0][1], number)
        assert window.seconds == now - kept[0][0]
        assert window.seconds >= min(length, now - looks[0][0]), "as much as it can know"
        assert now - kept[1][0] < length if len(kept) > 1 else True, "the second oldest alone would not do"
