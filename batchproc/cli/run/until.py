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
        or_a_length = "" if value.strip().startswith("+") else ", or a length such as +7h"
        raise click.BadParameter(f"{error}{or_a_length}") from None
