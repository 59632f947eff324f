"""The nodes of a chaos run: started as an operator starts them, killed at random, started again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchproc.engine.pool import processes
from batchproc.engine.pool.process_tree import MARKER_VARIABLE
from batchproc.engine.pool.processes import ProcessId, Stat
from tests.faults.chaos_handlers import ENDLESS, LEDGER_VARIABLE
from tests.faults.chaos_ledger import Killed
from tests.faults.left_behind import TEST_VARIABLE

REPOSITORY = Path(__file__).parents[2]
LEASE = 2.0
_MARKER = f"{MARKER_VARIABLE}=".encode()


@dataclass(frozen=True)
class Folders:
    """Where a run keeps what its nodes need and write."""

    root: Path

    @property
    def ledger(self) -> Path:
        return self.root / "ledger"

    @property
    def temp(self) -> Path:
        """TMPDIR of the nodes: empty in the end."""
        return self.root / "tmp"

    @property
    def conf(self) -> Path:
        return self.root / "conf.yaml"

    def log(self, number: int) -> Path:
        return self.root / f"node-{number}.log"

    def make(self, database_url: str, workers: int) -> None:
        for folder in (self.ledger, self.temp):
            folder.mkdir(mode=0o700)
        self.conf.touch(mode=0o600)
        self.conf.write_text(json.dumps(_conf(database_url, workers)))  # JSON is YAML


class Node:
    """One command ``batchproc run``, with whatever is below it."""

    def __init__(self, number: int, folders: Folders, mark: str) -> None:
        self.number = number
        self.was_killed = False
        log = folders.log(number).open("ab")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "batchproc", "--conf", os.fspath(folders.conf), "run"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folders.root,
                env=_environment(folders, mark),
                start_new_session=True,
                preexec_fn=_die_with_the_command,
            )
        finally:
            log.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self) -> int | None:
        """The exit code, None while it runs; buries it."""
        return self._process.poll()

    def members(self) -> list[Stat]:
        """The command and all that is below it and alive."""
        top = processes.read_stat(self.pid)
        if self.ended() is not None or top is None:
            return []
        return [found for found in (top, *processes.descendants(self.pid)) if found.alive]

    def kill(self, chance: random.Random, killed: Killed) -> bool:
        """Kills the guardian, the node or both at once; False when it has ended."""
        members = self.members()
        parents = [found for found in members if found.process.pid in _parents_of_workers(members)]
        victims = [found.process for found in members[:1] + parents]
        if not victims:
            return False
        killed.nodes.update(marker.partition(":")[0] for found in members if (marker := _marker(found)))
        if len(victims) > 1:
            victims = chance.choice([victims[:1], victims[1:], victims])
        sent = [processes.send(victim, signal.SIGKILL) for victim in victims]
        self.was_killed = self.was_killed or any(sent)
        return any(sent)

    def wait(self) -> int:
        """The exit code of a run that has nothing to do; negative for the signal that killed it."""
        return self._process.wait(60)

    def stop(self) -> None:
        """Kills the command and everything below it."""
        for found in self.members():
            processes.send(found.process, signal.SIGKILL)
        self._process.wait()


def _die_with_the_command() -> None:
    """If the chaos command itself is killed, its nodes do not work on without it."""
    processes.prctl(processes.PR_SET_PDEATHSIG, signal.SIGKILL)


def worker_of(members: list[Stat], chance: random.Random) -> tuple[ProcessId, str] | None:
    """A random worker among these processes, with its slot marker."""
    workers = [
        (found.process, marker)
        for found in members
        if (marker := _marker(found)) and not marker.endswith("-") and found.session == found.process.pid
    ]
    return chance.choice(workers) if workers else None


def _parents_of_workers(members: list[Stat]) -> set[int]:
    """The node is what has the forkserver, whose place for a marker is still free, as its child."""
    return {found.parent for found in members if (_marker(found) or "").endswith("-")} - {members[0].process.pid}


def _marker(found: Stat) -> str | None:
    for entry in processes.environment(found.process.pid) or []:
        if entry.startswith(_MARKER):
            return entry.removeprefix(_MARKER).decode()
    return None


def _conf(database_url: str, workers: int) -> dict[str, Any]:
    # So many killed workers are no broken environment.
    dispatch = {"lease": LEASE, "poll_interval": 0.2, "drain_wait": 5, "brake": "off"}
    return {
        "database": {"url": database_url},
        "handlers": ["tests.faults.chaos_handlers"],
        "pool": {"workers": workers, "shutdown_grace": 5},
        "dispatch": dispatch,
        "retry": {"max_node_losses": ENDLESS},
        "logging": {"level": "info"},
    }


def _environment(folders: Folders, mark: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BATCHPROC_")}
    return inherited | {
        "PYTHONPATH": os.pathsep.join(filter(None, [os.fspath(REPOSITORY), os.environ.get("PYTHONPATH")])),
        "TMPDIR": os.fspath(folders.temp),
        TEST_VARIABLE: mark,
        LEDGER_VARIABLE: os.fspath(folders.ledger),
    }
