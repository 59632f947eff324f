"""Whose turn it was is remembered from one run to the next, on the real thing."""

from __future__ import annotations

from uuid import UUID, uuid4

import psycopg
import pytest

from batchproc.database import connect
from batchproc.engine.last_turns import WRITE_SECONDS, LastTurns
from batchproc.engine.node import RunOptions
from batchproc.queue.node_store import NodeFacts, NodeStore
from batchproc.queue.turn_store import TurnStore
from tests.engine.running import Bench


class Clock:
    """Moved by the test."""

    def __init__(self) -> None:
        self.now = 500.0

    def __call__(self) -> float:
        return self.now


def tenants(bench: Bench, count: int) -> list[int]:
    return [bench.tenant(f"t{number}") for number in range(count)]


def joined(bench: Bench, slots: int = 1) -> UUID:
    store = NodeStore("batchproc", uuid4(), {})
    store.join(bench.connection, NodeFacts(store.node_id, "test", 1, slots, (), (), "", ""), 60)
    return store.node_id


def first_round(bench: Bench) -> list[int]:
    return TurnStore("batchproc", joined(bench)).first_round(bench.connection)


def remembered(bench: Bench) -> dict[int, float]:
    """Seconds since each tenant's last turn, by the database's word."""
    return dict(
        bench.rows(
            "select tenant_id, extract(epoch from clock_timestamp() - last_turn_at)::float8 from batchproc.tenant_turns"
        )
    )


def served(bench: Bench, run_id: int) -> list[int]:
    rows = bench.rows("select tenant_id from batchproc.processing_jobs where run_id = %s order by claimed_at", run_id)
    return [row[0] for row in rows]


@pytest.mark.parametrize("fairness", ["round_robin", "worker_seconds"])
def test_runs_that_are_cut_off_serve_other_tenants_each_time(bench: Bench, fairness: str) -> None:
    everybody = tenants(bench, 9)
    for tenant in everybody:
        for _ in range(4):
            bench.enqueue(tenant, "t_quick")

    def run(max_jobs: int) -> list[int]:
        # One at a time: of jobs that are claimed together nothing tells which was chosen first.
        report = bench.run(RunOptions(workers=1, max_jobs=max_jobs), dispatch={"fairness": fairness})
        return served(bench, report.run_id)

    first, second = run(4), run(4)
    assert len({*first, *second}) == 8
    third = run(3)
    assert third[0] not in first + second, "whoever never had a turn is first"
    assert set(third[1:]) <= set(first), "then those whose last one is longest ago"
    assert set(remembered(bench)) == set(everybody)


def test_a_run_for_one_tenant_is_remembered_by_the_next_one_for_all(bench: Bench) -> None:
    one, other = tenants(bench, 2)
    for tenant in (one, one, other):
        bench.enqueue(tenant, "t_quick")
    bench.run(RunOptions(workers=1, max_jobs=1))
    assert served(bench, bench.run(RunOptions(workers=1, max_jobs=1)).run_id) == [other]


def test_what_is_noted_is_written_with_its_age_and_never_put_back(bench: Bench) -> None:
    early, late, never = tenants(bench, 3)
    clock = Clock()
    turns = LastTurns(TurnStore("batchproc", uuid4()), clock)
    turns.note([early])
    clock.now += 100
    turns.note([late])
    turns.write_if_due(bench.connection)
    assert remembered(bench)[early] == pytest.approx(100, abs=5)
    assert first_round(bench) == [never, early, late]

    turns.note([never])
    clock.now += WRITE_SECONDS - 1
    turns.write_if_due(bench.connection)
    assert never not in remembered(bench), "not so soon"
    clock.now += 1
    turns.write_if_due(bench.connection)
    assert never in remembered(bench)

    behind = LastTurns(TurnStore("batchproc", uuid4()), clock)
    behind.note([late])
    clock.now += 50
    behind.write(bench.connection)
    assert remembered(bench)[late] == pytest.approx(0, abs=5), "another node has written of a later turn"


def test_a_row_that_somebody_holds_is_written_another_time(bench: Bench) -> None:
    one, other = tenants(bench, 2)
    clock = Clock()
    turns = LastTurns(TurnStore("batchproc", uuid4()), clock)
    turns.note([one, other])
    clock.now += 1000
    turns.write(bench.connection)
    turns.note([one])
    with connect(bench.url) as holder, connect(bench.url, settings={"lock_timeout": "50ms"}) as connection:
        with holder.transaction():
            holder.execute("select from batchproc.tenant_turns where tenant_id = %s for update", [one])
            turns.write(connection)
        assert remembered(bench)[one] >= 1000
        turns.note([other])
        turns.write(connection)
    assert max(remembered(bench).values()) < 900


def test_a_database_that_fails_makes_nothing_forgotten(bench: Bench) -> None:
    (tenant,) = tenants(bench, 1)
    turns = LastTurns(TurnStore("batchproc", uuid4()))
    turns.note([tenant])
    with connect(bench.url) as gone:
        gone.close()
        with pytest.raises(psycopg.OperationalError):
            turns.write(gone)
    turns.write(bench.connection)
    assert tenant in remembered(bench)


def test_nodes_that_start_together_begin_with_different_tenants(bench: Bench) -> None:
    everybody = tenants(bench, 9)
    nodes = [joined(bench) for _ in range(3)]
    rounds = [TurnStore("batchproc", node).first_round(bench.connection) for node in nodes]
    assert [sorted(order) for order in rounds] == [everybody] * 3
    begins = [order[:3] for order in rounds]
    assert sorted(tenant for begin in begins for tenant in begin) == everybody
    for begin in begins:
        assert begin == sorted(begin), "each its share of those that waited longest, in that order"


def test_a_node_that_is_gone_leaves_its_share_to_the_others(bench: Bench) -> None:
    everybody = tenants(bench, 4)
    joined(bench)
    bench.connection.execute("update batchproc.nodes set lease_until = clock_timestamp() - interval '1 s'")
    assert first_round(bench) == everybody
