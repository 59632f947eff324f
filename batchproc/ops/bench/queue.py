"""``bench queue``: how many jobs a second a node claims, runs and settles, beside what the database can commit.

For each number of workers, in each run: a whole node with a fresh schema; right after it, in the same schema, the
physical limits (see ``limits``); and the peers, where they are asked for. The sides take turns and change their order
with each run, since a machine's speed drifts. Starting the pool and enqueueing are not part of what is timed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import NewJob
from batchproc.database import connect
from batchproc.engine.node import RunOptions
from batchproc.ops.bench.figures import Spread, alternated
from batchproc.ops.bench.limits import bare_claims_per_second, commits_per_second
from batchproc.ops.bench.queue_peers import QueuePeer
from batchproc.ops.bench.schema import BenchSchema, Tell, Urls, bench_schema
from batchproc.ops.stopped import ended_by_sigterm
from batchproc.queue.campaigns import Campaigns
from batchproc.queue.store import JobStore
from batchproc.settings import KindOverride, Settings

KIND = "bench_noop"
HANDLERS = ("batchproc.ops.bench.handlers",)
TENANTS = 4
_OURS = "batchproc"


@dataclass(frozen=True, slots=True)
class QueueRun:
    """One run with so many workers. ``seconds`` is from the first claim to the last settle.

    ``commits_per_second`` and ``bare_claims_per_second`` are on one connection, ``commits_at_once_per_second`` on as
    many as there are workers. ``peers``: their jobs a second, by name.
    """

    workers: int
    jobs_per_second: float
    seconds: float
    commits_per_second: float
    commits_at_once_per_second: float
    bare_claims_per_second: float
    peers: Mapping[str, float] = field(default_factory=dict)

    def plain(self) -> dict[str, float]:
        """A row of the table."""
        return {
            "workers": self.workers,
            "jobs_per_second": round(self.jobs_per_second, 1),
            "seconds": round(self.seconds, 3),
            "commits_per_second": round(self.commits_per_second, 1),
            "commits_at_once_per_second": round(self.commits_at_once_per_second, 1),
            "bare_claims_per_second": round(self.bare_claims_per_second, 1),
            **{f"{name}_per_second": round(rate, 1) for name, rate in self.peers.items()},
        }


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
    bundle: int
    durability: Durability
    runs: tuple[QueueRun, ...]
    peers: Mapping[str, str | None] = field(default_factory=dict)
    """Versions by name, None for what is not installed; empty if they were not asked for."""
    campaign: bool = False
    """Whether the jobs were of a campaign."""

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys; rates and ratios are medians over the runs.

        At the top those of the first number of workers, all under ``by_workers``.
        """
        by_workers = [self._of(workers) for workers in dict.fromkeys(run.workers for run in self.runs)]
        return {
            **by_workers[0],
            "jobs": self.jobs,
            "bundle": self.bundle,
            "campaign": self.campaign,
            "durable": self.durability.durable,
            "synchronous_commit": self.durability.synchronous_commit,
            "fsync": self.durability.fsync,
            "server_version": self.durability.server_version,
            **({"peers": dict(self.peers)} if self.peers else {}),
            "by_workers": by_workers,
            "runs": [run.plain() for run in self.runs],
        }

    def _of(self, workers: int) -> dict[str, Any]:
        runs = [run for run in self.runs if run.workers == workers]
        rates = Spread.of(run.jobs_per_second for run in runs)
        commits = Spread.of(run.commits_per_second for run in runs).median
        claims = Spread.of(run.bare_claims_per_second for run in runs).median
        return {
            "workers": workers,
            "jobs_per_second": round(rates.median, 1),
            "least": round(rates.least, 1),
            "most": round(rates.most, 1),
            "commits_per_second": round(commits, 1),
            "commits_at_once_per_second": round(Spread.of(run.commits_at_once_per_second for run in runs).median, 1),
            "bare_claims_per_second": round(claims, 1),
            "ratio_to_commits": round(rates.median / commits, 3),
            "ratio_to_bare_claims": round(rates.median / claims, 3),
            **{f"ratio_to_{name}": self._peer_ratio(name, runs) for name in self.peers},
        }

    def _peer_ratio(self, name: str, runs: Sequence[QueueRun]) -> float | None:
        if self.peers[name] is None:
            return None
        return round(Spread.of(run.jobs_per_second / run.peers[name] for run in runs).median, 3)


def bench_queue(
    settings: Settings,
    urls: Urls,
    *,
    jobs: int,
    workers: Sequence[int],
    runs: int,
    tell: Tell,
    bundle: int = 1,
    peers: Mapping[str, QueuePeer | None] | None = None,
    campaign: bool = False,
) -> QueueBench:
    """Runs no-op jobs of a few tenants through a real node, each settled durably.

    Args:
        jobs: how many in each run, shared by the tenants.
        workers: the numbers of workers to try, in turn.
        tell: is told what goes on.
        bundle: how many jobs a worker gets at a time.
        peers: as ``queue_peers.installed_peers`` finds them; None to leave them out.
        campaign: whether the jobs are of one, as those of an import are.

    Raises:
        Stopped: by a signal.
        EnvironmentFault: the database, the pool or a peer is at fault.
    """
    peers = peers or {}
    found = {name: peer for name, peer in peers.items() if peer is not None}
    done = []
    with ended_by_sigterm():
        with connect(urls.database) as connection:
            durability = _durability(connection)
        for number in range(1, runs + 1):
            for count in workers:
                rates: dict[str, float] = {}
                for side in alternated([_OURS, *found], number):
                    tell(f"run {number} of {runs}: {side}, {jobs} jobs, {count} workers")
                    if side == _OURS:
                        ours = _run(settings, urls, jobs, count, bundle, campaign=campaign)
                    else:
                        rates[side] = found[side].jobs_per_second(jobs, count)
                        tell(f"run {number} of {runs}: {side} {rates[side]:.0f} jobs/s")
                done.append(replace(ours, peers={name: rates[name] for name in found}))
                tell(f"run {number} of {runs}: {ours.jobs_per_second:.0f} jobs/s with {count} workers")
    versions = {name: peer.version if peer is not None else None for name, peer in peers.items()}
    return QueueBench(jobs, bundle, durability, tuple(done), versions, campaign)


def _run(settings: Settings, urls: Urls, jobs: int, workers: int, bundle: int, *, campaign: bool) -> QueueRun:
    bundled = {KIND: KindOverride(bundle=bundle)}
    with bench_schema(settings, urls, handlers=HANDLERS, kinds=bundled) as schema:
        _enqueue(schema, jobs, campaign=campaign)
        schema.run(RunOptions(workers=workers), lambda *_: None)
        seconds = schema.seconds(KIND, jobs)
        return QueueRun(
            workers,
            jobs / seconds,
            seconds,
            commits_per_second(schema),
            commits_per_second(schema, workers),
            bare_claims_per_second(schema, bundle),
        )


def _enqueue(schema: BenchSchema, jobs: int, *, campaign: bool) -> None:
    store = JobStore(schema.name)
    with schema.connect() as connection, connection.transaction():
        tenants = [store.add_tenant(connection, f"bench-{n}").tenant_id for n in range(TENANTS)]
        of = Campaigns(schema.name).begin(connection, "bench queue", kind=KIND) if campaign else None
        store.enqueue_many(connection, (NewJob(tenants[n % TENANTS], KIND, campaign_id=of) for n in range(jobs)))


def _durability(connection: Connection[TupleRow]) -> Durability:
    shown = ("server_version", "fsync", "synchronous_commit")
    rows = connection.execute("select current_setting(name) from unnest(%s::text[]) name", [list(shown)]).fetchall()
    return Durability(*(str(row[0]) for row in rows))
