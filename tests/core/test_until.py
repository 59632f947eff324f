"""The next time that a local clock shows, over changes of summer time; against a search by the second."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.until import next_time, parse_clock

BERLIN = ZoneInfo("Europe/Berlin")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")  # its clock is set by half an hour
ZONES = [BERLIN, LORD_HOWE, ZoneInfo("UTC"), ZoneInfo("Asia/Kathmandu"), ZoneInfo("America/New_York")]


def shown_in(zone: ZoneInfo, moment: float) -> datetime:
    return datetime.fromtimestamp(moment, zone).replace(tzinfo=None)


def found(at: str, begun: str, zone: ZoneInfo = BERLIN, fold: int = 0) -> tuple[str, float]:
    """What the clock shows then, and how many hours that is from the begin, a local time."""
    now = datetime.fromisoformat(begun).replace(tzinfo=zone, fold=fold).timestamp()
    moment = next_time(parse_clock(at), now, lambda seconds: shown_in(zone, seconds))
    return f"{shown_in(zone, moment):%m-%d %H:%M}", round((moment - now) / 3600, 6)


@pytest.mark.parametrize(
    ("at", "begun", "shown", "hours"),
    [
        ("06:00", "2026-11-30T22:00", "12-01 06:00", 8),
        ("06:00", "2026-11-30T05:59:30", "11-30 06:00", 30 / 3600),
        ("06:00", "2026-11-30T06:00", "12-01 06:00", 24),
        ("06:00", "2026-11-30T06:00:01", "12-01 06:00", 24 - 1 / 3600),
        ("0:00", "2026-12-31T23:00", "01-01 00:00", 1),
        # Clocks go from 02:00 to 03:00 on March 29th, and from 03:00 to 02:00 on October 25th.
        ("06:00", "2026-03-28T22:00", "03-29 06:00", 7),
        ("06:00", "2026-10-24T22:00", "10-25 06:00", 9),
        ("02:30", "2026-03-28T22:00", "03-29 03:00", 4),
        ("02:30", "2026-10-24T22:00", "10-25 02:30", 4.5),
        ("03:00", "2026-10-24T22:00", "10-25 03:00", 6),
    ],
)
def test_the_next_time_that_the_clock_shows(at: str, begun: str, shown: str, hours: float) -> None:
    assert found(at, begun) == (shown, round(hours, 6))


def test_a_run_that_begins_between_the_two_gets_the_second() -> None:
    assert found("02:30", "2026-10-25T02:45") == ("10-25 02:30", 0.75)
    assert found("02:30", "2026-10-25T02:45", fold=1) == ("10-26 02:30", 23.75)


def test_a_clock_that_is_set_by_half_an_hour() -> None:
    """From 02:00 to 02:30 on October 4th."""
    assert found("02:15", "2026-10-04T01:00", LORD_HOWE) == ("10-04 02:30", 1.0)
    assert found("06:00", "2026-10-04T01:00", LORD_HOWE) == ("10-04 06:00", 4.5)


@given(
    zone=st.sampled_from(ZONES),
    now=st.integers(1_700_000_000, 1_900_000_000),
    at=st.times().map(lambda given: time(given.hour, given.minute)),
)
def test_never_early_and_never_past_a_time_that_was_shown(zone: ZoneInfo, now: int, at: time) -> None:
    moment = next_time(at, now, lambda seconds: shown_in(zone, seconds))
    assert now < moment <= now + 26 * 3600
    minutes = range((now // 60 + 1) * 60, int(moment), 60)
    assert all(shown_in(zone, minute).time() != at for minute in minutes), "it was shown before"
    after, before = shown_in(zone, moment), shown_in(zone, moment - 60)
    assert after.time() == at or before < datetime.combine(after.date(), at) < after, "it is shown, or jumped over"
    assert after - before <= timedelta(minutes=61)


@pytest.mark.parametrize("text", ["", "6", "24:00", "06:60", "6:0", "06:00:00", "six", "-06:00", "٠٦:٠٠"])
def test_what_is_no_time_of_day(text: str) -> None:
    with pytest.raises(ValueError, match="06:00"):
        parse_clock(text)
