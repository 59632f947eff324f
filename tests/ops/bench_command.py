"""A bench by its command line, as the documentation tells it: what the command prints, and what the bench found."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar
from unittest import mock

from batchproc.cli import main

Found = TypeVar("Found")


def by_command(bench: Callable[..., Found], database_url: str, *arguments: str, **hooks: Callable[..., None]) -> Found:
    """Runs ``batchproc bench ARGUMENTS`` in this process.

    Args:
        bench: the function behind the command, which is called with what the command line says.
        hooks: parameters of it, such as ``tell``, by which the test hears what the command hears.

    Returns:
        What the function returned.
    """
    found: list[Found] = []

    def heard(*positional: Any, **named: Any) -> Found:
        also = {name: _both(named[name], hook) for name, hook in hooks.items()}
        found.append(bench(*positional, **{**named, **also}))
        return found[-1]

    with mock.patch.object(sys.modules[bench.__module__], bench.__name__, heard):
        assert main.run(["--database", database_url, "bench", *arguments]) == 0
    [done] = found
    return done


def _both(first: Callable[..., None], second: Callable[..., None]) -> Callable[..., None]:
    def call(*arguments: Any) -> None:
        first(*arguments)
        second(*arguments)

    return call
