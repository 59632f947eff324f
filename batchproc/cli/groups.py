"""Command groups: what is in them, and those that take ``--json`` anywhere behind their name."""

from __future__ import annotations

from collections.abc import Iterator

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


def tree(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """The command at ``path`` and all below it, each with its own path: ``jobs``, ``jobs list``."""
    yield path, command
    for name, inner in command.commands.items() if isinstance(command, click.Group) else ():
        yield from tree(f"{path} {name}", inner)
