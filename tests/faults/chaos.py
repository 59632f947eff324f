"""``python -m tests.faults.chaos``: no-op jobs on several nodes while random nodes and workers are killed with SIGKILL.

Needs only what batchproc itself needs. Prints one line of JSON; exits 1 when anything is wrong, which is then told on
standard error. A killed node is started again at once. The kills are spread over the run by its progress: the k-th of
n comes when k of n+1 parts of the jobs have completed, whatever the speed. Every fourth hits a node (its guardian, its
node process or both at once; each costs a start and, at times, the wait for a lease to end), the others a worker.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from batchproc.engine.pool import processes
from tests.faults import chaos_ledger
from tests.faults.chaos_database import ChaosDatabase, database
from tests.faults.chaos_network import network
from tests.faults.chaos_nodes import Folders
from tests.faults.chaos_run import Chaos, Options, say

_SHOWN_PROBLEMS = 20


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit code."""
    options, server_url = _parsed(arguments)
    before = {number: signal.signal(number, _interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return run(options, server_url)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(options: Options, server_url: str | None) -> int:
    """One run on a database of its own, on that server or an embedded one; returns the exit code."""
    folders = Folders(Path(tempfile.mkdtemp(prefix="batchproc-chaos-", dir="/tmp")))
    try:
        with (
            database(server_url) as made,
            network(made.url, lossy=options.cuts > 0) as way,
            _orphans_come_here(),
        ):
            say(f"seed {options.seed}, database {made.name}")
            folders.make(way.url, options.workers)
            made.prepare(options.jobs)
            chaos = Chaos(made, way, folders, options)
            try:
                started = time.monotonic()
                chaos.run()
                counts = judge(chaos, options, made, folders, time.monotonic() - started)
            finally:
                chaos.close()
        print(json.dumps(counts), flush=True)  # noqa: T201 - the result
        if chaos.problems:
            _tell(chaos.problems, folders, options.nodes)
        return 1 if chaos.problems else 0
    finally:
        shutil.rmtree(folders.root, ignore_errors=True)


def judge(
    chaos: Chaos, options: Options, made: ChaosDatabase, folders: Folders, seconds: float
) -> dict[str, int | float]:
    """What is printed; adds to the run's problems what processes, tables, ledger and folders tell."""
    left = chaos.left()
    verdict = made.verdict()
    executions = chaos_ledger.read(folders.ledger)
    unexplained = chaos_ledger.unexplained(executions, made.attempts(), chaos.killed)
    lost = options.jobs - verdict.completed
    problems = chaos.problems
    problems += made.violations() + unexplained
    problems += [f"left in the temp folder: {path.name}" for path in folders.temp.iterdir()]
    if lost or verdict.jobs != options.jobs:
        problems.append(f"not all jobs have completed: {verdict}")
    if verdict.settled_twice or verdict.settles != verdict.attempts:
        problems.append(f"claims were not settled once each: {verdict}")
    if left:
        problems.append(f"processes are left: {left}")
    return {
        "jobs": verdict.jobs,
        "completed": verdict.completed,
        "lost": lost,
        "settled_twice": verdict.settled_twice,
        "executions": len(executions),
        "kills": chaos.kills,
        "processes_left": len(left),
        "seconds": round(seconds, 1),
        "kills_of_nodes": chaos.kills_of_nodes,
        "kills_of_workers": chaos.kills_of_workers,
        "unexplained_executions": len(unexplained),
    }


def _parsed(arguments: list[str] | None) -> tuple[Options, str | None]:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.chaos", description=__doc__)
    parser.add_argument("--nodes", type=int, default=2, help="nodes at a time")
    parser.add_argument("--jobs", type=int, default=20_000, help="no-op jobs")
    parser.add_argument("--kills", type=int, default=200, help="how often something is killed")
    parser.add_argument("--workers", type=int, default=2, help="workers of each node")
    parser.add_argument("--backends", type=int, default=0, help="how often a database session is ended besides")
    parser.add_argument("--cuts", type=int, default=0, help="how often a connection is lost in a commit besides")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="of the choice of victims")
    parser.add_argument("--deadline", type=float, metavar="SECONDS", help="given up after; default: by jobs and kills")
    parser.add_argument("--database", metavar="URL", help="a server to make a database on; default: an embedded one")
    given = vars(parser.parse_args(arguments))
    if min(given["nodes"], given["jobs"], given["workers"]) < 1:
        parser.error("nodes, jobs and workers are at least 1")
    if min(given["kills"], given["backends"], given["cuts"]) < 0:
        parser.error("kills, backends and cuts are at least 0")
    if given["deadline"] is None:
        given["deadline"] = 120 + given["jobs"] / 50 + given["kills"] * 2
    server_url = given.pop("database")
    return Options(**given), server_url


@contextlib.contextmanager
def _orphans_come_here() -> Iterator[None]:
    processes.prctl(processes.PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        processes.prctl(processes.PR_SET_CHILD_SUBREAPER, 0)


def _interrupted(number: int, _: FrameType | None) -> None:
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, signal.SIG_IGN)  # the end is on its way, and is not to be cut short
    raise SystemExit(128 + number)


def _tell(problems: list[str], folders: Folders, nodes: int) -> None:
    for problem in problems[:_SHOWN_PROBLEMS]:
        say(problem)
    kept = Path(tempfile.mkdtemp(prefix="batchproc-chaos-logs-", dir="/tmp"))
    for number in range(nodes):
        if folders.log(number).exists():
            shutil.copy(folders.log(number), kept)
    say(f"{len(problems)} problems; the nodes' logs are kept in {kept}")


if __name__ == "__main__":
    sys.exit(main())
