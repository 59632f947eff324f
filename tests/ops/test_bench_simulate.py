"""``bench simulate``: that the model keeps what is known of it without a simulation, and that the bench runs."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchproc.cli import main
from batchproc.cli.benches.simulate import command
from batchproc.database import connect
from batchproc.ops.bench import database_costs
from batchproc.ops.bench.simulate import bench_simulate, databases_needed, demand, most_nodes
from batchproc.ops.bench.simulation import Costs, Database, Setting, Simulation
from batchproc.ops.bench.simulation_load import Load, night
from tests.ops.bench_command import by_command

COSTS = Costs(
    tick=1e-3,
    settle_and_claim=1e-4,
    refresh_queue=8e-6,
    notify_listener=2e-5,
    lease=1e-4,
    promote=3e-5,
    latency=5e-4,
)
LOAD = Load(tenants=5000, documents=1_000_000)
SETTING = Setting(nodes=5, slots=16, cores=4.0)


def mean() -> float:
    return LOAD.mean_seconds(Random(1))


def test_nothing_is_done_that_no_slot_had_time_for_and_idle_slots_are_few() -> None:
    figures = Simulation(SETTING, LOAD, COSTS, Random(2), warm_up=30).run(120)
    assert 0.95 < figures.slot_seconds / 120 / (5 * 16) <= 1.0
    needed = demand(SETTING, LOAD, COSTS, mean())
    assert figures.documents / 120 == pytest.approx(needed.documents_per_second, rel=0.1)
    assert figures.claims / 120 == pytest.approx(needed.claims_per_second, rel=0.1)
    busy = sum(figures.core_seconds.values()) / 120
    assert busy == pytest.approx(needed.core_seconds, rel=0.15), "the closed formula says the same"


def test_few_tenants_are_served_as_many_are() -> None:
    """All are known to each node then, with their follow-ups, by the other way."""
    few = replace(LOAD, tenants=20)
    figures = Simulation(SETTING, few, COSTS, Random(2), warm_up=30).run(60)
    needed = demand(SETTING, few, COSTS, mean())
    assert figures.claims / 60 == pytest.approx(needed.claims_per_second, rel=0.15)


def test_a_database_that_is_too_small_gives_what_it_has() -> None:
    dear = replace(COSTS, tick=0.5)
    figures = Simulation(replace(SETTING, cores=1.0), LOAD, dear, Random(3), warm_up=30).run(60)
    assert sum(figures.core_seconds.values()) / 60 <= 1.2
    assert figures.slot_seconds / 60 / (5 * 16) < 0.9
    assert figures.documents > 0


def test_ticks_that_wait_for_more_are_fewer_and_cost_slots_time() -> None:
    eager = Simulation(SETTING, LOAD, COSTS, Random(4), warm_up=30).run(60)
    patient = Simulation(replace(SETTING, gather=1.0), LOAD, COSTS, Random(4), warm_up=30).run(60)
    assert len(patient.tick_seconds) <= 60 * 5 + 5 < len(eager.tick_seconds)
    assert patient.slot_seconds < eager.slot_seconds


def test_bundles_leave_slots_to_what_takes_long() -> None:
    gathered = replace(SETTING, gather=1.0)
    one = Simulation(gathered, LOAD, COSTS, Random(4), warm_up=30).run(60)
    many = Simulation(replace(gathered, bundle=64), LOAD, COSTS, Random(4), warm_up=30).run(60)
    assert many.documents > one.documents


@given(
    works=st.lists(st.floats(0.001, 1.0), min_size=1, max_size=50),
    cores=st.sampled_from([0.5, 1.0, 2.0, 8.0]),
)
def test_a_database_never_does_more_than_its_cores_can(works: list[float], cores: float) -> None:
    database = Database(cores)
    ends = [database.serve(0.0, work) for work in works]
    assert max(ends) >= sum(works) / cores / 2.0 - 1e-9, "asked all at once; judged when asked, so only about"
    assert all(end >= work for end, work in zip(ends, works, strict=True))


@settings(deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=60))
def test_the_night_as_a_flow_is_that_of_a_round_robin(sizes: list[int]) -> None:
    left, served = dict(enumerate(sizes)), 0
    done: list[int] = []
    while left:
        served += len(left)
        left = {tenant: size - 1 for tenant, size in left.items() if size > 1}
        done += [served] * (len(sizes) - len(left) - len(done))
    flow = night(sizes, 1.0)
    assert flow.seconds == done[-1] == sum(sizes)
    assert flow.half_of_tenants == done[(len(sizes) - 1) // 2]


def test_the_load_is_what_it_says() -> None:
    sizes = LOAD.sizes()
    assert sum(sizes) == pytest.approx(LOAD.documents, rel=0.01)
    assert sizes[0] == pytest.approx(10 * sizes[9], rel=0.01)
    random = Random(5)
    pages = sorted(LOAD.job_pages(random) for _ in range(4001))
    assert pages[2000] == 3
    assert (pages[0], pages[-1]) == (1, LOAD.most_pages)
    assert LOAD.mean_seconds(Random(6)) == pytest.approx(LOAD.page_seconds * sum(pages) / len(pages), rel=0.05)


def test_more_databases_are_asked_for_until_each_has_room() -> None:
    big = Setting(nodes=1000, slots=64, cores=2.0, poll_interval=30.0, gather=1.0, bundle=64)
    load = Load(tenants=100_000, documents=50_000_000)
    databases = databases_needed(big, load, COSTS, mean())
    assert databases > 1
    assert most_nodes(big, load, COSTS, mean()) < 1000
    part = replace(load, tenants=load.tenants // databases)
    share = replace(big, nodes=1000 // databases, uploads=big.uploads / databases)
    assert demand(share, part, COSTS, mean()).core_seconds <= 0.6 * 2.0 * 1.05


def test_the_command_is_for_the_archive_that_the_documentation_tells_of() -> None:
    defaults = {parameter.name: parameter.default for parameter in command.params}
    assert (defaults["nodes"], defaults["slots"], defaults["tenants"]) == (1000, 64, 100_000)
    assert (defaults["documents"], defaults["queues"]) == (50_000_000, 10_000)


def test_the_bench_measures_and_simulates(database_url: str) -> None:
    told: list[str] = []
    size = ("--nodes", "4", "--slots", "8", "--tenants", "300", "--documents", "3000", "--cores", "2")
    measured = ("--window", "5", "--queues", "70", "--seconds", "0.05")
    plain = by_command(bench_simulate, database_url, "simulate", *size, *measured, tell=told.append).plain()
    assert [row["nodes"] for row in plain["runs"]] == [1, 4, 4, 4, 4, 4]
    assert set(plain["costs_us"]) == set(Costs.__dataclass_fields__)
    assert min(plain["costs_us"].values()) >= 0
    assert all(0 < row["slots_busy"] <= 1 for row in plain["runs"])
    assert len(told) == 1 + len(plain["runs"])
    with connect(database_url) as connection:
        rows = connection.execute("select nspname from pg_namespace where nspname like 'batchproc_bench%'")
        assert rows.fetchall() == []


def test_costs_that_cannot_be_told_apart_are_a_named_failure(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when somebody else took the machine meanwhile."""
    monkeypatch.setattr(database_costs._Measuring, "_tick", lambda *_: (0.002, 0.002))
    small = ("--tenants", "100", "--documents", "500", "--queues", "10", "--seconds", "0.01")
    assert main.run(["--database", database_url, "bench", "simulate", *small]) == 3
    assert "the cost of a claim could not be told" in capsys.readouterr().err
