"""Validating what is to be enqueued."""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any

import pytest

from batchproc.core.errors import UsageError
from batchproc.ops.enqueueing import LINE_BYTES, parse_lines, parse_time, storable_args

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


class Endless(io.RawIOBase):
    """A line that never ends; counts what is read of it."""

    given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.given += len(buffer)
        assert self.given < 4 * LINE_BYTES, "more is read than a line may have"
        buffer[:] = b"x" * len(buffer)
        return len(buffer)


def test_a_line_without_an_end_is_refused_once_it_is_too_long() -> None:
    with pytest.raises(UsageError, match="line 1 has more than"):
        next(parse_lines(io.BufferedReader(Endless())))


def test_lines_are_numbered_and_empty_ones_passed_over() -> None:
    found = list(parse_lines(io.BytesIO(b'\n{"priority": 1}\n \r\n{"priority": 2}')))
    assert [(number, line.priority) for number, line in found] == [(2, 1), (4, 2)]


@pytest.mark.parametrize("args", [{"a": "x\0"}, {"a\0": 1}, {"a": [{"b": "\ud800"}]}, {"a": "\udcff"}], ids=repr)
def test_args_with_what_no_database_holds_are_refused_and_not_changed(args: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="args with a NUL character or half a surrogate pair"):
        storable_args(args)


def test_args_are_stored_as_they_are() -> None:
    args = {"text": "ä\n\x01😀", "list": [1, 2.5, None, True]}
    assert storable_args(args) == args
