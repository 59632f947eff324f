"""Validating what is to be enqueued."""

from __future__ import annotations

from datetime import datetime

import pytest

from batchproc.core.errors import UsageError
from batchproc.ops.enqueueing import parse_time

NOW = datetime(2026, 11, 29, 20, 30).astimezone()


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("22:00", datetime(2026, 11, 29, 22, 0)),
        ("6:00", datetime(2026, 11, 30, 6, 0)),
        ("20:30", datetime(2026, 11, 30, 20, 30)),
        ("2026-12-31T22:00", datetime(2026, 12, 31, 22, 0)),
        ("2026-12-31", datetime(2026, 12, 31)),
    ],
)
def test_a_time_of_day_is_the_next_one_and_anything_else_as_written(text: str, local: datetime) -> None:
    assert parse_time(text, NOW) == local.astimezone()


def test_an_offset_is_kept() -> None:
    assert parse_time("2026-12-31T22:00:00+00:00", NOW).isoformat().startswith("20")
    assert parse_time("2026-12-31T22:00:00+05:00", NOW) == datetime.fromisoformat("2026-12-31T17:00:00+00:00")


@pytest.mark.parametrize("text", ["soon", "", "25:00", "22:60", "9999-99-99", "0001-01-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        parse_time(text, NOW)
