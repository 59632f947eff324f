"""A run at a real terminal, started by a real shell with job control: Ctrl-C, Ctrl-Z and fg, and the window closed."""

from __future__ import annotations

import os
import pty
import select
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from batchproc.engine.pool import processes
from tests.engine.running import Bench
from tests.faults import parent_handlers
from tests.faults.command import START_SECONDS, assert_gone, bury_adopted, command_line, environment_of, pids_in
from tests.waiting import wait_until

pytestmark = pytest.mark.long

HANDLERS = (parent_handlers.MODULE, "tests.engine.job_handlers")
CTRL_C, CTRL_Z = "\x03", "\x1a"
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """A terminal window with an interactive shell in it."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        shell = [sys.executable, "-I", "-c", _TAKE_TERMINAL, "bash", "--norc", "--noprofile", "-i"]
        self.shell = subprocess.Popen(
            shell,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env=environment_of({"PS1": "$ ", "HISTFILE": None}),
        )
        os.close(theirs)
        self._shown = bytearray()
        self._closed = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def shown(self) -> str:
        return self._shown.decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def run(self, command: Sequence[str]) -> None:
        """Types a command that tells its exit code in the end."""
        self.type(f'{shlex.join(command)}; echo "ended" with $?.\n')

    def close(self) -> None:
        """The window is closed: whoever has the terminal gets SIGHUP."""
        if not self._closed:
            self._closed = True
            self._reader.join()
            os.close(self._ours)
        self.shell.wait(10)

    def _read(self) -> None:
        while not self._closed:
            if select.select([self._ours], [], [], 0.05)[0]:
                try:
                    self._shown += os.read(self._ours, 4096)
                except OSError:  # nobody has the other end any more
                    return


class Run:
    """A run in that terminal, with two busy jobs and two that wait."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench, self._folder = bench, folder
        self.gate, self.heard = folder / "gate", folder / "heard"
        self.jobs: list[int] = []

    def enqueue(self, lingers: float | None) -> None:
        args = {name: str(self._folder / name) for name in ("pids", "gate", "heard")} | {"lingers": lingers}
        tenant = self.bench.tenant("acme")
        self.jobs = [self.bench.enqueue(tenant, "parent_busy", args) for _ in range(4)]

    def family(self) -> list[processes.ProcessId]:
        count = 2 * parent_handlers.FAMILY
        pids = wait_until(lambda: pids_in(self._folder / "pids", count), START_SECONDS, "both jobs run")
        return [found for pid in pids if (found := processes.identify(pid))]

    def parents(self) -> list[int]:
        """The pids of node and guardian."""
        [(node_pid,)] = self.bench.rows("select pid from batchproc.nodes")
        node = processes.read_stat(node_pid)
        assert node is not None
        return [node_pid, node.parent]

    def states(self) -> list[str]:
        return [self.bench.job(job_id)["state"] for job_id in self.jobs]


@pytest.fixture
def terminal(bench: Bench) -> Iterator[Terminal]:
    made = Terminal()
    try:
        wait_until(lambda: "$ " in made.shown, START_SECONDS, "the shell is ready")
        yield made
    finally:
        made.close()
        bury_adopted()


@pytest.fixture
def run(bench: Bench, tmp_path: Path) -> Run:
    return Run(bench, tmp_path)


@pytest.fixture
def command(bench: Bench) -> Iterator[list[str]]:
    settings: dict[str, Any] = {"pool": {"shutdown_grace": 600.0}, "dispatch": {"lease": 30.0}}
    with command_line(bench, "--workers", "2", handlers=HANDLERS, **settings) as words:
        yield words


def test_ctrl_c_lets_running_jobs_end(terminal: Terminal, run: Run, command: list[str]) -> None:
    run.enqueue(lingers=0.7)
    terminal.run(command)
    family = run.family()

    terminal.type(CTRL_C)

    wait_until(lambda: "ended with 0." in terminal.shown, 20, terminal.shown)
    assert_gone(family)
    assert run.states() == ["completed", "completed", "available", "available"]


def test_ctrl_c_twice_interrupts_them(terminal: Terminal, run: Run, command: list[str]) -> None:
    run.enqueue(lingers=None)
    terminal.run(command)
    family = run.family()

    terminal.type(CTRL_C)
    wait_until(run.heard.exists)
    wait_until(lambda: "stopping: running jobs may end" in terminal.shown, what="it is told that it was heard")
    terminal.type(CTRL_C)

    wait_until(lambda: "ended with 0." in terminal.shown, 20, terminal.shown)
    assert_gone(family)
    assert run.states() == ["available"] * 4


def test_ctrl_z_stops_guardian_and_node_and_fg_continues_them(terminal: Terminal, run: Run, command: list[str]) -> None:
    run.enqueue(lingers=None)
    terminal.type(shlex.join(command) + "\n")
    run.family()
    parents = run.parents()
    wait_until(lambda: "0 done, " in terminal.shown, what="progress is shown")

    terminal.type(CTRL_Z)
    wait_until(lambda: all(_stopped(pid) for pid in parents), what="both are stopped")
    wait_until(lambda: "Stopped" in terminal.shown, what="the shell has noticed")
    terminal.type('fg; echo "ended" with $?.\n')
    wait_until(lambda: not any(_stopped(pid) for pid in parents), what="both go on")
    run.gate.touch()

    wait_until(lambda: "ended with 0." in terminal.shown, 20, terminal.shown)
    assert run.states() == ["completed"] * 4


def test_a_closed_terminal_is_one_signal(terminal: Terminal, run: Run, command: list[str]) -> None:
    run.enqueue(lingers=0.7)
    terminal.run(command)
    family = run.family()
    parents = [found for pid in run.parents() if (found := processes.identify(pid))]

    terminal.close()

    assert_gone(parents, within=10)
    assert_gone(family)
    assert run.states() == ["completed", "completed", "available", "available"]


def _stopped(pid: int) -> bool:
    found = processes.read_stat(pid)
    return found is not None and found.state == "T"
