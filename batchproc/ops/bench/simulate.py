"""``bench simulate``: what an archive far beyond this machine would ask of its database, and what it would take."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any

from batchproc.ops.bench.database_costs import measure_costs
from batchproc.ops.bench.figures import counted, percentile
from batchproc.ops.bench.schema import Tell, Urls, bench_schema
from batchproc.ops.bench.simulation import Costs, Figures, Setting, Simulation
from batchproc.ops.bench.simulation_load import Load, Night, night
from batchproc.ops.stopped import ended_by_sigterm
from batchproc.settings import Settings

ROOMY = 0.6
"""The share of its cores that a database should be busy for, so that a tick seldom waits."""
_SEED = 20_260_101
_RARE_LOOKS, _GATHER, _BUNDLE = 30.0, 1.0, 64
_MOST_DATABASES = 4096
_WARM_UP = 2.0  # windows: where the database is the bottleneck, the jobs of the beginning are to be over by then


@dataclass(frozen=True, slots=True)
class Scenario:
    """A part of the archive on one database: all of it, or one of several equal parts."""

    name: str
    setting: Setting
    load: Load
    databases: int
    figures: Figures


@dataclass(frozen=True, slots=True)
class Demand:
    """What so many slots would get done if none ever waited, and what that asks of the database."""

    documents_per_second: float
    claims_per_second: float
    core_seconds: float


@dataclass(frozen=True, slots=True)
class SimulateBench:
    """The measured costs, the load, and what came of it."""

    nodes: int
    slots: int
    cores: float
    load: Load
    costs: Costs
    mean_job_seconds: float
    needed: Demand
    night: Night
    ends_at: int
    ends_at_with_all: int
    scenarios: tuple[Scenario, ...]

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys. Costs in microseconds of a core."""
        return {
            "nodes": self.nodes,
            "slots": self.slots,
            "database_cores": self.cores,
            "tenants": self.load.tenants,
            "documents": self.load.documents,
            "mean_job_seconds": round(self.mean_job_seconds, 2),
            "claims_per_second_needed": round(self.needed.claims_per_second),
            "core_seconds_per_second_needed": round(self.needed.core_seconds, 1),
            "claims_per_second_of_one_database": round(self.cores / self.costs.settle_and_claim),
            "nodes_of_one_database": self.ends_at,
            "nodes_of_one_database_with_all": self.ends_at_with_all,
            "night_hours": round(self.night.seconds / 3600, 2),
            "half_of_tenants_done_after_hours": round(self.night.half_of_tenants / 3600, 2),
            "99_of_100_tenants_done_after_hours": round(self.night.most_of_tenants / 3600, 2),
            "costs_us": {name: round(1e6 * value, 2) for name, value in asdict(self.costs).items()},
            "runs": [_row(scenario) for scenario in self.scenarios],
        }


def bench_simulate(
    settings: Settings,
    urls: Urls,
    *,
    nodes: int,
    slots: int,
    load: Load,
    cores: float,
    window: float,
    queues: int,
    seconds: float,
    tell: Tell,
) -> SimulateBench:
    """Measures what the database's work costs here, and simulates that many nodes on such a database.

    Args:
        cores: of the database's server.
        window: seconds that are simulated of each scenario, after twice as many to settle in.
        queues, seconds: with so many ready queues, and for so long, is each cost measured.

    Raises:
        Stopped: by a signal.
        EnvironmentFault: the database is at fault.
    """
    with ended_by_sigterm():
        tell("measuring what the database's work costs")
        with bench_schema(settings, urls) as schema:
            costs = measure_costs(schema, queues=queues, seconds=seconds)
        mean = load.mean_seconds(_random())
        as_it_is = Setting(nodes, slots, cores)
        with_all = replace(as_it_is, poll_interval=_RARE_LOOKS, gather=_GATHER, bundle=_BUNDLE)
        needed = demand(as_it_is, load, costs, mean)
        scenarios = []
        for name, setting, databases in _plans(as_it_is, with_all, load, costs, mean):
            tell(f"simulating {name}")
            part = _part(load, databases)
            simulation = Simulation(setting, part, costs, _random(), warm_up=_WARM_UP * window)
            with _without_collections():
                scenarios.append(Scenario(name, setting, part, databases, simulation.run(window)))
    return SimulateBench(
        nodes=nodes,
        slots=slots,
        cores=cores,
        load=load,
        costs=costs,
        mean_job_seconds=mean,
        needed=needed,
        night=night(load.sizes(), needed.documents_per_second),
        ends_at=most_nodes(as_it_is, load, costs, mean),
        ends_at_with_all=most_nodes(with_all, load, costs, mean),
        scenarios=tuple(scenarios),
    )


def demand(setting: Setting, load: Load, costs: Costs, mean_job_seconds: float) -> Demand:
    """What the nodes ask of one database if no slot waits for it.

    Each document is two jobs, and what fails is tried again. A tick settles and claims what ended since the last one:
    one slot's work where nothing is gathered.
    """
    documents = setting.nodes * setting.slots / (mean_job_seconds / (1 - load.failing) + load.classify_seconds)
    claims = documents * (1 + 1 / (1 - load.failing))
    endings = documents * (1 / (1 - load.failing) + 1 / setting.bundle)
    ticks = min(endings, setting.nodes / setting.gather) if setting.gather else endings
    looks = setting.nodes / setting.poll_interval
    core_seconds = (
        ticks * costs.tick
        + claims * costs.settle_and_claim
        + looks * load.tenants * costs.refresh_queue
        + setting.nodes / (setting.lease / 3) * costs.lease
        + setting.uploads * setting.nodes * costs.notify_listener
        + documents * load.failing * costs.promote
    )
    return Demand(documents, claims, core_seconds)


def most_nodes(setting: Setting, load: Load, costs: Costs, mean_job_seconds: float) -> int:
    """How many such nodes one database serves before it is busy all the time; none of them then waits for long."""
    one = demand(replace(setting, nodes=1), load, costs, mean_job_seconds)
    return int(setting.cores / one.core_seconds)


def databases_needed(setting: Setting, load: Load, costs: Costs, mean_job_seconds: float) -> int:
    """The least power of two so that each, with its part of the tenants and nodes, is busy for ``ROOMY`` at most."""
    databases = 1
    while databases < _MOST_DATABASES:
        wanted = demand(_share(setting, databases), _part(load, databases), costs, mean_job_seconds).core_seconds
        if wanted <= ROOMY * setting.cores or _share(setting, databases).nodes == 1:
            return databases
        databases *= 2
    return databases


@contextmanager
def _without_collections() -> Iterator[None]:
    """Nothing in a simulation refers to itself, and to look for that took half of its time at 1,000 nodes."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _random() -> Random:
    """The same for each scenario."""
    return Random(_SEED)  # noqa: S311 - nothing secret depends on it


def _plans(
    as_it_is: Setting, with_all: Setting, load: Load, costs: Costs, mean: float
) -> list[tuple[str, Setting, int]]:
    """Smaller archives as it is; then one remedy after the other."""
    plans = [
        (counted(nodes, "node"), replace(as_it_is, nodes=nodes), 1)
        for nodes in sorted({max(1, as_it_is.nodes // part) for part in (100, 10, 1)})
    ]
    rare = replace(as_it_is, poll_interval=with_all.poll_interval)
    gathered = replace(rare, gather=with_all.gather)
    plans += [
        (f"a look every {with_all.poll_interval:g} s", rare, 1),
        (f"and a tick a {with_all.gather:g} s", gathered, 1),
        (f"and bundles of {with_all.bundle}", with_all, 1),
    ]
    databases = databases_needed(with_all, load, costs, mean)
    plans.append((f"and {counted(databases, 'database')}", _share(with_all, databases), databases))
    return plans


def _share(setting: Setting, databases: int) -> Setting:
    return replace(setting, nodes=max(1, round(setting.nodes / databases)), uploads=setting.uploads / databases)


def _part(load: Load, databases: int) -> Load:
    """Tenants by hash: each database has large ones and small ones."""
    return replace(load, tenants=max(1, load.tenants // databases), documents=max(1, load.documents // databases))


def _row(scenario: Scenario) -> dict[str, Any]:
    figures, setting = scenario.figures, scenario.setting
    slots = setting.nodes * setting.slots
    ticks: Sequence[float] = figures.tick_seconds or [0.0]
    return {
        "scenario": scenario.name,
        "nodes": setting.nodes * scenario.databases,
        "databases": scenario.databases,
        "documents_per_second": round(figures.documents * scenario.databases / figures.seconds, 1),
        "claims_per_second": round(figures.claims * scenario.databases / figures.seconds, 1),
        "slots_busy": round(figures.slot_seconds / figures.seconds / slots, 3),
        "cores_busy": round(sum(figures.core_seconds.values()) / figures.seconds, 2),
        "of_them_looks": round(figures.core_seconds["refresh"] / figures.seconds, 2),
        "of_them_ticks": round(figures.core_seconds["ticks"] / figures.seconds, 2),
        "tick_p50_ms": round(1000 * percentile(ticks, 0.5), 1),
        "tick_p99_ms": round(1000 * percentile(ticks, 0.99), 1),
    }
