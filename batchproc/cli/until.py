"""The value of ``--until``."""

from __future__ import annotations

import click

from batchproc.engine.window import Window, window_until


def parse_until(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Window | None:
    """``06:00`` or ``+7h``, as the window from now on; for click, as a callback."""
    if value is None:
        return None
    try:
        return window_until(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}; give a time of day such as 06:00, or a length such as +7h") from None
