"""Command groups that take ``--json`` anywhere behind their name."""

from __future__ import annotations

import click


class JsonGroup(click.Group):
    """``jobs --json list`` is ``jobs list --json``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        leading = 0
        while leading < len(args) and args[leading] == "--json":
            leading += 1
        if leading and leading < len(args) and not args[leading].startswith("-"):
            args = [args[leading], "--json", *args[leading + 1 :]]
        return super().parse_args(ctx, args)
