"""One chaos run, from the start of the nodes to their end: what is killed when, and what is left."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from uuid import uuid4

from batchproc.engine.pool import processes
from batchproc.engine.pool.processes import Stat
from tests.faults.chaos_database import ChaosDatabase
from tests.faults.chaos_ledger import Killed
from tests.faults.chaos_network import Network
from tests.faults.chaos_nodes import Folders, Node, worker_of
from tests.faults.left_behind import marked

KILLS_PER_NODE = 4
"""Every so many kills one hits a node, the others a worker."""

_LOOK_SECONDS = 0.02
_TELL_SECONDS = 5.0
_GONE_SECONDS = 2.0
_MOST_FAILURES = 5


@dataclass(frozen=True)
class Options:
    """What is to be run. ``deadline`` in seconds.

    ``backends`` and ``cuts``: how many database sessions are ended, and connections lost in a commit, besides.
    """

    nodes: int
    jobs: int
    kills: int
    workers: int
    backends: int
    cuts: int
    seed: int
    deadline: float


class Chaos:
    """The nodes, what was killed, and everything that was found to be wrong (``problems``)."""

    def __init__(self, database: ChaosDatabase, network: Network, folders: Folders, options: Options) -> None:
        self._database = database
        self._network = network
        self._folders = folders
        self._options = options
        self._chance = random.Random(options.seed)
        self._mark = str(uuid4())
        self._nodes: list[Node] = []
        self._groups: set[int] = set()
        self._completed = 0
        self._ended_backends = 0
        self._failures = 0
        self.killed = Killed(set(), set())
        self.kills_of_nodes = self.kills_of_workers = 0
        self.problems: list[str] = []

    @property
    def kills(self) -> int:
        return self.kills_of_nodes + self.kills_of_workers

    def run(self) -> None:
        """Runs until all jobs have completed, all kills are done and the nodes have ended by themselves."""
        give_up = time.monotonic() + self._options.deadline
        tell = time.monotonic() + _TELL_SECONDS
        self._nodes = [self._new_node(number) for number in range(self._options.nodes)]
        while not self._finished():
            if time.monotonic() > give_up or self._failures >= _MOST_FAILURES:
                self.problems.append("given up: nodes fail, or the deadline is over")
                return
            self._completed = self._database.completed()
            self._keep_nodes()
            self._make_trouble()
            if time.monotonic() > tell:
                tell += _TELL_SECONDS
                say(f"{self._completed} of {self._options.jobs} jobs, {self.kills} of {self._options.kills} kills")
            self._bury_orphans()
            time.sleep(_LOOK_SECONDS)
        self._let_next_run_tidy()

    def left(self) -> list[int]:
        """The processes that are left: by mark, by their parent, by group and session; a moment is given to die."""
        give_up = time.monotonic() + _GONE_SECONDS
        while (left := self._left()) and time.monotonic() < give_up:
            time.sleep(_LOOK_SECONDS)
        return left

    def close(self) -> None:
        """Ends whatever is left."""
        for node in self._nodes:
            node.stop()
        give_up = time.monotonic() + 10
        # Until they are buried, too: they would come to whoever started this.
        while processes.descendants(os.getpid()) and time.monotonic() < give_up:
            for pid in self._left():
                found = processes.identify(pid)
                if found is not None:
                    processes.send(found, signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)

    # -- the nodes

    def _new_node(self, number: int) -> Node:
        return Node(number, self._folders, self._mark)

    def _work_is_left(self) -> bool:
        return self._completed < self._options.jobs or self.kills < self._options.kills

    def _finished(self) -> bool:
        return not self._work_is_left() and all(node.ended() is not None for node in self._nodes)

    def _keep_nodes(self) -> None:
        """Takes note of how nodes ended, and starts them again while work is left."""
        for position, node in enumerate(self._nodes):
            code = node.ended()
            if code is None:
                continue
            if code != 0 and not node.was_killed:
                self.problems.append(f"node {node.number} ended by itself with exit code {code}")
                self._failures += 1
                node.was_killed = True  # told once
            if self._work_is_left():
                self._nodes[position] = self._new_node(node.number)

    def _let_next_run_tidy(self) -> None:
        """The folder of a guardian and node that were killed at once is removed by whoever starts next."""
        if any(self._folders.temp.iterdir()):
            self._nodes.append(self._new_node(0))
            code = self._nodes[-1].wait()
            if code != 0:
                self.problems.append(f"the next run ended with exit code {code}")

    # -- the trouble

    def _make_trouble(self) -> None:
        """As many kills as are due by now."""
        while self._due(self.kills, self._options.kills) and self._kill():
            pass
        while self._due(self._ended_backends, self._options.backends) and self._database.end_backend(self._chance):
            self._ended_backends += 1
        if self._due(self._network.cuts, self._options.cuts):
            self._network.cut_next(self._chance)

    def _due(self, done: int, wanted: int) -> bool:
        return done < wanted and self._completed * (wanted + 1) >= self._options.jobs * (done + 1)

    def _kill(self) -> bool:
        """One kill; False when there is nothing to kill at this moment."""
        node = self._chance.choice(self._nodes)
        members = node.members()
        for found in members:
            self._groups |= {found.group, found.session}
        if (self.kills + 1) % KILLS_PER_NODE == 0:
            done = node.kill(self._chance, self.killed)
            self.kills_of_nodes += done
        else:
            done = self._kill_worker(members)
            self.kills_of_workers += done
        return done

    def _kill_worker(self, members: list[Stat]) -> bool:
        victim = worker_of(members, self._chance)
        if victim is None:
            return False
        process, marker = victim
        self.killed.workers.add(marker)
        return processes.send(process, signal.SIGKILL)

    # -- what is left

    def _left(self) -> list[int]:
        self._bury_orphans()
        by_group = [
            pid
            for pid in processes.all_pids()
            if (found := processes.read_stat(pid)) and found.alive and {found.group, found.session} & self._groups
        ]
        below = [found.process.pid for found in processes.descendants(os.getpid()) if found.alive]
        return sorted({*marked(self._mark), *below, *by_group})

    def _bury_orphans(self) -> None:
        """What killed nodes leave comes to this process; the nodes themselves are waited for by those who hold them."""
        ours = {node.pid for node in self._nodes}
        for found in processes.descendants(os.getpid()):
            if not found.alive and found.parent == os.getpid() and found.process.pid not in ours:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(found.process.pid, os.WNOHANG)


def say(text: str) -> None:
    """Progress and problems go to standard error: standard output has the one line."""
    sys.stderr.write(f"chaos: {text}\n")
