"""``bench fairness``: how long small tenants wait beside a big one, on the real thing.

One tenant has thousands of jobs. While they are worked off, small tenants come with a few each, shortly after one
another. Each of their waits is counted, from the tenant's previous start or from the arrival of its jobs (when they are
committed), in jobs of others that were started meanwhile and in seconds.

Beside it, by turns, the very same jobs arriving at the same points as those of a single tenant: nothing is shared
there, so that the same node on the same database takes them in the order in which they came, first in, first out.

A job sleeps, so that many can run at once on few CPUs. It should not be much shorter than the time from a commit to the
start of a handler (some milliseconds): what is started in that time counts as the wait of those who have just come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from queue import SimpleQueue
from statistics import median
from threading import Thread
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import EnvironmentFault
from batchproc.core.job import Claim, NewJob
from batchproc.core.outcome import Outcome
from batchproc.database import SqlFolder
from batchproc.engine.node import RunOptions
from batchproc.ops.bench.figures import Spread, alternated, percentile
from batchproc.ops.bench.schema import BenchSchema, Tell, Urls, bench_schema
from batchproc.ops.bench.waits import Start, Wait, summed_up, waits
from batchproc.ops.stopped import Stopped, ended_by_sigterm
from batchproc.queue.store import JobStore
from batchproc.settings import Settings

KIND = "bench_sleep"
HANDLERS = ("batchproc.ops.bench.handlers",)
FAIR, FIFO = "fair", "fifo"
BIG = 0
"""The owner of most of the jobs; the small ones are counted from 1 on."""
# The first small one comes when so much of the big one's jobs has ended, the next ones after so many more jobs, sooner
# than all of a small one's jobs can be done: so that there are many at a time.
_FIRST, _NEXT = 0.2, 2


@dataclass(frozen=True, slots=True)
class Load:
    """Jobs of the big tenant; how many small ones come, with how many jobs each; how long each job sleeps."""

    jobs: int = 5000
    tenants: int = 20
    each: int = 5
    milliseconds: int = 40

    @property
    def total(self) -> int:
        return self.jobs + self.tenants * self.each

    def arrivals(self) -> dict[int, int]:
        """After how many ended jobs which small owner comes."""
        return {round(_FIRST * self.jobs) + _NEXT * number: number + 1 for number in range(self.tenants)}

    def of(self, owner: int, tenant_id: int) -> list[NewJob]:
        """The jobs of an owner."""
        args = {"milliseconds": self.milliseconds, "owner": owner}
        return [NewJob(tenant_id, KIND, args) for _ in range(self.jobs if owner == BIG else self.each)]


@dataclass(frozen=True, slots=True)
class SideRun:
    """One run of one side. Seconds.

    ``waits``: those of all small owners; ``served``: how long it took for each until its last job was started;
    ``seconds``: from the first start of all to the last.
    """

    waits: tuple[Wait, ...]
    served: tuple[float, ...]
    seconds: float

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys."""
        served = {"served_p50_s": round(percentile(self.served, 0.5), 3), "served_worst_s": round(max(self.served), 3)}
        return {**summed_up(self.waits), **served, "run_s": round(self.seconds, 2)}


@dataclass(frozen=True, slots=True)
class FairnessBench:
    """All runs of both sides; ``fairness`` as in the settings."""

    load: Load
    workers: int
    fairness: str
    runs: tuple[Mapping[str, SideRun], ...]

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys: over the waits of all runs, and of each run.

        ``fifo_to_fair``: how many times as long small tenants wait for their last job when first in is first out.
        """
        ratios = [median(run[FIFO].served) / median(run[FAIR].served) for run in self.runs]
        sides = {side: self._of(side).plain() for side in (FAIR, FIFO)}
        return {
            "fairness": self.fairness,
            "worst_rounds": sides[FAIR]["worst_rounds"],
            "fifo_to_fair": Spread.of(ratios).plain(),
            **sides,
            "jobs": self.load.jobs,
            "tenants": self.load.tenants,
            "each": self.load.each,
            "milliseconds": self.load.milliseconds,
            "workers": self.workers,
            "runs": [{"side": side, **run[side].plain()} for run in self.runs for side in (FAIR, FIFO)],
        }

    def _of(self, side: str) -> SideRun:
        runs = [run[side] for run in self.runs]
        return SideRun(
            tuple(chain.from_iterable(run.waits for run in runs)),
            tuple(chain.from_iterable(run.served for run in runs)),
            median(run.seconds for run in runs),
        )


def bench_fairness(settings: Settings, urls: Urls, load: Load, *, workers: int, runs: int, tell: Tell) -> FairnessBench:
    """Runs the load through a real node, as that of many tenants and as that of one, by turns.

    Raises:
        Stopped: by a signal.
        EnvironmentFault: the database or the pool is at fault.
    """
    done = []
    with ended_by_sigterm():
        for number in range(1, runs + 1):
            sides = {}
            for side in alternated((FAIR, FIFO), number):
                tell(f"run {number} of {runs}: {side}, {load.total} jobs")
                with bench_schema(settings, urls, handlers=HANDLERS) as schema:
                    sides[side] = _run(schema, load, workers, apart=side == FAIR)
            done.append(sides)
            worst = {side: max(wait.turns for wait in sides[side].waits) for side in (FAIR, FIFO)}
            tell(f"run {number} of {runs}: the longest wait was {worst[FAIR]} turns, {worst[FIFO]} in fifo")
    return FairnessBench(load, workers, settings.dispatch.fairness, tuple(done))


def _run(schema: BenchSchema, load: Load, workers: int, *, apart: bool) -> SideRun:
    store, statements = JobStore(schema.name), SqlFolder("batchproc.ops.bench", schema.name)
    with schema.connect() as connection:
        owners = range(load.tenants + 1)
        tenants = [store.add_tenant(connection, f"bench-{owner}").tenant_id for owner in owners]
        if not apart:
            tenants = [tenants[BIG] for _ in owners]
        with connection.transaction():
            store.enqueue_many(connection, load.of(BIG, tenants[BIG]))
        connection.execute(statements["analyze_jobs"])
        with _arriving(_Arrivals(connection, store, load, tenants)) as arrivals:
            schema.run(RunOptions(workers=workers), arrivals.observe)
        starts = [Start(*row) for row in connection.execute(statements["bench_starts"], {"kind": KIND}).fetchall()]
    if len(starts) != load.total:
        raise Stopped(f"the bench was stopped after {len(starts)} of {load.total} jobs")
    found = {owner: waits(starts, owner, came) for owner, came in arrivals.came.items()}
    served = (sum(wait.seconds for wait in of_owner) for of_owner in found.values())
    return SideRun(tuple(chain.from_iterable(found.values())), tuple(served), starts[-1].started - starts[0].started)


class _Arrivals:
    """Enqueues the jobs of the small owners when their time has come.

    Args:
        connection: for its own thread alone, from ``enqueue`` until that returns.
        tenants: the tenant of each owner.
    """

    def __init__(self, connection: Connection[TupleRow], store: JobStore, load: Load, tenants: list[int]) -> None:
        self._connection, self._store, self._load, self._tenants = connection, store, load, tenants
        self._now = SqlFolder("batchproc.ops.bench", store.schema)["bench_now"]
        self._due = load.arrivals()
        self._ended = 0
        self.coming: SimpleQueue[int | None] = SimpleQueue()
        self.came: dict[int, float] = {}
        """When the jobs of each had been committed, in seconds by the database's clock."""
        self.error: psycopg.Error | None = None

    def observe(self, _claim: Claim, _outcome: Outcome, _seconds: float) -> None:
        """A job has ended."""
        self._ended += 1
        if self._ended in self._due:
            self.coming.put(self._due[self._ended])

    def enqueue(self) -> None:
        """Until None comes."""
        try:
            while (owner := self.coming.get()) is not None:
                with self._connection.transaction():
                    self._store.enqueue_many(self._connection, self._load.of(owner, self._tenants[owner]))
                row = self._connection.execute(self._now).fetchone()
                assert row is not None
                self.came[owner] = row[0]
        except psycopg.Error as error:
            self.error = error


@contextmanager
def _arriving(arrivals: _Arrivals) -> Iterator[_Arrivals]:
    """Lets them arrive meanwhile. Raises EnvironmentFault when jobs could not be enqueued."""
    thread = Thread(target=arrivals.enqueue, name="arrivals", daemon=True)
    thread.start()
    try:
        yield arrivals
    finally:
        arrivals.coming.put(None)
        thread.join()
    if arrivals.error is not None:
        problem = f"jobs of the bench could not be enqueued ({type(arrivals.error).__name__})"
        raise EnvironmentFault(problem, "see what is wrong with: batchproc doctor")
