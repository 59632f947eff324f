"""A run with a job in the middle of its life and another one with a family, for tests that then do it harm."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engine.running import Bench
from tests.faults.command import START_SECONDS, Run, started_run
from tests.faults.stop_points import STOP_VARIABLE
from tests.waiting import wait_until

HANDLERS = "tests.faults.stop_point_handlers"
LEASE = 2.0

_STOPPABLE = (sys.executable, "-P", "-m", "tests.faults.stop_points")
_HISTORY = """
    select coalesce(error_class, outcome), node_id from batchproc.job_attempts where job_id = %s order by ended_at
"""
_COUNTERS = """
    select state, attempt, crashes, timeouts, node_losses from batchproc.processing_jobs where job_id = %s
"""
_LIVING = "select node_id from batchproc.nodes where lease_until > clock_timestamp()"


@dataclass
class Job:
    """One job that tells in ``folder`` how it goes."""

    bench: Bench
    job_id: int
    folder: Path

    def executions(self) -> list[int]:
        """The worker's pid of each."""
        told = self.folder / "executions"
        return [int(line) for line in told.read_text().splitlines()] if told.exists() else []

    def go_on(self) -> None:
        (self.folder / "go_on").touch()

    def history(self) -> list[str]:
        """How each of its claims ended, in order."""
        return [ended for ended, _ in self.bench.rows(_HISTORY, self.job_id)]

    def nodes(self) -> list[object]:
        """The node of each of these claims."""
        return [node_id for _, node_id in self.bench.rows(_HISTORY, self.job_id)]

    def counters(self) -> dict[str, Any]:
        """State, and whichever counters are not 0."""
        [row] = self.bench.rows(_COUNTERS, self.job_id)
        names = ("state", "attempt", "crashes", "timeouts", "node_losses")
        return {name: value for name, value in zip(names, row, strict=True) if value}


@dataclass
class Scene:
    """One run, for a tenant of its own. At ``point`` its node stops with the job that ``choose`` enqueues."""

    bench: Bench
    run: Run
    tenant_id: int
    folder: Path
    point: str

    def job(self, kind: str, *, wait: bool = False) -> Job:
        folder = self.folder / f"job-{len(list(self.folder.glob('job-*')))}"
        folder.mkdir()
        return Job(self.bench, self.bench.enqueue(self.tenant_id, kind, {"folder": str(folder), "wait": wait}), folder)

    def family(self) -> Job:
        """A busy job with subprocesses; ``await_family`` waits for them."""
        return self.job("t_family")

    def await_family(self, family: Job) -> list[int]:
        """The pids of its worker and of its subprocesses."""
        listed = family.folder / "family"
        wait_until(listed.exists, START_SECONDS, f"the family of job {family.job_id} runs")
        return [int(pid) for pid in listed.read_text().split()]

    def choose(self) -> Job:
        """The job with which the node stops; at the point ``running`` it is the job that waits."""
        return self.job("t_chosen", wait=self.point == "running")

    def await_stop(self, chosen: Job) -> None:
        reached = chosen.folder / "executions" if self.point == "running" else self.folder / "reached"
        wait_until(lambda: reached.exists() or self.has_ended(), START_SECONDS, f"{self.point} is reached")

    def go_on(self) -> None:
        (self.folder / "go").touch()

    def has_ended(self) -> bool:
        code = self.run.process.poll()
        assert code is None, f"the run has ended with {code}: {self.run.output()}"
        return False


@contextlib.contextmanager
def scene(
    bench: Bench, folder: Path, tenant: str, point: str = "running", *flags: str, **settings: Any
) -> Iterator[Scene]:
    """Starts it, with two workers and a lease of two seconds."""
    own = folder / tenant
    own.mkdir()
    tenant_id = bench.tenant(tenant)
    before, environment = ((), {}) if point == "running" else (_STOPPABLE, {STOP_VARIABLE: f"{point}:{own}"})
    with started_run(
        bench,
        *("--workers", "2", "--tenant", tenant, *flags),
        handlers=[HANDLERS],
        before=before,
        environment=environment,
        **settings,
    ) as run:
        yield Scene(bench, run, tenant_id, own, point)


def await_no_node(bench: Bench) -> None:
    """Every node has left, or its lease has ended."""
    wait_until(lambda: not bench.rows(_LIVING), 10 * LEASE, "no node lives")
