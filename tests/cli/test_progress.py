"""The line that a person sees while a run goes on."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from batchproc.cli.progress import ProgressLine
from batchproc.core.outcome import Completed, ErrorClass, Failed
from batchproc.queue.inspection import Due
from tests.waiting import wait_until

CLAIM: Any = None
FAILED = Failed(ErrorClass.PERMANENT, "encrypted")


def line_of(
    monkeypatch: pytest.MonkeyPatch,
    due: Due,
    done: int = 0,
    failed: int = 0,
    before: int = 0,
    seconds: tuple[float, ...] = (0.0, 10.0),
) -> str:
    """What is shown last: at the first of the seconds nothing was done, at the last so much."""
    monkeypatch.setattr("batchproc.cli.progress.time.monotonic", lambda: 100.0)
    waiting = [Due(before, 0)] * (len(seconds) - 1) + [due]
    progress = ProgressLine(lambda: waiting.pop(0))
    lines = [progress._line(100.0 + second) for second in seconds[:-1]]
    for number in range(done):
        progress.observe(CLAIM, FAILED if number < failed else Completed(), 1.0)
    lines.append(progress._line(100.0 + seconds[-1]))
    return lines[-1]


def test_it_says_what_runs_and_that_those_that_failed_are_among_those_done(monkeypatch: pytest.MonkeyPatch) -> None:
    told = partial(line_of, monkeypatch)
    assert told(Due(0, 1)) == "0 done, 1 running, 0 wait"
    assert told(Due(40, 2), done=20) == "20 done, 2.0/s, 2 running, 40 wait"
    followed = told(Due(40, 2), done=30, before=50)
    assert followed == "30 done, 3.0/s, 2 running, 40 wait, about 40 s left", "each that ended brought two others"
    assert told(Due(0, 1), done=15, failed=2) == "15 done (2 of them failed), 1.5/s, 1 running, 0 wait"


def test_no_rate_is_told_of_what_nobody_has_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    told = partial(line_of, monkeypatch)
    assert told(Due(40, 2), done=20, before=60, seconds=(0.0, 1.0)) == "20 done, 2 running, 40 wait"
    assert told(Due(0, 1), done=5) == "5 done, 1 running, 0 wait", "no half a job a second"
    minute = tuple(range(0, 62, 2))
    assert told(Due(0, 1), done=5, seconds=minute) == "5 done, 5.0/min, 1 running, 0 wait"


@pytest.mark.parametrize("quiet", [False, True])
def test_it_is_there_from_the_first_moment_unless_it_is_to_be_quiet(
    quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("batchproc.cli.progress.sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("batchproc.cli.progress.click.echo", lambda text, **_: said.append(text))
    with ProgressLine(lambda: Due(1, 0), quiet=quiet):
        assert bool(said) is not quiet
        if not quiet:
            assert "starting" in said[0]
            wait_until(lambda: any("1 wait" in text for text in said), 10, "the first count")
    assert quiet is (said == [])


def test_the_flag_q_reaches_it(monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    from batchproc.cli import main

    told: list[bool] = []
    made = ProgressLine

    def watched(*arguments: Any, **options: Any) -> ProgressLine:
        told.append(options["quiet"])
        return made(*arguments, **options)

    monkeypatch.setattr("batchproc.cli.run.ProgressLine", watched)
    for words in (["-q"], []):
        assert main.run(["--database", database_url, *words, "run"]) == 0
    assert told == [True, False]
