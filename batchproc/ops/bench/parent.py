"""``bench parent``: how much of a processor the node itself takes while many slots are busy.

A real node runs jobs that sleep for a tenth of a second, so that its workers need next to no processor time. What is
measured is the processor time of its one process: the dispatcher's thread alone, and all threads, those of the pools
with it. Beside it, in the same run: the pool with nothing to do, and as many bare pools of pebble, each kept busy with
the same naps.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from batchproc.core.job import Claim, NewJob
from batchproc.core.outcome import Completed, Outcome
from batchproc.engine.node import RunOptions
from batchproc.engine.pool.worker_pool import Entry, PoolOptions, WorkerPool
from batchproc.ops.bench.bare_pools import Busy, bare_pools
from batchproc.ops.bench.figures import Spread, alternated
from batchproc.ops.bench.handlers import NAP_SECONDS
from batchproc.ops.bench.schema import BenchSchema, Tell, Urls, bench_schema
from batchproc.ops.stopped import Stopped, ended_by_sigterm
from batchproc.queue.store import JobStore
from batchproc.settings import Settings

KIND = "bench_nap"
HANDLERS = ("batchproc.ops.bench.handlers",)
TENANTS = 16
SIDES = ("idle", "pools", "node")


@dataclass(frozen=True, slots=True)
class ParentRun:
    """Cores, which are processor seconds a second. ``dispatcher``: of the node's main thread alone."""

    idle: float
    pools: Busy
    node: Busy
    dispatcher: float

    def plain(self) -> dict[str, float]:
        """A row of the table."""
        return {
            "node_cores": round(self.node.cores, 3),
            "dispatcher_cores": round(self.dispatcher, 3),
            "jobs_per_second": round(self.node.rate, 1),
            "pools_cores": round(self.pools.cores, 3),
            "pools_jobs_per_second": round(self.pools.rate, 1),
            "idle_cores": round(self.idle, 3),
        }


@dataclass(frozen=True, slots=True)
class ParentBench:
    """All runs of a bench."""

    slots: int
    seconds: float
    runs: tuple[ParentRun, ...]

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys: medians, and of each run."""
        rows = [run.plain() for run in self.runs]
        medians = {name: Spread.of(row[name] for row in rows).median for name in rows[0]}
        each = [run.node.cores / max(run.node.rate, 1e-9) for run in self.runs]
        return {
            **medians,
            "ratio_to_pools": round(medians["node_cores"] / max(medians["pools_cores"], 1e-3), 2),
            "microseconds_per_job": round(Spread.of(each).median * 1e6, 1),
            "slots": self.slots,
            "seconds": self.seconds,
            "nap_seconds": NAP_SECONDS,
            "runs": rows,
        }


def bench_parent(settings: Settings, urls: Urls, *, slots: int, seconds: float, runs: int, tell: Tell) -> ParentBench:
    """Measures each side for so many seconds, after it has become busy.

    Raises:
        Stopped: by a signal.
        EnvironmentFault: the database or the pool is at fault.
    """
    done = []
    with ended_by_sigterm():
        for number in range(1, runs + 1):
            found: dict[str, Any] = {}
            for side in alternated(SIDES, number):
                tell(f"run {number} of {runs}: {side}, {slots} slots")
                found[side] = _measured(side, settings, urls, slots, seconds)
            node, dispatcher = found["node"]
            done.append(ParentRun(found["idle"], found["pools"], node, dispatcher))
            tell(f"run {number} of {runs}: {node.cores:.2f} cores for {node.rate:.0f} jobs/s")
    return ParentBench(slots, seconds, tuple(done))


def _measured(side: str, settings: Settings, urls: Urls, slots: int, seconds: float) -> Any:
    if side == "idle":
        return _idle(slots, seconds)
    if side == "pools":
        return bare_pools(slots, NAP_SECONDS, seconds)
    with bench_schema(settings, urls, handlers=HANDLERS) as schema:
        return _node(schema, slots, seconds)


def _idle(slots: int, seconds: float) -> float:
    """The node's pool with nothing to do."""
    with tempfile.TemporaryDirectory(prefix="batchproc-bench-") as folder:
        options = PoolOptions(workers=slots, node_id=str(uuid4()), workdir=Path(folder), preload=(__name__,))
        pool = WorkerPool(options, Entry(do_nothing, get_ready))
        pool.start()
        try:
            busy, begun = time.process_time(), time.monotonic()
            time.sleep(seconds)
            return (time.process_time() - busy) / (time.monotonic() - begun)
        finally:
            pool.close()


def get_ready() -> None:
    """In each worker of the idle pool."""


def do_nothing(_job_id: int, _claim_id: UUID) -> Outcome:
    """In a worker of the idle pool, which gets no job."""
    return Completed()


@dataclass(slots=True)
class _Watch:
    """Looks at the clocks when so many jobs have ended, in the dispatcher's thread, which tells of each."""

    first: int
    last: int
    ended: int = 0
    looks: list[tuple[float, float, float]] = field(default_factory=list)

    def __call__(self, _claim: Claim, _outcome: Outcome, _seconds: float) -> None:
        self.ended += 1
        if self.ended in (self.first, self.last):
            self.looks.append((time.monotonic(), time.process_time(), time.thread_time()))


def _node(schema: BenchSchema, slots: int, seconds: float) -> tuple[Busy, float]:
    # As many jobs as can be done; the first ones find workers that have not connected yet, the last ones empty slots.
    jobs = max(4, round(slots * seconds / NAP_SECONDS))
    store, warm_up = JobStore(schema.name), 2 * slots
    with schema.connect() as connection, connection.transaction():
        tenants = [store.add_tenant(connection, f"bench-{number}").tenant_id for number in range(TENANTS)]
        new = (NewJob(tenants[number % TENANTS], KIND) for number in range(jobs + warm_up + slots))
        store.enqueue_many(connection, new)
    watch = _Watch(warm_up, warm_up + jobs)
    schema.run(RunOptions(workers=slots), watch)
    if len(watch.looks) < 2:
        raise Stopped(f"the bench was stopped after {watch.ended} jobs")
    (begun, busy, own), (ended, busy_then, own_then) = watch.looks
    elapsed = ended - begun
    return Busy((busy_then - busy) / elapsed, jobs / elapsed), (own_then - own) / elapsed
