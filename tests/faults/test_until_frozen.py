"""A run with a window is gone at its end, also when the database stands still and answers nobody."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import psycopg
import pytest

from batchproc.cli.shared.app import App
from batchproc.core.errors import EnvironmentFault
from batchproc.database import Unreachable
from batchproc.engine.joining import Joining
from batchproc.engine.last_turns import LastTurns
from batchproc.engine.node import Node, RunOptions
from batchproc.engine.sessions import NodeSessions
from batchproc.engine.window import LEAVING, Window
from batchproc.queue.node_store import NodeFacts, NodeStore
from tests.engine.running import alive, settings
from tests.faults.command import started_run
from tests.faults.faulty_server import HANDLERS, FaultyBench
from tests.faults.outages import begun
from tests.waiting import wait_until

pytest_plugins = ["tests.faults.faulty_fixtures"]

PATIENT = {"lease": 30.0, "poll_interval": 0.2}
"""As the settings come: a node waits for half a minute for one answer."""
A_MOMENT = 4.0
"""Seconds beyond the end that a machine may take which is busy with other tests; it would be 30 and more."""


def window_of(seconds: float) -> Window:
    return Window(time.monotonic() + seconds, time.monotonic, seconds, "then")


class Clock:
    """Runs as the real one does, and can be set."""

    def __init__(self) -> None:
        self._ahead = -time.monotonic()

    def __call__(self) -> float:
        return self._ahead + time.monotonic()

    def set(self, seconds: float) -> None:
        self._ahead = seconds - time.monotonic()


def runs(bench: FaultyBench, window: Window, **options: Any) -> None:
    chosen = settings(handlers=[HANDLERS], dispatch=PATIENT, pool={"shutdown_grace": 2.0})
    node = Node(chosen, bench.url, bench.url, lambda *_: None)
    node.run(RunOptions(workers=1, window=window, **options))


def assert_taken_back(bench: FaultyBench, job: int, folder: Path) -> None:
    """By the next run, when the lease of the node before has ended; and completed."""
    bench.reconnect()
    assert bench.state(job) == "running"
    bench.connection.execute("update batchproc.nodes set lease_until = clock_timestamp()")
    (folder / "go").touch()
    bench.run(RunOptions(workers=1), handlers=[HANDLERS], dispatch={"lease": 1.0})
    assert bench.endings(job) == [("failed", "lease_expired"), ("completed", None)]


@pytest.fixture
def thawed(faulty_bench: FaultyBench) -> Iterator[contextlib.ExitStack]:
    """Where a freeze is entered that is to last until the end of the test."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("exclusive", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_database_that_stands_still_in_the_last_seconds_keeps_no_run(
    faulty_bench: FaultyBench, thawed: contextlib.ExitStack, tmp_path: Path, exclusive: bool
) -> None:
    job = faulty_bench.enqueue(faulty_bench.tenant("acme"), "d_until", {"folder": str(tmp_path)})
    clock = Clock()
    window = Window(3600.0, clock, 3600.0, "then")

    def freeze() -> None:
        wait_until(lambda: begun(tmp_path) == 1, 20, "it is busy")
        clock.set(3600.0 - 4.0)
        thawed.enter_context(faulty_bench.server.frozen())

    with ThreadPoolExecutor(1) as threads:
        freezing = threads.submit(freeze)
        with pytest.raises(EnvironmentFault, match="taken back by the next run"):
            runs(faulty_bench, window, exclusive=exclusive)
        assert -A_MOMENT < window.left < LEAVING
        freezing.result()
    [worker] = [int(line) for file in tmp_path.glob("begun-*") for line in file.read_text().split()]
    assert not alive(worker)
    thawed.close()
    assert_taken_back(faulty_bench, job, tmp_path)


def test_a_database_that_stands_still_before_the_node_has_joined_keeps_no_run(
    faulty_bench: FaultyBench, thawed: contextlib.ExitStack
) -> None:
    sessions = NodeSessions(settings(dispatch=PATIENT), faulty_bench.url, faulty_bench.url, lambda: None)
    sessions.window = window_of(LEAVING + 1.0)
    store = NodeStore("batchproc", uuid4(), {})
    joining = Joining(
        settings(),
        sessions.for_ticks,
        None,
        store,
        lambda node_id: NodeFacts(node_id, "here", 7, 1, (), (), "", ""),
        LastTurns(),
    )
    thawed.enter_context(faulty_bench.server.frozen())
    with pytest.raises(EnvironmentFault, match="away until the window of this run ended, then: nothing was claimed"):
        joining.join(RunOptions(workers=1, window=sessions.window))
    assert -A_MOMENT < sessions.window.left <= LEAVING


def test_nobody_connects_beyond_the_end_for_longer_than_a_moment(
    faulty_bench: FaultyBench, thawed: contextlib.ExitStack
) -> None:
    """Though libpq knows no less than two seconds."""
    sessions = NodeSessions(settings(), faulty_bench.url, faulty_bench.url, lambda: None)
    sessions.window = window_of(0.0)
    for connect in (sessions.for_ticks, sessions.direct, sessions.for_lease):
        connect().close()  # one that answers has the time to be told
    thawed.enter_context(faulty_bench.server.frozen())
    for connect in (sessions.for_ticks, sessions.direct, sessions.for_lease):
        since = time.monotonic()
        with pytest.raises(Unreachable, match="connection timeout expired"):
            connect()
        assert time.monotonic() - since < 1.5


def test_the_first_look_of_the_command_is_no_longer_than_the_window(
    faulty_bench: FaultyBench, thawed: contextlib.ExitStack
) -> None:
    window = window_of(LEAVING + 1.0)
    app = App(lambda _: settings(database={"url": faulty_bench.url}), {})
    with app.connect(window) as connection:
        thawed.enter_context(faulty_bench.server.frozen())
        with pytest.raises(psycopg.OperationalError, match="did not answer"):
            connection.execute("select 1")
    with pytest.raises(Unreachable, match="connection timeout expired"):
        app.connect(window)
    assert window.left > 0


def end_told_in(text: str) -> float:
    """When the window ends, in seconds since 1970, as the command tells it."""
    found = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?(?= [A-Z+-])", text)
    assert found, text
    return datetime.fromisoformat(found[0]).timestamp()


@pytest.mark.long
@pytest.mark.parametrize("frozen_at", ["before it joins", "at work"])
def test_the_command_is_gone_in_time(
    faulty_bench: FaultyBench, thawed: contextlib.ExitStack, tmp_path: Path, frozen_at: str
) -> None:
    job = faulty_bench.enqueue(faulty_bench.tenant("acme"), "d_until", {"folder": str(tmp_path)})
    log = tmp_path / "log"
    sections: dict[str, Any] = {"dispatch": PATIENT, "pool": {"shutdown_grace": 3.0}, "logging": {"file": str(log)}}
    with started_run(faulty_bench, "--until", "+15s", "--workers", "1", handlers=[HANDLERS], **sections) as run:
        if frozen_at == "before it joins":
            guardian = psutil.Process(run.guardian_pid)
            wait_until(guardian.children, 30, "its first look is over")
        else:
            wait_until(lambda: begun(tmp_path) == 1, 30, "it is busy")
        thawed.enter_context(faulty_bench.server.frozen())
        assert run.wait(60) == 3
        ended = time.time()
        _, err = run.output()
        thawed.close()
    assert len(err.splitlines()) == 1
    assert err.startswith("batchproc: ")
    if frozen_at == "at work":
        assert_taken_back(faulty_bench, job, tmp_path)
        told = re.search(r"this run is gone at .*", log.read_text())
        assert told
        err = told[0]
    assert ended < end_told_in(err) + A_MOMENT
