"""Whoever runs the archive: the real commands, one after another, with one settings file and no terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.command import SURVIVAL_SECONDS, environment_of, started
from tests.faults.left_behind import TEST_VARIABLE, marked
from tests.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command came to, and when its process was gone, in seconds since 1970."""

    code: int
    out: str
    err: str
    gone_at: float

    @property
    def json(self) -> Any:
        """What it printed with ``--json``: one object on one line."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


class Desk:
    """Args:
    url: of the database.
    conf: where the settings file is to be.
    settings: the sections of that file.
    """

    def __init__(self, url: str, conf: Path, settings: Mapping[str, Any]) -> None:
        conf.write_text(json.dumps(settings))  # JSON is YAML
        self._words = [sys.executable, "-P", "-m", "batchproc", "--conf", str(conf), "--database", url]

    def does(self, *words: str, code: int = 0) -> Ended:
        """A command that ends by itself, with that exit code."""
        done = subprocess.run(
            [*self._words, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment_of(),
            timeout=120,
        )
        ended = Ended(done.returncode, done.stdout, done.stderr, time.time())
        assert ended.code == code, ended
        return ended

    def runs(self, *flags: str, deadline_seconds: float) -> Ended:
        """The command ``run``; nothing of it is left when it has ended."""
        with started([*self._words, "run", *flags]) as run:
            code = run.wait(deadline_seconds)
            gone_at = time.time()
            assert_nothing_runs()
            return Ended(code, *run.output(), gone_at)


def assert_nothing_runs() -> None:
    """Of all that the commands of this test have started; workers inherit the mark, too."""
    mark = os.environ[TEST_VARIABLE]
    wait_until(lambda: not marked(mark), SURVIVAL_SECONDS, "no process left")
