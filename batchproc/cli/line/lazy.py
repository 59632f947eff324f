"""A group of commands each of which is imported when it is named, not when the group is.

All of them together take several times as long to import as one: what completes a word in a shell, or asks for the
help of one command, does not wait for the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, cast

import click
from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class Listed:
    """A command that a list of commands can tell of without importing it.

    Args:
        place: where it is, ``module:name``.
        summary: the first paragraph of its help.
    """

    place: str
    summary: str


class LazyCommands(Mapping[str, click.Command]):
    """Commands by name, each imported when it is first got; the names and summaries are known before.

    Args:
        listed: the commands, by name.
        finish: what adds to a command, by its name, what it lacks; called once for each, when it is imported.
    """

    def __init__(self, listed: Mapping[str, Listed], finish: Callable[[str, click.Command], None]) -> None:
        self._listed = dict(listed)
        self._finish = finish
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    def __contains__(self, name: object) -> bool:
        return name in self._listed

    def summaries(self) -> dict[str, click.Command]:
        """By name what stands for the command in a list of them: its summary, and nothing that it does."""
        return {name: click.Command(name, help=listed.summary) for name, listed in sorted(self._listed.items())}

    def _load(self, name: str) -> click.Command:
        module, _, attribute = self._listed[name].place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        self._finish(name, command)
        return command


class LazyGroup(click.Group):
    """A group of `LazyCommands`, whose help and whose completion of names import none of them."""

    def __init__(self, *, commands: LazyCommands, **options: Any) -> None:
        # click would have one that it can add to, which only its add_command does.
        super().__init__(commands=cast("MutableMapping[str, click.Command]", commands), **options)
        self._lazy = commands

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click passes it
        cmd_name: str,
    ) -> click.Command | None:
        """The command, imported. A KeyError of its module is not taken for a name that there is not."""
        if cmd_name not in self._lazy:
            return None
        return self._lazy[cmd_name]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As any group does, of the summaries."""
        click.Group(commands=self._lazy.summaries()).format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """As any group does, of the summaries."""
        names = [
            CompletionItem(name, help=command.get_short_help_str())
            for name, command in self._lazy.summaries().items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)
