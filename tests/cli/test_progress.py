"""The line that a person sees while a run goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from batchproc.cli import main
from batchproc.cli.run.progress import ProgressLine
from batchproc.core.errors import EnvironmentFault
from batchproc.engine.counts import Counts
from batchproc.engine.run_report import Begun
from batchproc.ops.run_ahead import RunLook, Silent
from batchproc.queue.inspection_run import Due, Retries
from tests.engine.running import HANDLERS, bench_on
from tests.waiting import wait_until

Look = Callable[[], RunLook]


def ahead(running: int, waiting: int, later: int = 0, soon: float | None = None, left: float | None = None) -> RunLook:
    return RunLook(Due(waiting, running), Retries(later, soon), left)


def unreachable() -> RunLook:
    raise EnvironmentFault("the database is gone", "start it")


def line_of(
    look: RunLook | Look,
    counts: Counts | None = None,
    seconds: tuple[float, ...] = (0.0, 10.0),
    *,
    stopping: bool = False,
) -> str:
    """What is shown at the last of the seconds; at the first nothing had been done."""
    asked: Look = look if callable(look) else lambda: look
    progress = ProgressLine(lambda _: asked, lambda: stopping)
    for second in seconds[:-1]:
        progress._line(second, Counts(), asked)
    return progress._line(seconds[-1], counts or Counts(), asked)


def test_it_says_what_was_done_what_runs_and_what_waits() -> None:
    assert line_of(ahead(1, 0)) == "0 done, 1 running, 0 wait"
    assert line_of(ahead(2, 40), Counts(completed=20)) == "20 done, 2.0/s, 2 running, 40 wait"
    followed = line_of(ahead(2, 40, left=40.0), Counts(completed=30))
    assert followed == "30 done, 3.0/s, 2 running, 40 wait, about 40 s left"
    assert line_of(RunLook(None, None, None), Counts(completed=20)) == "20 done, 2.0/s", "too many to be counted"
    assert line_of(unreachable, Counts(completed=20)) == "20 done, 2.0/s"


def test_jobs_are_counted_as_the_summary_counts_them_not_their_attempts() -> None:
    counts = Counts(claimed=18, completed=12, discarded=3, retried=3)
    assert line_of(ahead(1, 0), counts) == "12 done, 3 discarded, 1.5/s, 1 running, 0 wait"
    assert line_of(ahead(0, 0), Counts(retried=3)) == "0 done, 0 running, 0 wait"
    assert line_of(ahead(1, 0), Counts(completed=5, cancelled=5)) == "5 done, 5 cancelled, 1.0/s, 1 running, 0 wait"


def test_a_run_that_only_waits_says_what_for() -> None:
    counts = Counts(completed=12, discarded=1, retried=4)
    begun = (0.0, 1.0)
    assert line_of(ahead(0, 0, 2, 11.2), counts, begun) == "12 done, 1 discarded, 2 to be tried again, the next in 12 s"
    assert line_of(ahead(0, 0, 1, 0.0), counts, begun) == "12 done, 1 discarded, 1 to be tried again, in 1 s"
    assert line_of(ahead(0, 0, 1), counts, begun) == "12 done, 1 discarded, 1 to be tried again", "not by this run"
    working = "12 done, 1 discarded, 1 running, 3 wait, 2 to be tried again, the next in 5 s"
    assert line_of(ahead(1, 3, 2, 5.0), counts, begun) == working


def test_a_run_that_waits_for_a_dead_node_or_for_languages_says_so() -> None:
    counts, begun = Counts(completed=12, discarded=1), (0.0, 1.0)

    def told(due: Due, later: Retries | None = None, **waits: Any) -> str:
        return line_of(RunLook(due, later or Retries(0, None), None, **waits), counts, begun)

    silent = Silent(2, 1, gone=False, seconds=22.4)
    assert told(Due(0, 2), silent=silent) == "12 done, 1 discarded, 2 of a node silent so far, taken back in up to 23 s"
    gone = Silent(3, 2, gone=True, seconds=6.1)
    assert told(Due(0, 0), silent=gone) == "12 done, 1 discarded, 3 of nodes gone, taken back in up to 7 s"
    assert told(Due(0, 0), silent=gone._replace(seconds=0.0)).endswith("3 of nodes gone, being taken back")
    both = told(Due(0, 0), Retries(1, 4.2), silent=Silent(3, 2, gone=True, seconds=6.1))
    assert both == "12 done, 1 discarded, 3 of nodes gone, taken back in up to 7 s, a retry in 5 s"
    lacking = told(Due(1, 0), unserved=8.2)
    assert lacking == "12 done, 1 discarded, 1 waits for languages that no node has, given up in 9 s"


def test_numbers_are_read_by_thousands() -> None:
    for look in (
        ahead(1105, 2105),
        ahead(0, 0, 3105, 20.0),
        RunLook(Due(4105, 0), None, None, unserved=8.0),
        RunLook(Due(0, 5105), None, None, silent=Silent(5105, 2, gone=True, seconds=0.0)),
    ):
        for counts in (Counts(completed=1105, discarded=2105), Counts(completed=1105, cancelled=2105)):
            told = line_of(look, counts, (0.0, 1.0))
            assert not re.search(r"\d{4}", told), told
            assert len(re.findall(r"\d,105", told)) >= 2, told


def test_no_rate_is_told_of_what_nobody_has_seen() -> None:
    assert line_of(ahead(2, 40), Counts(completed=20), (0.0, 1.0)) == "20 done, 2 running, 40 wait"
    assert line_of(ahead(1, 0), Counts(completed=5)) == "5 done, 1 running, 0 wait", "no half a job a second"
    minute = tuple(range(0, 62, 2))
    assert line_of(ahead(1, 0), Counts(completed=5), minute) == "5 done, 5.0/min, 1 running, 0 wait"


def test_where_the_line_is_too_long_what_matters_least_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(completed=1_000_000, discarded=12_345)
    long = ahead(1000, 1_000_000, 1000, 40.0, 43_500.0)
    wide = line_of(long, counts)
    assert wide == "1,000,000 done, 12,345 discarded, 1,000,000 wait, a retry in 40 s"
    assert cell_len(wide) < 80
    few = line_of(ahead(2, 40, 2, 40.0, 40.0), Counts(completed=12, discarded=1), (0.0, 10.0))
    assert few == "12 done, 1 discarded, 2 running, 40 wait, 2 to be tried again, the next in 40 s"
    unhurried = line_of(ahead(1000, 1_000_000, left=43_500.0), counts)
    assert unhurried == "1,000,000 done, 12,345 discarded, 1,000 running, 1,000,000 wait"
    monkeypatch.setattr("batchproc.cli.run.progress.terminal_width", lambda: 40)
    assert line_of(long, counts) == "1,000,000 done, a retry in 40 s", "what the run waits for goes last"
    assert line_of(ahead(1000, 1_000_000, left=43_500.0), counts) == "1,000,000 done, 1,000,000 wait"
    monkeypatch.setattr("batchproc.cli.run.progress.terminal_width", lambda: 300)
    assert line_of(long, counts) == wide, "at most as long as on a usual terminal"


def test_a_stop_is_told_of() -> None:
    counts = Counts(completed=12, discarded=1, cancelled=1)
    told = line_of(ahead(1, 0), counts, stopping=True)
    assert told == "12 done, 1 discarded, stopping: running jobs may end (Ctrl-C: at once)"


@pytest.mark.parametrize("quiet", [False, True])
def test_it_is_there_from_the_first_moment_unless_it_is_to_be_quiet(
    quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("batchproc.cli.run.progress.sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("batchproc.cli.run.progress.click.echo", lambda text, **_: said.append(text))
    monkeypatch.setattr("batchproc.cli.run.progress._EVERY", 0.1)
    with ProgressLine(lambda _: lambda: ahead(0, 1), quiet=quiet) as line:
        assert bool(said) is not quiet
        line.begin(Begun(1, frozenset(), Counts()))
        if not quiet:
            assert "starting" in said[0]
            wait_until(lambda: any("1 wait" in text for text in said), 10, "the first count")
    assert quiet is (said == [])


def test_the_flag_q_reaches_it(monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    told: list[bool] = []
    made = ProgressLine

    def watched(*arguments: Any, **options: Any) -> ProgressLine:
        told.append(options["quiet"])
        return made(*arguments, **options)

    monkeypatch.setattr("batchproc.cli.run.run.ProgressLine", watched)
    for words in (["-q"], []):
        assert main.run(["--database", database_url, *words, "run"]) == 0
    assert told == [True, False]


def test_a_run_shows_the_retry_that_it_waits_for_and_each_job_once(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text(f"handlers: [{HANDLERS}]\nkinds: {{t_fail_once: {{base: 3s, cap: 3s}}}}\n")
    bench = bench_on(database_url)
    acme, paused = bench.tenant("acme"), bench.tenant("paused")
    for kind in ("t_fail_once", "t_quick", "t_declared"):
        bench.enqueue(acme, kind)
    bench.enqueue(paused, "t_quick")
    bench.rows("update batchproc.tenants set paused = true where slug = 'paused' returning 1")
    bench.connection.close()
    shown: list[str] = []
    monkeypatch.setattr("batchproc.cli.run.progress.sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("batchproc.cli.run.progress.show_over", shown.append)
    monkeypatch.setattr("batchproc.cli.run.progress._EVERY", 0.1)
    assert main.run(["--database", database_url, "--conf", str(conf), "run", "--workers", "2"]) == 1
    waited = [line for line in shown if re.fullmatch(r"1 done, 1 discarded, 1 to be tried again, in \d s", line)]
    assert waited, shown  # and no word of the paused tenant's job
    assert {line.partition(" done")[0] for line in shown} <= {"0", "1", "2"}, "each job once"
