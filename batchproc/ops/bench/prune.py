"""``bench prune``: deleting finished jobs beside a run at full speed."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection as Pipe
from multiprocessing.synchronize import Event
from typing import Any

from batchproc.core.errors import EnvironmentFault
from batchproc.core.job import NewJob
from batchproc.database import SqlFolder, connect
from batchproc.engine.node import RunOptions
from batchproc.ops.bench.figures import Spread, alternated
from batchproc.ops.bench.queue import HANDLERS, KIND
from batchproc.ops.bench.schema import BenchSchema, Tell, Urls, bench_schema
from batchproc.ops.pruning import REST, paced
from batchproc.ops.stopped import Stopped, ended_by_sigterm
from batchproc.queue.pruning import Pruning
from batchproc.queue.store import JobStore
from batchproc.settings import Settings

_TENANTS = 100
_AGE = timedelta(days=30)
_BARE_SECONDS = 5.0
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Of a run of no-op jobs. ``longest_gap``: seconds for which nothing was claimed, at most; ``p99_gap``: of the
    99th of a hundred gaps."""

    jobs_per_second: float
    longest_gap: float
    p99_gap: float


@dataclass(frozen=True, slots=True)
class PruneRun:
    """One run on each side. ``pruned_throughout``: whether there was enough to prune until the run beside it ended."""

    alone: RunFigures
    beside: RunFigures
    pruned_per_second: float
    unpaced_per_second: float
    pruned: int
    pruned_throughout: bool


@dataclass(frozen=True, slots=True)
class PruneBench:
    """All runs of a bench. The limit is the same prune without rests, with nothing beside it."""

    finished: int
    jobs: int
    workers: int
    runs: tuple[PruneRun, ...]

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys."""
        runs = self.runs
        return {
            "finished": self.finished,
            "jobs": self.jobs,
            "workers": self.workers,
            "pruned_per_second": Spread.of(run.pruned_per_second for run in runs).plain(0),
            "unpaced_per_second": Spread.of(run.unpaced_per_second for run in runs).plain(0),
            "ratio_of_run": Spread.of(run.beside.jobs_per_second / run.alone.jobs_per_second for run in runs).plain(3),
            "longest_gap_ms": Spread.of(1000 * run.beside.longest_gap for run in runs).plain(1),
            "longest_gap_alone_ms": Spread.of(1000 * run.alone.longest_gap for run in runs).plain(1),
            "pruned_throughout": all(run.pruned_throughout for run in runs),
            "runs": [
                {
                    "alone_per_second": round(run.alone.jobs_per_second, 1),
                    "beside_per_second": round(run.beside.jobs_per_second, 1),
                    "ratio": round(run.beside.jobs_per_second / run.alone.jobs_per_second, 3),
                    "pruned": run.pruned,
                    "pruned_per_second": round(run.pruned_per_second),
                    "unpaced_per_second": round(run.unpaced_per_second),
                    "p99_gap_ms": round(1000 * run.beside.p99_gap, 2),
                    "p99_gap_alone_ms": round(1000 * run.alone.p99_gap, 2),
                    "longest_gap_ms": round(1000 * run.beside.longest_gap, 1),
                    "longest_gap_alone_ms": round(1000 * run.alone.longest_gap, 1),
                }
                for run in runs
            ],
        }


def bench_prune(
    settings: Settings, urls: Urls, *, finished: int, jobs: int, workers: int, runs: int, tell: Tell
) -> PruneBench:
    """Runs no-op jobs through a real node, by turns alone and beside a prune, on a table of finished jobs.

    The prune is a process of its own, as the command is, and rests as the command does.

    Args:
        finished: jobs that ended a year ago, with an attempt each, made afresh for each run.
        jobs: no-op jobs of each side.

    Raises:
        Stopped: by a signal.
        EnvironmentFault: the database or the pool is at fault.
    """
    done = []
    with ended_by_sigterm():
        for number in range(1, runs + 1):
            with bench_schema(settings, urls, handlers=HANDLERS) as schema:
                tell(f"run {number} of {runs}: making {finished} finished jobs")
                tenant_ids = _add_tenants(schema)
                _fill(schema, tenant_ids, finished)
                done.append(_run(schema, tenant_ids, finished, jobs, workers, number, tell))
            tell(f"run {number} of {runs}: {done[-1].pruned_per_second:.0f} rows/s pruned")
    return PruneBench(finished, jobs, workers, tuple(done))


def _add_tenants(schema: BenchSchema) -> list[int]:
    sql = SqlFolder("batchproc.ops.bench", schema.name)
    with schema.connect() as connection:
        return [row[0] for row in connection.execute(sql["bench_many_tenants"], {"tenants": _TENANTS}).fetchall()]


def _fill(schema: BenchSchema, tenant_ids: list[int], finished: int) -> None:
    sql = SqlFolder("batchproc.ops.bench", schema.name)
    with schema.connect() as connection:
        connection.execute(sql["bench_finished_jobs"], {"tenant_ids": tenant_ids, "jobs": finished})
        connection.execute(sql["bench_finished_attempts"])
        # Else autovacuum does it in the middle of one side.
        connection.execute(sql["bench_vacuum_jobs"])
        connection.execute(sql["bench_vacuum_attempts"])


def _run(
    schema: BenchSchema, tenant_ids: list[int], finished: int, jobs: int, workers: int, number: int, tell: Tell
) -> PruneRun:
    sides: dict[str, RunFigures] = {}
    for side in alternated(("alone", "beside"), number):
        tell(f"run {number}: {jobs} jobs {side}{' a prune' if side == 'beside' else ''}")
        _enqueue(schema, tenant_ids, jobs)
        if side == "alone":
            sides[side] = _figures(schema, jobs, workers)
            continue
        with _pruner(schema, REST) as pruner:
            sides[side] = _figures(schema, jobs, workers)
            pruned, seconds, throughout = pruner.stop()
    if pruned > finished // 2:
        # Of what little is left, or nothing, the reference would be no rate.
        tell(f"run {number}: making {finished} finished jobs for the prune alone")
        _fill(schema, tenant_ids, finished)
    with _pruner(schema, rest=0.0) as unpaced:
        unpaced.wait(_BARE_SECONDS)
        bare, bare_seconds, _ = unpaced.stop()
    return PruneRun(sides["alone"], sides["beside"], pruned / seconds, bare / bare_seconds, pruned, throughout)


def _enqueue(schema: BenchSchema, tenant_ids: list[int], jobs: int) -> None:
    with schema.connect() as connection, connection.transaction():
        waiting = (NewJob(tenant_ids[n % len(tenant_ids)], KIND) for n in range(jobs))
        JobStore(schema.name).enqueue_many(connection, waiting)


def _figures(schema: BenchSchema, jobs: int, workers: int) -> RunFigures:
    schema.run(RunOptions(workers=workers), lambda *_: None)
    with schema.connect() as connection:
        row = connection.execute(SqlFolder("batchproc.ops.bench", schema.name)["bench_last_run"]).fetchone()
    assert row is not None
    completed, seconds, longest, p99 = row
    if completed != jobs:
        raise Stopped(f"the bench was stopped after {completed} of {jobs} jobs")
    return RunFigures(completed / seconds, longest or 0.0, p99 or 0.0)


# -- the other process


class _Pruner:
    """A process that prunes until it is stopped."""

    def __init__(self, schema: BenchSchema, rest: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop = context.Event()
        self._told, telling = context.Pipe(duplex=False)
        arguments = (schema.urls.direct, schema.name, rest, self._stop, telling)
        self._process = context.Process(target=_prune, args=arguments, daemon=True)
        self._process.start()
        telling.close()
        self._hear()

    def wait(self, seconds: float) -> None:
        """Until nothing is left to prune, and no longer than that."""
        self._told.poll(seconds)

    def stop(self) -> tuple[int, float, bool]:
        """Jobs pruned, in how many seconds, and whether some were left."""
        self._stop.set()
        pruned, seconds, stopped = self._hear()
        return pruned, seconds, stopped

    def close(self) -> None:
        self._stop.set()
        self._process.join(_PATIENCE)
        self._process.kill()
        self._process.join()

    def _hear(self) -> Any:
        try:
            if self._told.poll(_PATIENCE):
                return self._told.recv()
        except EOFError:
            pass
        raise EnvironmentFault("the prune of the bench ended, or came to nothing", "see the log with -v")


@contextmanager
def _pruner(schema: BenchSchema, rest: float) -> Iterator[_Pruner]:
    pruner = _Pruner(schema, rest)
    try:
        yield pruner
    finally:
        pruner.close()


def _prune(url: str, schema: str, rest: float, stop: Event, telling: Pipe) -> None:
    """In its process: tells when it begins, and at its end how much it deleted."""
    pruned = 0
    with connect(url, application_name="batchproc bench prune") as connection:
        batches = Pruning(schema).batches(connection, _AGE)
        telling.send(None)
        started = time.monotonic()
        for batch in paced(batches, stop, rest):
            pruned += batch.jobs.total()
        telling.send((pruned, time.monotonic() - started, stop.is_set()))
