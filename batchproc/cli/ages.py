"""Ages on the command line: ``90s``, ``12h``, ``30d``."""

from __future__ import annotations

from datetime import timedelta
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
