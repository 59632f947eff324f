"""The command line on one database, as a person or a script calls it."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from batchproc.cli import main


class Shell:
    """Runs commands in this process.

    Args:
        codes: exit codes that ``json`` allows.
    """

    def __init__(self, url: str, capture: pytest.CaptureFixture[str], codes: Collection[int] = (0,)) -> None:
        self._url = url
        self._capture = capture
        self._codes = codes
        self.out = self.err = ""

    def run(self, *arguments: str | int | Path) -> int:
        """The exit code; what was printed is in ``out`` and ``err``."""
        self._capture.readouterr()
        code = main.run(["--database", self._url, *map(str, arguments)])
        self.out, self.err = self._capture.readouterr()
        return code

    def json(self, *arguments: str | int | Path) -> Any:
        assert self.run(*arguments, "--json") in self._codes, self.err
        assert self.out.count("\n") == 1
        return json.loads(self.out)
