"""Limits of running jobs, per tenant and per kind, exact over all nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from batchproc.core.fairness import Turn
from batchproc.core.job import Claim, KindSpec
from batchproc.core.outcome import Interrupted
from batchproc.queue.kind_store import KindStore
from batchproc.queue.node_store import NodeFacts, NodeStore
from tests.queue.helpers import (
    PATIENCE,
    STORE,
    Conn,
    add_tenant,
    at_once,
    claim,
    ended,
    enqueue,
    join,
    one,
    queue_of,
    running,
    wait_for_blocked,
)

Opened = Callable[[], Conn]


def add_jobs(connection: Conn, tenant: int, kind: str, count: int, **more: Any) -> list[int]:
    return [enqueue(connection, tenant, kind, **more) for _ in range(count)]


def limit_kind(connection: Conn, kind: str, limit: int | None) -> None:
    connection.execute("update batchproc.kinds set max_running = %s where kind = %s", [limit, kind])


def by_tenant_and_kind(claims: list[Claim]) -> Counter[tuple[int, str]]:
    return Counter((claimed.tenant_id, claimed.kind) for claimed in claims)


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (1, 1), (3, 3), (99, 6), (None, 6)])
@pytest.mark.parametrize("of", ["tenant", "kind"])
def test_no_more_run_than_the_limit(connection: Conn, of: str, limit: int | None, expected: int) -> None:
    tenant, node = add_tenant(connection), join(connection)
    add_jobs(connection, tenant, "work", 6)
    if of == "tenant":
        STORE.set_tenant(connection, "acme", max_running=limit)
    else:
        limit_kind(connection, "work", limit)
    claims = claim(connection, node, Turn(queue_of(tenant), 9), limited=True)
    assert len(claims) == expected
    if limit is not None:
        assert claim(connection, node, Turn(queue_of(tenant), 9), limited=True) == []


def test_what_runs_already_counts_whoever_runs_it(connection: Conn) -> None:
    tenant, node, other = add_tenant(connection), join(connection), join(connection)
    STORE.set_tenant(connection, "acme", max_running=3)
    running(connection, other, tenant, "other")
    held = running(connection, other, tenant)
    add_jobs(connection, tenant, "work", 3)
    [claimed] = claim(connection, node, Turn(queue_of(tenant), 3), limited=True)
    settled, again = other.tick(connection, [ended(held)], [Turn(queue_of(tenant), 3)], limited=True, run_id=None)
    assert len(again) == 1, "the place that the same tick freed can be taken"
    assert settled.states
    STORE.set_tenant(connection, "acme", max_running=1)
    assert claim(connection, node, Turn(queue_of(tenant), 3), limited=True) == [], "lowered below what runs"
    assert claimed.tenant_id == tenant


def test_a_tenants_room_is_shared_by_its_queues_in_the_order_of_their_turns(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    STORE.set_tenant(connection, "acme", max_running=3)
    add_jobs(connection, tenant, "work", 5)
    add_jobs(connection, tenant, "other", 5)
    turns = [Turn(queue_of(tenant, "other"), 2), Turn(queue_of(tenant), 2)]
    assert by_tenant_and_kind(claim(connection, node, *turns, limited=True)) == {
        (tenant, "other"): 2,
        (tenant, "work"): 1,
    }


def test_a_kinds_room_is_shared_by_tenants_in_the_order_of_their_turns(connection: Conn) -> None:
    first, second, node = add_tenant(connection, "first"), add_tenant(connection, "second"), join(connection)
    limit_kind(connection, "work", 3)
    for tenant in (first, second):
        add_jobs(connection, tenant, "work", 5)
        add_jobs(connection, tenant, "other", 5)
    turns = [Turn(queue_of(second), 2), Turn(queue_of(first), 2), Turn(queue_of(first, "other"), 2)]
    assert by_tenant_and_kind(claim(connection, node, *turns, limited=True)) == {
        (second, "work"): 2,
        (first, "work"): 1,
        (first, "other"): 2,
    }


def test_priority_decides_who_gets_the_last_room(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    STORE.set_tenant(connection, "acme", max_running=2)
    add_jobs(connection, tenant, "other", 1)
    [_, urgent] = add_jobs(connection, tenant, "work", 1, priority=9) + add_jobs(
        connection, tenant, "work", 1, priority=1
    )
    turns = [Turn(queue_of(tenant, "other"), 1), Turn(queue_of(tenant), 2)]
    claims = claim(connection, node, *turns, limited=True)
    assert urgent in {claimed.job_id for claimed in claims}
    assert len(claims) == 2


def test_tenants_without_a_limit_are_not_held_up_by_the_others(connection: Conn) -> None:
    limited, free, node = add_tenant(connection, "limited"), add_tenant(connection, "free"), join(connection)
    STORE.set_tenant(connection, "limited", max_running=0)
    add_jobs(connection, limited, "work", 2)
    add_jobs(connection, free, "work", 2)
    turns = [Turn(queue_of(limited), 2), Turn(queue_of(free), 2)]
    assert by_tenant_and_kind(claim(connection, node, *turns, limited=True)) == {(free, "work"): 2}


@pytest.mark.parametrize("of", ["tenant", "kind"])
def test_four_nodes_together_keep_a_limit_exactly(connection: Conn, opened: Opened, of: str) -> None:
    tenants = [add_tenant(connection, "one"), add_tenant(connection, "two")]
    nodes = [(join(connection), opened()) for _ in range(4)]
    for tenant in tenants:
        add_jobs(connection, tenant, "work", 30, max_attempts=1000)
    if of == "tenant":
        for slug in ("one", "two"):
            STORE.set_tenant(connection, slug, max_running=3)
        most = 6
    else:
        limit_kind(connection, "work", 3)
        most = 3
    query = """
        select coalesce(max(n), 0) from (
            select count(*) as n from batchproc.processing_jobs where state = 'running' group by tenant_id) counted
    """
    turns = [Turn(queue_of(tenant), 2) for tenant in tenants]

    def take_and_give_back(store: NodeStore, own: Conn) -> list[int]:
        claims: list[Claim] = []
        seen = []
        for _ in range(25):
            endings = [ended(claimed, Interrupted("")) for claimed in claims[:2]]
            _, more = store.tick(own, endings, turns, limited=True, run_id=None)
            claims = claims[2:] + more
            seen.append(one(own, query))
        return seen

    seen = at_once([partial(take_and_give_back, store, own) for store, own in nodes])
    assert max(max(counts) for counts in seen) == 3, "the limit was reached, and never passed"
    assert one(connection, "select count(*) from batchproc.processing_jobs where state = 'running'") == most


def test_only_limited_claims_wait_for_each_other(connection: Conn, opened: Opened) -> None:
    tenant, node, first, second = add_tenant(connection), join(connection), opened(), opened()
    add_jobs(connection, tenant, "work", 3)
    turn = Turn(queue_of(tenant), 1)
    with ThreadPoolExecutor(1) as pool:
        with first.transaction():
            assert len(claim(first, node, turn, limited=True)) == 1
            waiting = pool.submit(claim, second, node, turn, limited=True)
            wait_for_blocked(connection)
            assert len(claim(connection, node, turn, limited=False)) == 1
            assert not waiting.done()
        assert len(waiting.result(PATIENCE)) == 1


@pytest.mark.parametrize(
    ("declared", "own", "expected"),
    [(2, None, 2), (2, 4, 4), (2, 1, 1), (4, 0, 0), (None, 3, 3), (None, None, 6)],
)
def test_a_limit_by_a_person_goes_before_what_the_nodes_declare_now_or_later(
    connection: Conn, declared: int | None, own: int | None, expected: int
) -> None:
    tenant = add_tenant(connection)
    specs = {"work": KindSpec("work", limit=declared)}

    def joined() -> NodeStore:
        node = NodeStore("batchproc", uuid4(), specs)
        node.join(connection, NodeFacts(node.node_id, "host", 1, 1, ("work",), (), "", ""), 3600.0)
        return node

    joined()
    if own is not None:
        KindStore("batchproc").set(connection, "work", max_running=own)
    node = joined()
    job_ids = add_jobs(connection, tenant, "work", 6)
    turn = Turn(queue_of(tenant), 6)

    [ready] = node.ready(connection)
    assert ready.limited == (expected < 6)
    if ready.limited:
        assert claim(connection, node, turn) == [], "limits are kept by a statement of their own"
    assert len(claim(connection, node, turn, limited=True)) == expected
    assert node.claim_one(connection, job_ids[-1], None, within_limits=True) is None
    KindStore("batchproc").set(connection, "work", unlimited=True)
    more = claim(connection, node, turn, limited=True)
    assert len(more) == max(0, (6 if declared is None else declared) - expected)


def test_what_a_tenant_has_no_room_for_takes_none_of_its_kind_s(connection: Conn) -> None:
    full, other, node = add_tenant(connection, "full"), add_tenant(connection, "other"), join(connection)
    STORE.set_tenant(connection, "full", max_running=1)
    limit_kind(connection, "work", 1)
    add_jobs(connection, full, "other", 1)
    add_jobs(connection, full, "work", 1)
    add_jobs(connection, other, "work", 1)
    turns = [Turn(queue_of(full, "other"), 1), Turn(queue_of(full), 1), Turn(queue_of(other), 1)]
    claims = claim(connection, node, *turns, limited=True)
    assert by_tenant_and_kind(claims) == {(full, "other"): 1, (other, "work"): 1}
