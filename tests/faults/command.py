"""The real command line as a subprocess: a guardian, its node, the node's forkserver and workers, each to be found.

    with started_run(bench, "--workers", "2", dispatch={"lease": 2.0}) as run:
        run.kill_node()
        assert run.wait() == 3

In the end it is killed, if it still runs, and all of it must be gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from batchproc.engine.pool import process_tree, processes
from batchproc.engine.pool.process_tree import MARKER_VARIABLE
from batchproc.engine.pool.processes import ProcessId, Stat
from tests.engine.running import HANDLERS, Bench
from tests.waiting import wait_until

START_SECONDS = 30.0
"""How long a start may take on a machine that is busy with other tests."""

SURVIVAL_SECONDS = 1.0
"""How long anything below a node may live after the node or its guardian was killed."""

NODE_TITLE = b"batchproc node: "

_MARKER = f"{MARKER_VARIABLE}=".encode()


@dataclass
class Run:
    """One command ``run``. ``process`` is the guardian; the others are its descendants.

    What ``*_pid`` and ``*_pids`` find is waited for, up to ``START_SECONDS``.
    """

    process: subprocess.Popen[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]
    seen: set[ProcessId] = field(default_factory=set)

    @property
    def guardian_pid(self) -> int:
        return self.process.pid

    @property
    def node_pid(self) -> int:
        return wait_until(self._node, START_SECONDS, "the node starts")

    @property
    def forkserver_pid(self) -> int:
        return wait_until(self._forkserver, START_SECONDS, "the forkserver starts")

    @property
    def tracker_pid(self) -> int:
        """Of multiprocessing's resource tracker."""
        return wait_until(self._tracker, START_SECONDS, "the resource tracker starts")

    def worker_pids(self, at_least: int = 1) -> list[int]:
        """The workers of the slots that have one, once there are so many."""
        return wait_until(lambda: _if_enough(self._workers(), at_least), START_SECONDS, f"{at_least} workers start")

    def everything(self) -> frozenset[ProcessId]:
        """All that is alive below the guardian now; remembered, for ``assert_gone``."""
        now = frozenset(found.process for found in processes.descendants(self.guardian_pid) if found.alive)
        self.seen |= now
        return now

    def send(self, number: signal.Signals, *pids: int) -> None:
        """Sends it to these processes, or to the guardian."""
        for pid in pids or (self.guardian_pid,):
            os.kill(pid, number)

    def kill_node(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Kills the node alone; remembers first what is below the guardian."""
        self._kill([self.node_pid], number)

    def kill_guardian(self) -> None:
        self._kill([self.guardian_pid])

    def kill_both(self) -> None:
        """Guardian and node at once: neither can do anything between the two."""
        node = self.node_pid
        for pid in (self.guardian_pid, node):
            os.kill(pid, signal.SIGSTOP)
        self._kill([self.guardian_pid, node])

    def stop(self, deadline_seconds: float = 20.0) -> int:
        """SIGTERM to the guardian; the exit code (negative: a signal)."""
        self.send(signal.SIGTERM)
        return self.wait(deadline_seconds)

    def wait(self, deadline_seconds: float = 20.0) -> int:
        """The exit code of the command (negative: a signal)."""
        return self.process.wait(deadline_seconds)

    def assert_gone(self, *pids: int, within: float = SURVIVAL_SECONDS) -> None:
        """Nothing that was ever seen below the guardian is alive, nor any of these pids."""
        also = {found for pid in pids if (found := processes.identify(pid))}
        assert_gone(self.seen | also, within)

    def output(self) -> tuple[str, str]:
        """What it has printed on stdout and stderr so far."""
        return _text(self.stdout), _text(self.stderr)

    def _kill(self, pids: Sequence[int], number: signal.Signals = signal.SIGKILL) -> None:
        self.everything()
        for pid in pids:
            os.kill(pid, number)

    def _below(self) -> list[Stat]:
        assert self.process.poll() is None, f"it has ended with {self.process.returncode}: {self.output()}"
        return [found for found in processes.descendants(self.guardian_pid) if found.alive]

    def _node(self) -> int | None:
        # A fork of the guardian, which says what it is first of all.
        children = [found for found in self._below() if found.parent == self.guardian_pid]
        titles = {found.process.pid: _command_line(found.process.pid) for found in children}
        return next((pid for pid, title in titles.items() if title.startswith(NODE_TITLE)), None)

    def _forkserver(self) -> int | None:
        # The place for a slot's marker is still free in its environment.
        node = self._node()
        children = [found for found in self._below() if found.parent == node]
        return next((found.process.pid for found in children if _marker(found.process.pid).endswith("-")), None)

    def _tracker(self) -> int | None:
        node = self._node()
        children = [found.process.pid for found in self._below() if found.parent == node]
        return next((pid for pid in children if b"resource_tracker" in _command_line(pid)), None)

    def _workers(self) -> list[int]:
        forkserver = self._forkserver()
        children = [found.process.pid for found in self._below() if found.parent == forkserver]
        return [pid for pid in children if (marker := _marker(pid)) and not marker.endswith("-")]


@contextlib.contextmanager
def started_run(
    bench: Bench,
    *flags: str,
    handlers: Iterable[str] = (HANDLERS,),
    environment: Mapping[str, str | None] | None = None,
    before: Sequence[str] = (),
    **settings: Any,
) -> Iterator[Run]:
    """Starts ``python -m batchproc --conf ... --database URL run FLAGS`` on the bench's database.

    Args:
        flags: of ``run``, such as ``--workers 2 --forever``.
        handlers: modules with kinds.
        environment: laid over this process's own; None removes a variable.
        before: a command that is to execute it, such as ``nohup``; what it becomes must be the guardian.
        settings: sections, laid over short waits (lease 2 s).
    """
    with (
        command_line(bench, *flags, handlers=handlers, **settings) as words,
        started([*before, *words], environment) as run,
    ):
        yield run


@contextlib.contextmanager
def started(command: Sequence[str], environment: Mapping[str, str | None] | None = None) -> Iterator[Run]:
    """As ``started_run``, with a command line of the caller's."""
    with contextlib.ExitStack() as stack:
        stdout, stderr = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        others = {child.process for child in processes.descendants(os.getpid())}
        process = stack.enter_context(_popen(command, stdout, stderr, environment_of(environment)))
        run = Run(process, stdout, stderr)
        try:
            yield run
        finally:
            run.everything()
            process.kill()
            process.wait()
        run.assert_gone(within=5.0)
        bury_adopted(others)


@contextlib.contextmanager
def command_line(
    bench: Bench, *flags: str, handlers: Iterable[str] = (HANDLERS,), command: str = "run", **settings: Any
) -> Iterator[list[str]]:
    """The words of that command, for a test that starts it itself; their settings file exists meanwhile."""
    sections: dict[str, Any] = {
        "dispatch": {"poll_interval": 0.2, "lease": 2.0, "drain_wait": 5.0},
        "pool": {"shutdown_grace": 5.0},
    }
    for name, section in settings.items():
        sections[name] = {**sections.get(name, {}), **section} if isinstance(section, dict) else section
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as conf:
        json.dump({"handlers": list(handlers), **sections}, conf)  # JSON is YAML
        conf.flush()
        yield [sys.executable, "-P", "-m", "batchproc", "--conf", conf.name, "--database", bench.url, command, *flags]


def environment_of(changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """This process's environment for a command, which imports what this process can; None removes a variable."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BATCHPROC_POOL")}
    changed = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **(changes or {})}
    return {name: value for name, value in {**inherited, **changed}.items() if value is not None}


def await_end_of_leases(bench: Bench, deadline_seconds: float = 30.0) -> None:
    """After a node was killed: until then its jobs are its own, and another run does not wait for them."""
    living = "select node_id from batchproc.nodes where lease_until > clock_timestamp()"
    wait_until(lambda: not bench.rows(living), deadline_seconds, "no node has a lease")


def assert_gone(found: Iterable[ProcessId], within: float = SURVIVAL_SECONDS) -> None:
    """None of these processes is alive ``within`` so many seconds from now."""
    everything = frozenset(found)
    try:
        wait_until(lambda: not living(everything), within)
    except AssertionError:
        left = [_described(process) for process in living(everything)]
        raise AssertionError(f"alive after {within:g} s: {left}") from None


def living(found: Iterable[ProcessId]) -> list[ProcessId]:
    return [process for process in found if processes.is_alive(process)]


def pids_in(path: Path, at_least: int = 1) -> list[int] | None:
    """Process ids that handlers have written into a file, a line each; None until there are so many."""
    lines = path.read_text().split("\n") if path.exists() else []
    return _if_enough([int(line) for line in lines[:-1]], at_least)  # the last line may be half written


def _popen(
    command: Sequence[str], stdout: IO[bytes], stderr: IO[bytes], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    before = signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            start_new_session=True,  # a signal to its group is not for pytest
        )
    finally:
        signal.signal(signal.SIGHUP, before)


def bury_adopted(others: Collection[ProcessId] = ()) -> None:
    """What a killed guardian has left comes to this process, which may be a subreaper, and not to init.

    ``others`` are children that somebody here waits for.
    """
    for child in processes.descendants(os.getpid()):
        if child.parent == os.getpid() and child.process not in others and not child.alive:
            process_tree.reap(child.process.pid)


def _if_enough(found: list[int], at_least: int) -> list[int] | None:
    return found if len(found) >= at_least else None


def _command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _described(process: ProcessId) -> str:
    return f"{process.pid} {_command_line(process.pid)[:200].decode(errors='replace')}"


def _marker(pid: int) -> str:
    for entry in processes.environment(pid) or []:
        if entry.startswith(_MARKER):
            return entry.removeprefix(_MARKER).decode()
    return ""


def _text(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), 1 << 20, 0).decode(errors="replace")
