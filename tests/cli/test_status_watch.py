"""``status --watch`` at a real terminal: what it shows, its keys, and how it leaves the terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli import watched_handlers
from tests.cli.test_status import bench, working
from tests.engine.running import Bench, bench_on
from tests.faults.command import command_line, environment_of, started_run
from tests.queue.helpers import enqueue
from tests.waiting import wait_until

__all__ = ["bench"]

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
HOME = "\x1b[H"
LEAVES_SCREEN = "\x1b[?1049l"


class Screen:
    """A terminal of 80 by 24 with one command in it."""

    def __init__(self, command: list[str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._theirs = theirs
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment_of({"TERM": "xterm-256color"}),
            # As a shell starts it; whoever runs the tests in the background has made them ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self._written = bytearray()
        self._closed = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def written(self) -> str:
        return self._written.decode(errors="replace")

    @property
    def drawn(self) -> list[str]:
        """The last whole screen, line by line; empty before there is one."""
        frames = self.written.split(HOME)
        return [ESCAPES.sub("", line).rstrip() for line in frames[-2].splitlines()] if len(frames) > 2 else []

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def shows(self, text: str, within: float = 12.0) -> None:
        try:
            wait_until(lambda: any(text in line for line in self.drawn), within)
        except AssertionError:
            raise AssertionError(
                f"no {text} on {self.drawn}, ended with {self.process.poll()}: {self.written[-500:]}"
            ) from None

    def terminal_is_as_before(self) -> bool:
        return termios.tcgetattr(self._theirs) == self.before

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._closed = True
        self._reader.join()
        os.close(self._theirs)
        os.close(self._ours)

    def _read(self) -> None:
        while not self._closed:
            if select.select([self._ours], [], [], 0.02)[0]:
                self._written += os.read(self._ours, 65536)


@pytest.fixture
def watching(bench: Bench) -> Iterator[Callable[..., Screen]]:
    with contextlib.ExitStack() as stack:

        def start(*flags: str) -> Screen:
            words = stack.enter_context(command_line(bench, "--watch", "--interval", "0.2", *flags, command="status"))
            screen = Screen(words)
            stack.callback(screen.close)
            return screen

        yield start


def test_watching_shows_the_slots_moves_on_and_ends_with_q(bench: Bench, watching: Callable[..., Screen]) -> None:
    node, job_id = working(bench)
    screen = watching()
    screen.shows("17 of 40")
    assert any("1 node, 1 of 2 slots busy" in line for line in screen.drawn)
    claim_id = bench.rows("select claim_id from batchproc.processing_jobs where job_id = %s", job_id)[0][0]
    node.write_progress(bench.connection, [(job_id, claim_id, 18, 40)])
    screen.shows("18 of 40")
    assert not screen.terminal_is_as_before(), "keys come without Enter"
    screen.type("q")
    assert screen.process.wait(10) == 0
    assert screen.terminal_is_as_before()
    wait_until(lambda: LEAVES_SCREEN in screen.written, what="the screen of before is back")
    assert "Traceback" not in screen.written


def test_a_held_screen_stays_and_goes_on(bench: Bench, watching: Callable[..., Screen]) -> None:
    working(bench)
    screen = watching()
    screen.shows("1 running")
    screen.type(" ")
    screen.shows("space goes on")
    enqueue(bench.connection, 1, "other")
    screen.type(" ")
    screen.shows("space holds the screen")
    screen.shows("1 waiting")
    screen.type("q")
    assert screen.process.wait(10) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 0)])
def test_a_signal_leaves_the_terminal_as_it_was(
    bench: Bench, watching: Callable[..., Screen], number: signal.Signals, code: int
) -> None:
    working(bench)
    screen = watching()
    screen.shows("17 of 40")
    screen.process.send_signal(number)
    assert screen.process.wait(10) == code
    assert screen.terminal_is_as_before()
    wait_until(lambda: LEAVES_SCREEN in screen.written, what="the screen of before is back")


@pytest.mark.long
def test_a_database_that_goes_away_is_told_and_watched_again(bench: Bench, watching: Callable[..., Screen]) -> None:
    working(bench)
    [[name]] = bench.rows("select current_database()")
    with bench_on(bench.url.replace(name, "postgres")).connection as elsewhere:
        screen = watching()
        screen.shows("17 of 40")
        elsewhere.execute(f"alter database {name} allow_connections false".encode())
        bench.connection.close()
        elsewhere.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
        screen.shows("the database does not answer")
        assert any("17 of 40" in line for line in screen.drawn), "what was known last stays"
        elsewhere.execute(f"alter database {name} allow_connections true".encode())
        wait_until(lambda: not any("does not answer" in line for line in screen.drawn), 20, "it is back")
    screen.type("q")
    assert screen.process.wait(10) == 0


@pytest.mark.long
def test_a_real_run_is_watched_from_outside(bench: Bench, watching: Callable[..., Screen], tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = bench.enqueue(bench.tenant("acme"), "w_pages", {"gate": str(gate)})
    with started_run(bench, "--workers", "1", handlers=[watched_handlers.MODULE]) as run:
        screen = watching()
        screen.shows("MiB", 60)
        assert any(str(job_id) in line for line in screen.drawn)
        screen.shows("17 of 40")
        gate.touch()
        assert run.wait(30) == 0
    screen.shows("no node runs")
