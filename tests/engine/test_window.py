"""A run with a window is gone at its end: claims stop, handlers are asked to, the rest is interrupted."""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from batchproc.cli.run.summary import show_summary
from batchproc.cli.shared.app import App
from batchproc.core.outcome import Interrupted
from batchproc.database import connect
from batchproc.engine.counts import Counts
from batchproc.engine.node import RunOptions, RunReport
from batchproc.engine.stop import Stop
from batchproc.engine.window import LEAVING, Window, WindowWatch, patience, window_until
from batchproc.queue.nights import Kept
from tests.engine.running import Bench, settings
from tests.faults.command import started_run
from tests.waiting import wait_until

START = 15.0
"""Seconds that a node may take to start on a machine that is busy with other tests."""


def remember(bench: Bench, tenant: int, kind: str, attempts: int, seconds: float) -> None:
    """An earlier day on which jobs of the kind took that long each."""
    bench.connection.execute(
        "insert into batchproc.usage_daily (tenant_id, day, kind, attempts, worker_seconds)"
        " values (%s, current_date - 1, %s, %s, %s)",
        [tenant, kind, attempts, attempts * seconds],
    )


class Clock:
    """Stands still until a test sets it; ``when`` sets it once something has happened, and lets it run from there."""

    def __init__(self) -> None:
        self.now = 0.0
        self._runs_since: float | None = None

    def __call__(self) -> float:
        return self.now + (0.0 if self._runs_since is None else time.monotonic() - self._runs_since)

    @contextlib.contextmanager
    def when(self, condition: Callable[[], object], *, goes_to: float) -> Iterator[None]:
        def watch() -> None:
            wait_until(condition, 60)
            self.now, self._runs_since = goes_to, time.monotonic()

        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(watch)
            yield
            watching.result()


def test_what_heeds_the_stop_ends_and_what_does_not_is_interrupted(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    started = [tmp_path / "heeds", tmp_path / "deaf"]
    heeds = bench.enqueue(tenant, "t_until", {"file": str(tmp_path / "never"), "started": str(started[0])})
    deaf = bench.enqueue(tenant, "t_deaf", {"path": str(started[1])})
    waiting = [bench.enqueue(tenant, "t_until", {"file": str(tmp_path / "never")}) for _ in range(3)]
    clock = Clock()
    window = Window(3600.0, clock, 3600.0, "then")

    with clock.when(lambda: all(path.exists() for path in started), goes_to=3600.0 - LEAVING - 0.5):
        report = bench.run(RunOptions(workers=2, window=window), pool={"shutdown_grace": 4.0})

    assert [bench.job(job)["state"] for job in (heeds, deaf)] == ["completed", "available"]
    assert bench.job(deaf)["attempt"] == 0, "it costs no attempt"
    assert bench.states(waiting) == {"available": 3}
    assert (report.exit_code, report.stopped, report.window_ended) == (0, False, True)
    assert (report.left, report.left_by_kind) == (4, {"t_deaf": 1, "t_until": 3})
    assert report.nights_left == 4, "one was done, and of t_deaf nobody has seen how long it takes"
    assert report.too_long == {}
    assert bench.rows("select exit_code, counts ->> 'left' from batchproc.runs") == [(0, "4")]
    assert bench.rows("select count(*) from batchproc.nodes") == [(0,)]


def test_what_would_not_end_in_time_is_not_claimed_and_nobody_waits_for_it(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    remember(bench, tenant, "t_echo", 50, 7200.0)
    long = [bench.enqueue(tenant, "t_echo", {"word": "slow"}) for _ in range(3)]
    quick = [bench.enqueue(tenant, "t_quick") for _ in range(5)]
    window = window_until("+1h")

    report = bench.run(RunOptions(workers=1, window=window))

    assert window.left > 3400, "it does not wait for the end of its window"
    assert bench.states(quick) == {"completed": 5}
    assert bench.states(long) == {"available": 3}
    assert (report.window_ended, report.left_by_kind, report.nights_left) == (True, {"t_echo": 3}, None)
    assert report.too_long == {"t_echo": 7200.0}


def test_without_a_window_everything_is_claimed(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    remember(bench, tenant, "t_echo", 50, 7200.0)
    job = bench.enqueue(tenant, "t_echo", {"word": "slow"})

    report = bench.run(RunOptions(workers=1))

    assert bench.job(job)["state"] == "completed"
    assert (report.window_ended, report.left_by_kind, report.nights_left) == (False, {}, None)


def test_a_run_that_is_done_before_its_window_ends_does_not_tell_of_it(bench: Bench) -> None:
    bench.enqueue(bench.tenant("acme"), "t_quick")
    paused = bench.tenant("paused")
    waits = bench.enqueue(paused, "t_quick")
    bench.connection.execute("update batchproc.tenants set paused = true where tenant_id = %s", [paused])

    report = bench.run(RunOptions(workers=1, window=window_until("+1h")))

    assert (report.window_ended, report.left_by_kind, report.nights_left) == (False, {"t_quick": 1}, None)
    assert bench.job(waits)["state"] == "available"


def test_retries_after_the_window_are_not_waited_for(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_fail_once")
    kinds = {"t_fail_once": {"base": 3000.0, "cap": 3000.0}}
    window = window_until("+30s")

    report = bench.run(
        RunOptions(workers=1, window=window), kinds=kinds, dispatch={"drain_wait": 3600.0}, pool={"shutdown_grace": 2.0}
    )

    assert window.left > 10
    assert bench.job(job)["state"] == "scheduled"
    assert report.counts.retried == 1


def test_a_window_that_is_over_before_anything_began(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    remember(bench, tenant, "t_quick", 50, 0.1)
    job = bench.enqueue(tenant, "t_quick")

    report = bench.run(RunOptions(workers=1, window=window_until("+1s")))

    assert (report.exit_code, report.counts.claimed, report.window_ended, report.left) == (0, 0, True, 1)
    assert report.nights_left is None, "any number of such nights would do nothing"
    assert bench.job(job)["attempt"] == 0


def test_a_run_for_ever_goes_on_until_the_end_of_its_window(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.enqueue(bench.tenant("acme"), "t_quick")
    for slug in ("paused", "paused-too"):
        paused = bench.tenant(slug)
        bench.jobs.set_tenant(bench.connection, slug, paused=True)
        bench.enqueue(paused, "t_quick")
    monkeypatch.setattr("batchproc.queue.nights.MOST_KEPT", 1)
    done = "select from batchproc.processing_jobs where state = 'completed'"
    clock = Clock()

    with connect(bench.url) as other, clock.when(lambda: other.execute(done).fetchall(), goes_to=3599.0):
        options = RunOptions(workers=1, window=Window(3600.0, clock, 3600.0, "then"), forever=True)
        report = bench.run(options)

    assert (report.counts.completed, report.left) == (1, 2)
    assert not report.window_ended, "it was done before, and what is left had nothing of the window"
    assert (report.kept, report.kept_more) == ((Kept("paused", "paused", None, None, None, 1),), 1)


@pytest.mark.long
def test_the_command_is_gone_in_time_and_silent(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    deaf = bench.enqueue(tenant, "t_deaf", {"path": str(tmp_path / "deaf")})
    begun = time.monotonic()

    with started_run(bench, "--until", f"+{START:g}s", "--workers", "1", pool={"shutdown_grace": 3.0}) as run:
        assert run.wait(START + 10) == 0
        took = time.monotonic() - begun
        assert run.output() == ("", ""), "without a terminal nothing is said when all is well"

    assert took < START + 1.5, "the interpreter takes a moment before it looks at its clock"
    assert (tmp_path / "deaf").exists()
    assert (bench.job(deaf)["state"], bench.job(deaf)["attempt"]) == ("available", 0)


@pytest.mark.long
def test_the_command_is_gone_in_time_whoever_holds_its_metrics_up(bench: Bench, tmp_path: Path) -> None:
    bench.enqueue(bench.tenant("acme"), "t_deaf", {"path": str(tmp_path / "deaf")})
    textfile = tmp_path / "batchproc.prom"
    begun = time.monotonic()
    with (tmp_path / ".batchproc.prom.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        options = ("--until", f"+{START:g}s", "--workers", "1")
        metrics = {"textfile": str(textfile)}
        with started_run(bench, *options, pool={"shutdown_grace": 3.0}, metrics=metrics) as run:
            assert run.wait(START + 10) == 0
            took = time.monotonic() - begun
    assert (tmp_path / "deaf").exists()
    assert took < START + 1.5, "the interpreter takes a moment before it looks at its clock"


def test_a_summary_that_the_database_does_not_tell_in_time_goes_without_its_figures(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    app = App(lambda _: settings(database={"url": bench.url}), {})
    report = RunReport(7, Counts(), 12, 60.0, 1, window_ended=True)
    with bench.connection.transaction():
        bench.connection.execute("lock table batchproc.runs in access exclusive mode")
        for as_json in (False, True):
            window = Window(time.monotonic() + 1.0, time.monotonic, 1.0, "then")
            show_summary(app, report, as_json, quiet=True, more={}, window=window)
            assert time.monotonic() < window.end
    *text, line = capfd.readouterr().out.splitlines()
    assert "its window ended before 12 jobs could be done" in text[0]
    assert "batchproc report 7" in text[-1]
    assert json.loads(line)["run_id"] == 7


def test_what_comes_after_the_work_shares_what_is_left_of_the_window() -> None:
    clock = Clock()
    window = Window(10.0, clock, 10.0, "then")
    assert (patience(None, 30.0), patience(window, 30.0), patience(window, 2.0)) == (30.0, 5.0, 2.0)
    clock.now = 11.0
    assert 0 < patience(window, 30.0) < 0.5


# -- the window and the stop by themselves


def stop_in(clock: Clock, length: float, grace: float, begun: list[float]) -> Stop:
    watch = WindowWatch(Window(length, clock, length, "then"))
    return Stop(grace, lambda: begun.append(clock.now), watch)


def test_claims_end_the_grace_before_the_end_and_the_kill_comes_in_time() -> None:
    clock, begun = Clock(), list[float]()
    stop = stop_in(clock, 100.0, 30.0, begun)
    for clock.now in (0.0, 69.9):
        stop.heed()
        assert (stop.begun, begun) == (False, [])
        assert stop.seconds_left() == pytest.approx(70.0 - clock.now)
    clock.now = 70.0
    stop.heed()
    assert (stop.begun, stop.due, stop.for_window, stop.asked) == (True, False, True, False)
    assert stop.seconds_left() == pytest.approx(30.0 - LEAVING, abs=0.5)
    clock.now = 100.0 - LEAVING
    stop.heed()
    assert (stop.due, begun) == (True, [70.0])


def test_a_grace_of_nothing_still_leaves_the_time_to_leave() -> None:
    clock, begun = Clock(), list[float]()
    stop = stop_in(clock, 100.0, 0.0, begun)
    clock.now = 100.0 - LEAVING - 0.1
    stop.heed()
    assert not stop.begun
    clock.now = 100.0 - LEAVING
    stop.heed()
    assert stop.due


def test_a_signal_in_the_window_gives_no_more_time_than_the_window_has() -> None:
    clock, begun = Clock(), list[float]()
    stop = stop_in(clock, 100.0, 30.0, begun)
    clock.now = 65.0
    stop.ask()
    stop.heed()
    assert (stop.for_window, stop.asked) == (False, True)
    clock.now = 99.0
    stop.heed()
    assert stop.due, "though the grace of the signal is not over"
    assert begun == [65.0]


def test_a_second_signal_in_the_grace_of_the_window_is_at_once() -> None:
    clock, begun = Clock(), list[float]()
    stop = stop_in(clock, 100.0, 30.0, begun)
    clock.now = 75.0
    stop.heed()
    stop.ask()
    stop.heed()
    assert not stop.due, "one asks for what goes on already"
    stop.ask()
    stop.heed()
    assert stop.due


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("begun", "hours", "shown"),
    [
        ("2026-11-30T22:00", 8, "2026-12-01 06:00 CET"),
        ("2026-03-28T22:00", 7, "2026-03-29 06:00 CEST"),
        ("2026-10-24T22:00", 9, "2026-10-25 06:00 CET"),
    ],
)
def test_six_in_the_morning_of_the_local_clock(
    berlin: None, monkeypatch: pytest.MonkeyPatch, begun: str, hours: float, shown: str
) -> None:
    """Also in the nights in which the clocks are set."""
    now = datetime.fromisoformat(begun).replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    monkeypatch.setattr(time, "time", lambda: now)
    window = window_until("06:00")
    assert (window.length, window.left, window.shown) == (hours * 3600, hours * 3600, shown)


@pytest.mark.parametrize("text", ["+", "+7", "+0s", "+-1h", "+7x", "7h", "+400d", "6", ""])
def test_what_is_no_end_of_a_window(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        window_until(text)


def test_a_length_is_none_of_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    window = window_until("+1h30m")
    assert window.length == 5400
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert window.left == pytest.approx(5400, abs=5)


def test_interrupted_by_the_window_is_no_attempt_that_tells_how_long_jobs_take(bench: Bench, tmp_path: Path) -> None:
    begun = tmp_path / "deaf"
    bench.enqueue(bench.tenant("acme"), "t_deaf", {"path": str(begun)})
    clock = Clock()

    with clock.when(begun.exists, goes_to=3600.0 - LEAVING - 0.1):
        report = bench.run(RunOptions(workers=1, window=Window(3600.0, clock, 3600.0, "then")))

    assert [type(outcome) for _, outcome in bench.outcomes] == [Interrupted]
    assert (report.left_by_kind, report.nights_left) == ({"t_deaf": 1}, None)
