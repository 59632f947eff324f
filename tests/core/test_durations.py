"""Lengths of time as people write them: no two that matter look alike."""

from __future__ import annotations

import pytest

from batchproc.core.durations import duration


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.0 s"),
        (0.00004, "<1 ms"),
        (0.0018, "2 ms"),
        (0.0996, "100 ms"),
        (0.1, "0.1 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (91, "91 s"),
        (119.4, "119 s"),
        (119.6, "2 min"),
        (125, "2 min 05 s"),
        (150, "2 min 30 s"),
        (599.4, "9 min 59 s"),
        (599.6, "10 min"),
        (630, "10 min"),
        (5399, "1 h 30 min"),
        (11_100, "3 h 05 min"),
        (187_200, "2 d 4 h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_no_second_is_lost_below_ten_minutes() -> None:
    assert len({duration(seconds) for seconds in range(10, 601)}) == 591
