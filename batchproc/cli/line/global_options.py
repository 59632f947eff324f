"""What all commands share: it stands before the command on a line, and ``-v`` and ``-q`` behind it as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import click

FLAGS: Mapping[str, tuple[tuple[str, str], str]] = MappingProxyType(
    {
        "verbose": (("-v", "--verbose"), "Log more; of run the log is shown."),
        "quiet": (("-q", "--quiet"), "Log warnings and errors only; no progress."),
    }
)
"""By the name of what they set: their options, and what these mean."""
FLAG_OPTIONS = frozenset(option for options, _ in FLAGS.values() for option in options)
ONLY_BEFORE: Mapping[str, str] = MappingProxyType({"--conf": "FILE", "--database": "URL"})
"""Options that a command may have a use of its own for, and their values."""


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The options that all commands share.

    Args:
        conf: the settings file.
        database: the database's URL instead of the configured one.
        verbose: log more.
        quiet: log warnings and errors only.
        own_process: whether this process does nothing else, and may be forked.
    """

    conf: Path | None
    database: str | None
    verbose: bool
    quiet: bool
    own_process: bool


def accept_behind(command: click.Command, *, shown: bool) -> None:
    """Lets ``-v`` and ``-q`` stand behind a command, unless it hands on what it does not know itself.

    Args:
        shown: whether the command's help has them; that of ``batchproc`` has them in any case.
    """
    if command.ignore_unknown_options or command.context_settings.get("ignore_unknown_options"):
        return
    for options, meaning in FLAGS.values():
        command.params.append(
            click.Option(options, is_flag=True, expose_value=False, callback=_note, help=meaning, hidden=not shown)
        )


def _note(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    root = ctx.find_root()
    if value and isinstance(root.obj, GlobalOptions):
        given = root.obj
        root.obj = replace(
            given, verbose=given.verbose or param.name == "verbose", quiet=given.quiet or param.name == "quiet"
        )
