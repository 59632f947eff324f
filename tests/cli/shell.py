"""The command line on one database, as a person or a script calls it."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from batchproc.cli import main
from tests.handlers.running_job import Conn


class Shell:
    """Runs commands in this process.

    Args:
        codes: exit codes that ``json`` and ``lines`` allow.
        before: what is common to all its commands, and comes before their arguments.
    """

    def __init__(
        self,
        url: str,
        capture: pytest.CaptureFixture[str],
        codes: Collection[int] = (0,),
        before: Sequence[str | Path] = (),
    ) -> None:
        self.url = url
        self._capture = capture
        self._codes = codes
        self._before = before
        self.out = self.err = ""

    def run(self, *arguments: str | int | Path) -> int:
        """The exit code; what was printed is in ``out`` and ``err``."""
        self._capture.readouterr()
        code = main.run(["--database", self.url, *map(str, (*self._before, *arguments))])
        self.out, self.err = self._capture.readouterr()
        return code

    def said(self, *arguments: str | int | Path) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        return self.run(*arguments), self.out, self.err

    def lines(self, *arguments: str | int | Path) -> list[str]:
        assert self.run(*arguments) in self._codes, self.err
        return self.out.splitlines()

    def json(self, *arguments: str | int | Path) -> Any:
        assert self.run(*arguments, "--json") in self._codes, self.err
        assert self.out.count("\n") == 1
        return json.loads(self.out)


class ArchiveShell(Shell):
    """Beside its commands there is a connection to their database."""

    def __init__(
        self, url: str, connection: Conn, capture: pytest.CaptureFixture[str], before: Sequence[str | Path] = ()
    ) -> None:
        super().__init__(url, capture, before=before)
        self.connection = connection

    def sql(self, statement: str) -> list[Any]:
        cursor = self.connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []
