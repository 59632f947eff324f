"""``bench claim``: what it takes to choose and claim for many tenants, whatever else the table holds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from batchproc.core.job import KindSpec
from batchproc.database import SqlFolder
from batchproc.ops.bench.claiming import KIND, LIMITED_KIND, Claimer, Table, table
from batchproc.ops.bench.figures import Spread, alternated
from batchproc.ops.bench.schema import Tell, Urls, bench_schema
from batchproc.ops.stopped import ended_by_sigterm
from batchproc.queue.node_store import ReadyQueue
from batchproc.settings import Settings

_WARM_UP = 8
_COMMITS = 200
_BIG_TURN = 1000
_LIMIT = 3


@dataclass(frozen=True, slots=True)
class Sides:
    """Milliseconds of a choice and claim: the median over one run's claims, on each side of it."""

    ms: dict[str, float]
    commit_ms: float

    def told(self) -> str:
        """All sides in a few words."""
        return ", ".join(f"{name} {took:.2f} ms" for name, took in self.ms.items())


@dataclass(frozen=True, slots=True)
class ClaimBench:
    """All runs of a bench; the ratio of a run is that of ``side`` to ``base``.

    The physical limit beside them is one commit, as measured right after each run.
    """

    what: str
    shape: dict[str, int]
    base: str
    side: str
    runs: tuple[Sides, ...]

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys: medians over the runs, and their spread."""
        names = list(self.runs[0].ms)
        ratios = [run.ms[self.side] / run.ms[self.base] for run in self.runs]
        return {
            "what": self.what,
            **self.shape,
            "ratio": Spread.of(ratios).plain(3),
            "ratio_of": [self.side, self.base],
            "ms": {name: Spread.of(run.ms[name] for run in self.runs).plain(3) for name in names},
            "commit_ms": Spread.of(run.commit_ms for run in self.runs).plain(3),
            "runs": [
                {f"{name}_ms": round(took, 3) for name, took in run.ms.items()}
                | {"ratio": round(ratio, 3), "commit_ms": round(run.commit_ms, 3)}
                for run, ratio in zip(self.runs, ratios, strict=True)
            ],
        }


class _Benching:
    """The settings of one bench, and its tables while it runs."""

    def __init__(self, settings: Settings, urls: Urls, stack: ExitStack, turns: int, claims: int, tell: Tell) -> None:
        self._settings, self._urls, self._stack = settings, urls, stack
        self.turns, self.claims, self.tell = turns, claims, tell

    def table(
        self, tenants: int, jobs: int, *, share: float = 0.0, finished: int = 0, limited: int = 0, claimed: int = 0
    ) -> Table:
        """A filled table, whose first tenant has ``share`` of the jobs. With ``claimed`` the second has as many, and
        the first so many more.
        """
        schema = self._stack.enter_context(bench_schema(self._settings, self._urls))
        kinds = (KindSpec(KIND), KindSpec(LIMITED_KIND, limit=_LIMIT))
        filled = self._stack.enter_context(table(schema, *kinds))
        self.tell(f"{jobs} jobs of {tenants} tenants, {finished} finished, {limited} of a kind at its limit")
        filled.add_tenants(tenants)
        filled.add_finished(finished)
        if limited:
            filled.add_jobs(limited, (LIMITED_KIND,), priority=1)
        filled.add_jobs(jobs, share=share)
        if claimed:
            filled.add_jobs(claimed, tenants=slice(0, 1))
            filled.add_jobs(round(jobs * share), tenants=slice(1, 2))
        filled.vacuum()
        filled.connection.execute(SqlFolder("batchproc.ops.bench", schema.name)["bench_commit_table"])
        return filled

    def small(self, runs: int) -> Table:
        """As many jobs as the bench claims, and few more."""
        tenants = 2 * self.turns
        return self.table(tenants, 2 * (runs * self.claims + _WARM_UP) * self.turns + tenants)


def bench_claim(
    settings: Settings,
    urls: Urls,
    *,
    jobs: int,
    tenants: int,
    finished: int,
    turns: int,
    claims: int,
    runs: int,
    tell: Tell,
) -> ClaimBench:
    """Claims for ``turns`` tenants at a time, by turns on a large table and on a small one.

    Args:
        jobs: that wait in the large table, half of them of one tenant.
        finished: that have ended, beside them.
        claims: of each side, in each run.

    Raises:
        Stopped: by a signal, or there are too few jobs.
    """
    with ended_by_sigterm(), ExitStack() as stack:
        benching = _Benching(settings, urls, stack, turns, claims, tell)
        tables = {
            "small": benching.small(runs),
            "large": benching.table(tenants, jobs, share=0.5, finished=finished),
        }
        claimers = {name: _warm(filled, turns) for name, filled in tables.items()}
        done = []
        for number in range(1, runs + 1):
            took = _by_turns([Side(name, claimers[name], turns) for name in tables], claims)
            done.append(Sides({name: 1000 * median(took[name]) for name in tables}, _commit_ms(tables["small"])))
            tell(f"run {number} of {runs}: {done[-1].told()}")
    shape = {"jobs": jobs, "tenants": tenants, "finished": finished, "turns": turns}
    return ClaimBench("table", shape, "small", "large", tuple(done))


def bench_claim_under_snapshot(
    settings: Settings,
    urls: Urls,
    *,
    jobs: int,
    tenants: int,
    claimed: int,
    turns: int,
    claims: int,
    runs: int,
    tell: Tell,
) -> ClaimBench:
    """Claims for a tenant with half of all jobs and ``turns - 1`` others, while another session holds an old snapshot.

    By turns: for a tenant of whom nobody has claimed yet (``before``), and for one of whom ``claimed`` jobs were
    claimed under that snapshot, with the floors of queues, and from their fronts, as without floors.

    Args:
        jobs: that wait for each of the two, half of them theirs alone.
        claims: of each side, in each run.

    Raises:
        Stopped: by a signal, or there are too few jobs.
    """
    with ended_by_sigterm(), ExitStack() as stack:
        benching = _Benching(settings, urls, stack, turns, claims, tell)
        filled = benching.table(tenants, jobs, share=0.5, claimed=claimed)
        big, untouched, *others = sorted(filled.node.ready(filled.connection), key=lambda ready: ready.queue)
        groups = iter(range(0, len(others), turns - 1))

        def side(name: str, first: ReadyQueue) -> Side:
            """A node that begins anew, for that tenant and others of whom nobody claimed yet."""
            return Side(name, Claimer(filled, [first, *others[(at := next(groups)) : at + turns - 1]]), turns)

        with _old_snapshot(filled):
            tell(f"claiming {claimed} jobs of one tenant under an old snapshot")
            alone = Claimer(filled, [big])
            while alone.claimed < claimed:
                alone.claim(_BIG_TURN)
            done = []
            for number in range(1, runs + 1):
                sides = [side("before", untouched), side("floors", big), side("no_floors", big)]
                took = _by_turns(sides, claims)
                done.append(Sides({one.name: 1000 * median(took[one.name]) for one in sides}, _commit_ms(filled)))
                tell(f"run {number} of {runs}: {done[-1].told()}")
    shape = {"jobs": jobs, "tenants": tenants, "claimed": claimed, "turns": turns}
    return ClaimBench("snapshot", shape, "before", "floors", tuple(done))


def bench_claim_at_limit(
    settings: Settings,
    urls: Urls,
    *,
    jobs: int,
    tenants: int,
    limited: int,
    turns: int,
    claims: int,
    runs: int,
    tell: Tell,
) -> ClaimBench:
    """Claims where ``limited`` jobs of a kind at its limit, spread over the same tenants, are ahead of all others by
    their priority, by turns with claims where there are none. Each side looks for ready queues once in a second.

    What is timed is all that is claimed in vain, too: the time of all claims of a run, for each ``turns`` jobs claimed.

    Raises:
        Stopped: by a signal, or there are too few jobs.
    """
    with ended_by_sigterm(), ExitStack() as stack:
        benching = _Benching(settings, urls, stack, turns, claims, tell)
        tables = {
            "without": benching.table(tenants, jobs),
            "at_limit": benching.table(tenants, jobs, limited=limited),
        }
        claimers = {name: _warm(filled, turns) for name, filled in tables.items()}
        done = []
        for number in range(1, runs + 1):
            before = {name: claimer.claimed for name, claimer in claimers.items()}
            took = _by_turns([Side(name, claimers[name], turns) for name in tables], claims, look=True)
            ms = {name: 1000 * sum(took[name]) * turns / (claimers[name].claimed - before[name]) for name in tables}
            done.append(Sides(ms, _commit_ms(tables["without"])))
            tell(f"run {number} of {runs}: {done[-1].told()}")
    shape = {"jobs": jobs, "tenants": tenants, "limited": limited, "turns": turns}
    return ClaimBench("at_limit", shape, "without", "at_limit", tuple(done))


class Side(NamedTuple):
    """One of the nodes that claim by turns."""

    name: str
    claimer: Claimer
    turns: int


def _by_turns(sides: Sequence[Side], claims: int, *, look: bool = False) -> dict[str, list[float]]:
    """Seconds of each claim, one on each side after the other: what the machine does beside falls on all of them.

    Args:
        look: for ready queues, once in a second; what a claim takes longer for that counts, the look does not.
    """
    took: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(1, claims + 1):
        for name in alternated(list(took), number):
            side = next(side for side in sides if side.name == name)
            if look:
                side.claimer.look_if_due()
            took[name].append(side.claimer.claim(side.turns, from_the_front=name == "no_floors"))
    return took


def _warm(filled: Table, turns: int) -> Claimer:
    claimer = Claimer(filled, filled.node.ready(filled.connection), filled.node.rooms(filled.connection))
    claimer.claim_often(_WARM_UP, turns)
    return claimer


@contextmanager
def _old_snapshot(filled: Table) -> Iterator[None]:
    """Another session that began to read and has not ended, as a dump or a report does."""
    with filled.schema.connect() as other, other.transaction():
        other.execute("set transaction isolation level repeatable read")
        other.execute("select 1")
        yield


def _commit_ms(filled: Table) -> float:
    """Of a one-row commit: what each claim costs at least."""
    sql = SqlFolder("batchproc.ops.bench", filled.schema.name)
    with filled.schema.connect() as connection:
        begun = time.perf_counter()
        for number in range(_COMMITS):
            connection.execute(sql["bench_commit"], [number])
        took = time.perf_counter() - begun
    return 1000 * took / _COMMITS
