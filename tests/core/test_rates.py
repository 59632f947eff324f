"""Rates as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.rates import parse_rate, shown


@pytest.mark.parametrize(
    ("text", "rate"),
    [("10/s", 10.0), ("600/m", 10.0), ("1/h", 1 / 3600), ("50/d", 50 / 86400), ("0.5/s", 0.5), (" 2/s ", 2.0)],
)
def test_a_rate_is_jobs_a_second(text: str, rate: float) -> None:
    assert parse_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "10/",
        "/s",
        "0/s",
        "-1/s",
        "10/w",
        "10 / s",
        "1e3/s",
        "nan/s",
        "2000000/s",
        "9" * 400 + "/s",
        "0.001/d",
        "0.04/h",
    ],
)
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="10/s"):
        parse_rate(text)


@given(st.integers(1, 100_000), st.sampled_from("smhd"))
def test_what_is_shown_is_the_same_rate(jobs: int, unit: str) -> None:
    rate = parse_rate(f"{jobs}/{unit}")
    assert parse_rate(shown(rate)) == pytest.approx(rate, rel=1e-5)


def test_a_rate_is_shown_in_the_first_unit_without_a_fraction() -> None:
    assert [shown(parse_rate(text)) for text in ("600/m", "30/m", "1/m", "7/d")] == ["10/s", "30/m", "1/m", "7/d"]


def test_a_rate_with_a_fraction_is_shown_in_the_first_unit_of_which_there_is_one() -> None:
    texts = ("0.5/s", "2.5/s", "1/d", "1.5/d", "10.123/h", "0.05/h", "1.2345/s")
    assert [shown(parse_rate(text)) for text in texts] == [
        "30/m",
        "150/m",
        "1/d",
        "1.5/d",
        "10.123/h",
        "1.2/d",
        "1.2345/s",
    ]
    assert shown(1e-8) == "0.000864/d"
