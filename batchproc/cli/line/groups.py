"""Command groups: what is in them, and those that take ``--json`` anywhere behind their name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import click

from batchproc.cli.line.global_options import FLAG_OPTIONS


class JsonGroup(click.Group):
    """``jobs --json list`` is ``jobs list --json``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        leading = list(takewhile(lambda word: word == "--json" or word in FLAG_OPTIONS, args))
        name, *rest = args[len(leading) :] or [""]
        if "--json" in leading and name and not name.startswith("-"):
            args = [*(word for word in leading if word != "--json"), name, "--json", *rest]
        return super().parse_args(ctx, args)


def tree(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """The command at ``path`` and all below it, each with its own path: ``jobs``, ``jobs list``."""
    yield path, command
    for name, inner in command.commands.items() if isinstance(command, click.Group) else ():
        yield from tree(f"{path} {name}", inner)
