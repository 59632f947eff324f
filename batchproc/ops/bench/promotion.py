"""``bench promotion``: a great many jobs that become due at once, beside ticks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.fairness import Queue, Turn
from batchproc.core.job import Claim, KindSpec, Lane, NewJob
from batchproc.core.outcome import Completed
from batchproc.core.settle import settle
from batchproc.database import SqlFolder
from batchproc.ops.bench.figures import Spread, percentile
from batchproc.ops.bench.queue import KIND
from batchproc.ops.bench.schema import BenchSchema, Tell, Urls, bench_schema
from batchproc.ops.stopped import ended_by_sigterm
from batchproc.queue.node_store import Ended, NodeFacts, NodeStore
from batchproc.queue.store import JobStore
from batchproc.settings import Settings

CLAIMED = 8
"""Jobs that each tick settles, and claims."""
_STOCK = 4000
_LEAST_SECONDS = 3.0
_SPEC = KindSpec(KIND)


@dataclass(frozen=True, slots=True)
class Ticks:
    """Milliseconds of the ticks of one side."""

    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, seconds: list[float]) -> Ticks:
        return cls(*(1000 * percentile(seconds, share) for share in (0.5, 0.99, 1.0)))


@dataclass(frozen=True, slots=True)
class PromotionRun:
    """One run. Times in seconds from when the first node looked.

    ``first_worst``: until of every tenant a job had been promoted; of ``bare_per_second`` see ``PromotionBench``.
    """

    seconds: float
    first_worst: float
    longest_step: float
    alone: Ticks
    beside: Ticks
    bare_per_second: float


@dataclass(frozen=True, slots=True)
class PromotionBench:
    """All runs of a bench. The limit is a single update that makes a sample of the jobs available."""

    jobs: int
    tenants: int
    runs: tuple[PromotionRun, ...]

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys."""
        rates = Spread.of(self.jobs / run.seconds for run in self.runs)
        return {
            "jobs": self.jobs,
            "tenants": self.tenants,
            "jobs_per_second": rates.plain(0),
            "ratio_to_bare_update": Spread.of(self.jobs / run.seconds / run.bare_per_second for run in self.runs).plain(
                2
            ),
            "first_worst_seconds": Spread.of(run.first_worst for run in self.runs).plain(2),
            "p99_ratio": Spread.of(run.beside.p99 / run.alone.p99 for run in self.runs).plain(2),
            "longest_tick_ms": Spread.of(run.beside.longest for run in self.runs).plain(1),
            "runs": [
                {
                    "jobs_per_second": round(self.jobs / run.seconds),
                    "seconds": round(run.seconds, 2),
                    "first_worst_s": round(run.first_worst, 2),
                    "longest_step_ms": round(1000 * run.longest_step, 1),
                    "tick_p50_ms": round(run.beside.p50, 2),
                    "tick_p99_ms": round(run.beside.p99, 2),
                    "tick_longest_ms": round(run.beside.longest, 1),
                    "alone_p50_ms": round(run.alone.p50, 2),
                    "alone_p99_ms": round(run.alone.p99, 2),
                    "alone_longest_ms": round(run.alone.longest, 1),
                    "bare_update_per_second": round(run.bare_per_second),
                }
                for run in self.runs
            ],
        }


def bench_promotion(
    settings: Settings, urls: Urls, *, jobs: int, tenants: int, runs: int, tell: Tell
) -> PromotionBench:
    """Ticks, first with nothing beside them and then beside the promotion of ``jobs`` jobs, half of them one tenant's.

    As on a node, both are threads of one process with a connection each: the ticks settle and claim ``CLAIMED`` no-op
    jobs, as fast as they can. No job is run.

    Raises:
        Stopped: by a signal.
        EnvironmentFault: the database is at fault.
    """
    done = []
    with ended_by_sigterm():
        for number in range(1, runs + 1):
            tell(f"run {number} of {runs}: {jobs} jobs of {tenants} tenants become due")
            with bench_schema(settings, urls) as schema:
                done.append(_run(schema, jobs, tenants))
            tell(f"run {number} of {runs}: promoted in {done[-1].seconds:.1f} s")
    return PromotionBench(jobs, tenants, tuple(done))


def _run(schema: BenchSchema, jobs: int, tenants: int) -> PromotionRun:
    sql = SqlFolder("batchproc.ops.bench", schema.name)
    with schema.connect() as connection, schema.connect() as other:
        rows = connection.execute(sql["bench_many_tenants"], {"tenants": tenants}).fetchall()
        tenant_ids = [row[0] for row in rows]
        connection.execute(sql["bench_due_jobs"], {"tenant_ids": tenant_ids, "jobs": jobs})
        connection.execute(sql["analyze_jobs"])
        ticking = _Ticking(schema, connection, tenant_ids[:CLAIMED])
        bare = _bare_update(connection, sql, tenant_ids, min(jobs, 20_000))
        ticking.until(_after(_LEAST_SECONDS))  # warm-up
        alone = ticking.until(_after(_LEAST_SECONDS))
        promotion = _Promotion(ticking.store, other)
        promotion.start()
        beside = ticking.until(lambda: not promotion.is_alive())
        promotion.join()
    if promotion.error is not None:
        raise promotion.error
    return PromotionRun(
        promotion.seconds, max(promotion.first.values()), promotion.longest, Ticks.of(alone), Ticks.of(beside), bare
    )


def _bare_update(connection: Connection[TupleRow], sql: SqlFolder, tenant_ids: list[int], sample: int) -> float:
    """Rows a second of one statement that makes jobs available, on jobs of its own, which it takes away again."""
    with connection.transaction(force_rollback=True):
        connection.execute(sql["bench_due_jobs"], {"tenant_ids": tenant_ids, "jobs": sample})
        started = time.monotonic()
        updated = connection.execute(sql["bench_promote_bare"], {"limit": sample}).rowcount
        return updated / (time.monotonic() - started)


def _after(seconds: float) -> Callable[[], bool]:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() >= until


class _Ticking:
    """Settles what it claimed and claims the next, again and again."""

    def __init__(self, schema: BenchSchema, connection: Connection[TupleRow], tenant_ids: list[int]) -> None:
        self._connection = connection
        self._jobs = JobStore(schema.name)
        self._turns = [Turn(Queue(Lane.BULK, tenant_id, KIND), 1) for tenant_id in tenant_ids]
        self._claims: list[Claim] = []
        self._stock = 0
        self.store = NodeStore(schema.name, uuid4(), {KIND: _SPEC})
        facts = NodeFacts(self.store.node_id, "bench", 1, CLAIMED, (KIND,), (), "", "")
        self.store.join(connection, facts, lease=86400.0)

    def until(self, ended: Callable[[], bool]) -> list[float]:
        """Seconds of each tick, at least of one; to enqueue what is claimed is not part of them."""
        return list(self._ticks(ended))

    def _ticks(self, ended: Callable[[], bool]) -> Iterator[float]:
        while True:
            if self._stock < len(self._turns):
                self._enqueue()
            endings = [
                Ended(settle(claim, Completed(), _SPEC, max_node_losses=3, jitter=0.0), worker_pid=1, seconds=0.001)
                for claim in self._claims
            ]
            started = time.perf_counter()
            _, self._claims = self.store.tick(self._connection, endings, self._turns, limited=False, run_id=None)
            yield time.perf_counter() - started
            self._stock -= len(self._claims)
            if ended():
                return

    def _enqueue(self) -> None:
        each = _STOCK // len(self._turns)
        jobs = (NewJob(turn.queue.tenant_id, KIND) for turn in self._turns for _ in range(each))
        self._jobs.enqueue_many(self._connection, jobs)
        self._stock += each * len(self._turns)


@dataclass
class _Promotion:
    """What housekeeping does: one step after the other until nothing is due."""

    store: NodeStore
    connection: Connection[TupleRow]
    seconds: float = 0.0
    longest: float = 0.0
    first: dict[int, float] = field(default_factory=dict)
    error: Exception | None = None

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._promote, name="promotion", daemon=True)
        self.start, self.join, self.is_alive = self._thread.start, self._thread.join, self._thread.is_alive

    def _promote(self) -> None:
        try:
            started = time.monotonic()
            while True:
                before = time.monotonic()
                queues = self.store.promote(self.connection)
                now = time.monotonic()
                if not queues:
                    return
                self.seconds = now - started
                self.longest = max(self.longest, now - before)
                for queue in queues:
                    self.first.setdefault(queue.tenant_id, now - started)
        except Exception as error:  # noqa: BLE001 - told by the thread that waits
            self.error = error
