"""Ages and moments on the command line: ``90s``, ``12h``, ``30d``; ``2026-11-30T02:15:00+01:00``."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import click

from batchproc.setting_types import parse_age


class Age(click.ParamType[timedelta]):
    """A duration of up to a hundred years."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            return timedelta(seconds=parse_age(value))
        except ValueError as error:
            self.fail(f"{value!r} {error}.", param, ctx)


class Moment(click.ParamType[datetime]):
    """A time as ISO 8601 has it; local without an offset."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return datetime.fromisoformat(value).astimezone()
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time: write it as 2026-11-30T02:15, or with an offset.", param, ctx)
