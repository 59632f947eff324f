"""``bench queue``: how many jobs a second a node claims, runs and settles, beside what the database can commit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import NewJob
from batchproc.database import SqlFolder, connect
from batchproc.engine.node import RunOptions
from batchproc.ops.bench.schema import BenchSchema, Tell, Urls, bench_schema, ended_by_sigterm
from batchproc.queue.store import JobStore
from batchproc.settings import Settings

KIND = "bench_noop"
HANDLERS = ("batchproc.ops.bench.handlers",)
TENANTS = 4
COMMIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class QueueRun:
    """One run. ``seconds`` is from the first claim to the last settle.

    ``commits_per_second`` is the physical limit as measured right after it: one-row inserts, each committed by itself,
    on one connection.
    """

    jobs_per_second: float
    seconds: float
    commits_per_second: float


@dataclass(frozen=True, slots=True)
class Durability:
    """What the server says of itself, as PostgreSQL shows it."""

    server_version: str
    fsync: str
    synchronous_commit: str

    @property
    def durable(self) -> bool:
        """Whether what is committed is on the disk."""
        return self.fsync == "on" and self.synchronous_commit != "off"


@dataclass(frozen=True, slots=True)
class QueueBench:
    """All runs of a bench."""

    jobs: int
    workers: int
    durability: Durability
    runs: tuple[QueueRun, ...]

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys; rates are medians over the runs."""
        rates = [run.jobs_per_second for run in self.runs]
        commits = median(run.commits_per_second for run in self.runs)
        return {
            "jobs_per_second": round(median(rates), 1),
            "least": round(min(rates), 1),
            "most": round(max(rates), 1),
            "commits_per_second": round(commits, 1),
            "ratio_to_commits": round(median(rates) / commits, 3),
            "jobs": self.jobs,
            "workers": self.workers,
            "durable": self.durability.durable,
            "synchronous_commit": self.durability.synchronous_commit,
            "fsync": self.durability.fsync,
            "server_version": self.durability.server_version,
            "runs": [
                {
                    "jobs_per_second": round(run.jobs_per_second, 1),
                    "seconds": round(run.seconds, 3),
                    "commits_per_second": round(run.commits_per_second, 1),
                }
                for run in self.runs
            ],
        }


def bench_queue(settings: Settings, urls: Urls, *, jobs: int, workers: int, runs: int, tell: Tell) -> QueueBench:
    """Runs no-op jobs of a few tenants through a real node: one job per claim, each settled durably.

    Every run has a fresh schema. Starting the pool and enqueueing are not part of what is timed.

    Args:
        jobs: how many in each run, shared by the tenants.
        tell: is told what goes on.

    Raises:
        BenchStopped: by a signal.
        EnvironmentFault: the database or the pool is at fault.
    """
    done = []
    with ended_by_sigterm():
        with connect(urls.database) as connection:
            durability = _durability(connection)
        for number in range(1, runs + 1):
            tell(f"run {number} of {runs}: {jobs} jobs, {workers} workers")
            with bench_schema(settings, urls, handlers=HANDLERS) as schema:
                done.append(_run(schema, jobs, workers))
            tell(f"run {number} of {runs}: {done[-1].jobs_per_second:.0f} jobs/s")
    return QueueBench(jobs, workers, durability, tuple(done))


def _run(schema: BenchSchema, jobs: int, workers: int) -> QueueRun:
    _enqueue(schema, jobs)
    schema.run(RunOptions(workers=workers), lambda *_: None)
    seconds = schema.seconds(KIND, jobs)
    return QueueRun(jobs / seconds, seconds, _commits_per_second(schema))


def _enqueue(schema: BenchSchema, jobs: int) -> None:
    store = JobStore(schema.name)
    with schema.connect() as connection, connection.transaction():
        tenants = [store.add_tenant(connection, f"bench-{n}").tenant_id for n in range(TENANTS)]
        store.enqueue_many(connection, (NewJob(tenants[n % TENANTS], KIND) for n in range(jobs)))


def _durability(connection: Connection[TupleRow]) -> Durability:
    shown = ("server_version", "fsync", "synchronous_commit")
    rows = connection.execute("select current_setting(name) from unnest(%s::text[]) name", [list(shown)]).fetchall()
    return Durability(*(str(row[0]) for row in rows))


def _commits_per_second(schema: BenchSchema) -> float:
    statements = SqlFolder("batchproc.ops.bench", schema.name)
    with schema.connect() as connection:
        connection.execute(statements["bench_commit_table"])
        count = 0
        started = time.perf_counter()
        while (elapsed := time.perf_counter() - started) < COMMIT_SECONDS or count == 0:
            connection.execute(statements["bench_commit"], [count])
            count += 1
    return count / elapsed
