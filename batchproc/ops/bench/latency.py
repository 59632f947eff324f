"""``bench latency``: from enqueueing a job until its handler begins, on a node that has nothing to do.

Another process enqueues one job per transaction, at random moments, to a node that runs on and on. The time is taken
before the call that enqueues and where the handler begins, both by the machine's monotonic clock. Beside it, in the
same run and from the same process: a one-row commit, and NOTIFY until another session hears it, which is the least
that a queue in a database can take.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import IO, Any

from batchproc.database import SqlFolder
from batchproc.engine.node import RunOptions
from batchproc.ops.bench.figures import percentile
from batchproc.ops.bench.schema import BenchSchema, Tell, Urls, bench_schema
from batchproc.ops.stopped import Stopped, ended_by_sigterm
from batchproc.queue.store import JobStore
from batchproc.settings import Settings

KIND = "bench_started"
HANDLERS = ("batchproc.ops.bench.handlers",)
GAP = 0.05
"""Mean seconds from the end of one job's turn to the next: many times what a job takes."""
WARM_UP = 10
"""The first jobs, which are not counted: workers connect with their first one."""


@dataclass(frozen=True, slots=True)
class LatencyRun:
    """Seconds, one value a job: until the handler began, since the call and since its commit; and the two limits."""

    since_call: Sequence[float]
    since_commit: Sequence[float]
    commits: Sequence[float]
    notifies: Sequence[float]

    def plain(self) -> dict[str, float]:
        """Milliseconds."""
        return {
            "p50_ms": _ms(self.since_call, 0.5),
            "p99_ms": _ms(self.since_call, 0.99),
            "worst_ms": _ms(self.since_call, 1.0),
            "since_commit_p50_ms": _ms(self.since_commit, 0.5),
            "since_commit_p99_ms": _ms(self.since_commit, 0.99),
            "commit_p50_ms": _ms(self.commits, 0.5),
            "commit_p99_ms": _ms(self.commits, 0.99),
            "notify_p50_ms": _ms(self.notifies, 0.5),
            "notify_p99_ms": _ms(self.notifies, 0.99),
        }


@dataclass(frozen=True, slots=True)
class LatencyBench:
    """All runs of a bench."""

    jobs: int
    workers: int
    runs: tuple[LatencyRun, ...]

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys: percentiles over the jobs of all runs, and of each run."""
        whole = LatencyRun(
            [value for run in self.runs for value in run.since_call],
            [value for run in self.runs for value in run.since_commit],
            [value for run in self.runs for value in run.commits],
            [value for run in self.runs for value in run.notifies],
        )
        return {
            **whole.plain(),
            "jobs": self.jobs,
            "workers": self.workers,
            "runs": [run.plain() for run in self.runs],
        }


def bench_latency(settings: Settings, urls: Urls, *, jobs: int, workers: int, runs: int, tell: Tell) -> LatencyBench:
    """Enqueues jobs to an idle node, one by one.

    Args:
        jobs: how many in each run, beside ``WARM_UP`` that do not count.

    Raises:
        Stopped: by a signal.
        EnvironmentFault: the database, the pool or the process that enqueues is at fault.
    """
    done = []
    with ended_by_sigterm():
        for number in range(1, runs + 1):
            tell(f"run {number} of {runs}: {jobs} jobs, one by one")
            with bench_schema(settings, urls, handlers=HANDLERS) as schema:
                done.append(_run(schema, jobs, workers))
            tell(f"run {number} of {runs}: p50 {done[-1].plain()['p50_ms']:.1f} ms")
    return LatencyBench(jobs, workers, tuple(done))


def _run(schema: BenchSchema, jobs: int, workers: int) -> LatencyRun:
    store, statements = JobStore(schema.name), SqlFolder("batchproc.ops.bench", schema.name)
    with schema.connect() as connection:
        tenant_id = store.add_tenant(connection, "bench").tenant_id
        connection.execute(statements["bench_commit_table"])
    order = {
        "database": schema.urls.direct,
        "schema": schema.name,
        "tenant_id": tenant_id,
        "kind": KIND,
        "warm_up": WARM_UP,
        "jobs": jobs,
        "gap": GAP,
        "parent": os.getpid(),
    }
    ended = 0

    def observe(*_: object) -> None:
        nonlocal ended
        ended += 1

    with _application(order) as told:
        schema.run(RunOptions(workers=workers, forever=True, max_jobs=WARM_UP + jobs), observe)
        if ended < WARM_UP + jobs:
            # The node took the signal for itself; the application would go on to its last job.
            raise Stopped("the bench was stopped before all jobs had ended")
    with schema.connect() as connection:
        began: dict[int, float] = dict(connection.execute(statements["bench_started"], {"kind": KIND}).fetchall())
    enqueued = told.get("enqueued", [])
    if len(enqueued) < jobs or any(job_id not in began for job_id, _, _ in enqueued):
        raise Stopped("the bench was stopped before all jobs had ended")
    return LatencyRun(
        [began[job_id] - before for job_id, before, _ in enqueued],
        [began[job_id] - after for job_id, _, after in enqueued],
        told["commits"],
        told["notifies"],
    )


@contextmanager
def _application(order: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Enqueues beside what is done inside, and fills the dictionary when that has ended.

    In a session of its own: a terminal's Ctrl-C is for the bench, which ends it.
    """
    told: dict[str, Any] = {}
    command = [sys.executable, "-m", "batchproc.ops.bench.arrivals"]
    with subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            reader = Thread(target=_read, args=(process.stdout, told), daemon=True)
            reader.start()
            yield told
            reader.join()
        finally:
            process.kill()


def _read(stream: IO[str], told: dict[str, Any]) -> None:
    told.update(json.loads(stream.readline() or "{}"))


def _ms(values: Sequence[float], share: float) -> float:
    return round(percentile(values, share) * 1000, 2)
