"""What stands before the command on a line, for whatever is made of it when the command needs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
