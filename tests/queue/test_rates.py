"""Rates of kinds: a bucket of tokens in the database, exact over all nodes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from batchproc.core.fairness import Turn
from batchproc.core.job import Claim, KindSpec
from batchproc.core.limit_room import Room, Rooms
from batchproc.core.outcome import Interrupted
from batchproc.queue.kind_store import KindStore
from batchproc.queue.node_store import NodeFacts, NodeStore
from tests.queue.helpers import Conn, add_tenant, at_once, claim, ended, enqueue, join, now, one, queue_of, wait_until

Opened = Callable[[], Conn]
KINDS = KindStore("batchproc")


def rated(connection: Conn, jobs: int, rate: float, burst: int | None = None) -> tuple[int, NodeStore]:
    tenant, node = add_tenant(connection), join(connection)
    KINDS.set(connection, "work", rate=rate, burst=burst)
    for _ in range(jobs):
        enqueue(connection, tenant, max_attempts=1000)
    return tenant, node


def claimed_and_room(connection: Conn, node: NodeStore, tenant: int, jobs: int = 9) -> tuple[int, Room]:
    rooms = Rooms()
    turns = [Turn(queue_of(tenant), jobs)]
    _, claims = node.tick(connection, [], turns, limited=True, run_id=None, rooms=rooms)
    return len(claims), rooms.kinds["work"]


@pytest.mark.parametrize(("rate", "burst", "expected"), [(0.001, 3, 3), (0.001, None, 1), (2.5, None, 3), (5.0, 1, 1)])
def test_after_a_pause_a_burst_is_claimed_and_no_more(
    connection: Conn, rate: float, burst: int | None, expected: int
) -> None:
    tenant, node = rated(connection, 6, rate, burst)
    begun = now(connection)
    count, room = claimed_and_room(connection, node, tenant)
    assert expected <= count <= expected + rate * (now(connection) - begun).total_seconds()
    assert room.jobs == 0
    assert room.seconds is not None
    assert 0 < room.seconds <= 1 / rate


def test_tokens_come_with_time_and_are_not_saved_beyond_the_burst(connection: Conn) -> None:
    tenant, node = rated(connection, 9, rate=1 / 3600, burst=3)
    assert claimed_and_room(connection, node, tenant)[0] == 3
    for hours, expected in ((0.5, 0), (0.6, 1), (1.0, 1), (50.0, 3)):
        connection.execute("update batchproc.kinds set refilled_at = refilled_at - %s", [timedelta(hours=hours)])
        assert claimed_and_room(connection, node, tenant)[0] == expected, hours


def test_a_clock_that_was_set_back_gives_no_tokens_and_takes_none(connection: Conn) -> None:
    tenant, node = rated(connection, 9, rate=1 / 3600, burst=3)
    assert claimed_and_room(connection, node, tenant, 1) == (1, Room(2))
    connection.execute("update batchproc.kinds set refilled_at = refilled_at + interval '1 day'")
    assert claimed_and_room(connection, node, tenant)[0] == 2


def test_the_seconds_to_the_next_token_are_right(connection: Conn) -> None:
    tenant, node = rated(connection, 9, rate=0.5, burst=1)
    _, room = claimed_and_room(connection, node, tenant)
    assert room.seconds is not None
    asked = node.rooms(connection).kinds["work"].seconds
    assert asked is not None
    assert asked <= room.seconds
    begun = time.monotonic()
    wait_until(lambda: claimed_and_room(connection, node, tenant)[0] == 1, "a token")
    assert time.monotonic() - begun > room.seconds - 0.2


@pytest.mark.parametrize("nodes", [2, 4])
def test_in_any_time_several_nodes_begin_no_more_than_burst_and_rate_allow(
    connection: Conn, opened: Opened, nodes: int
) -> None:
    tenant, _ = rated(connection, 200, rate=20.0, burst=5)
    stores = [(join(connection), opened()) for _ in range(nodes)]
    lock, begun, total = threading.Lock(), now(connection), 0
    seen: list[tuple[float, int]] = []

    def take(store: NodeStore, own: Conn) -> int:
        nonlocal total
        claims: list[Claim] = []
        seconds = 0.0
        while seconds < 1.5:
            turns = [Turn(queue_of(tenant), 3)]
            _, claims = store.tick(own, [ended(claim) for claim in claims], turns, limited=True, run_id=None)
            with lock:
                total += len(claims)
                # Whatever was counted was claimed before this moment.
                seconds = (now(own) - begun).total_seconds()
                seen.append((seconds, total))
        return 0

    at_once([partial(take, store, own) for store, own in stores])
    assert [(seconds, count) for seconds, count in seen if count > 5 + 20 * seconds] == []
    assert seen[-1][1] > 5 + 5, "tokens came"


def test_a_rate_is_kept_by_its_own_statement_and_holds_nothing_else_up(connection: Conn, opened: Opened) -> None:
    tenant, node = rated(connection, 3, rate=1000.0, burst=3)
    enqueue(connection, tenant, "other")
    turns = [Turn(queue_of(tenant), 3), Turn(queue_of(tenant, "other"), 1)]
    assert {ready.queue.kind: ready.limited for ready in node.ready(connection)} == {"work": True, "other": False}
    somebody = opened()
    with somebody.transaction():
        somebody.execute("select from batchproc.kinds where kind = 'work' for update")
        assert [claimed.kind for claimed in claim(connection, node, *turns, limited=True)] == ["other"], (
            "not waited for"
        )
    assert claim(connection, node, *turns, limited=False) == []
    assert len(claim(connection, node, *turns, limited=True)) == 3


def test_a_limit_and_a_rate_hold_together(connection: Conn) -> None:
    tenant, node = rated(connection, 9, rate=0.001, burst=5)
    KINDS.set(connection, "work", max_running=2)
    count, room = claimed_and_room(connection, node, tenant)
    assert (count, room) == (2, Room(0)), "a token is there, and would not help"
    KINDS.set(connection, "work", max_running=9)
    assert claimed_and_room(connection, node, tenant)[0] == 3


def test_tokens_are_shared_by_tenants_in_the_order_of_their_turns(connection: Conn) -> None:
    tenant, node = rated(connection, 5, rate=0.001, burst=3)
    other = add_tenant(connection, "other")
    for _ in range(5):
        enqueue(connection, other)
    claims = claim(connection, node, Turn(queue_of(other), 2), Turn(queue_of(tenant), 2), limited=True)
    assert sorted(claimed.tenant_id for claimed in claims) == sorted([other, other, tenant])


def test_a_job_that_was_given_back_to_run_alone_needs_no_second_token(connection: Conn) -> None:
    tenant, node = rated(connection, 1, rate=0.001, burst=1)
    [claimed] = claim(connection, node, Turn(queue_of(tenant), 1), limited=True)
    node.settle(connection, [ended(claimed, Interrupted("it has to run alone"))])
    assert claim(connection, node, Turn(queue_of(tenant), 1), limited=True) == []
    assert node.claim_one(connection, claimed.job_id, None, within_limits=True) is not None


@pytest.mark.parametrize(
    ("declared", "own", "expected"),
    [((0.001, 2), None, 2), ((0.001, 2), (0.001, 4), 4), ((0.001, 2), (0.001, None), 1), (None, (0.001, 3), 3)],
)
def test_a_rate_by_a_person_goes_before_what_the_nodes_declare_now_or_later(
    connection: Conn, declared: tuple[float, int] | None, own: tuple[float, int | None] | None, expected: int
) -> None:
    rate, burst = declared or (None, None)
    specs = {"work": KindSpec("work", rate=rate, burst=burst)}

    def joined() -> NodeStore:
        node = NodeStore("batchproc", uuid4(), specs)
        node.join(connection, NodeFacts(node.node_id, "host", 1, 1, ("work",), (), "", ""), 3600.0)
        return node

    joined()
    if own is not None:
        KINDS.set(connection, "work", rate=own[0], burst=own[1])
    node, tenant = joined(), add_tenant(connection)
    for _ in range(6):
        enqueue(connection, tenant)
    assert len(claim(connection, node, Turn(queue_of(tenant), 6), limited=True)) == expected
    KINDS.set(connection, "work", unrated=True)
    more = claim(connection, node, Turn(queue_of(tenant), 6), limited=True)
    assert len(more) == (6 - expected if declared is None else min(2, 6 - expected)), (
        "the declared one, its bucket full"
    )


def test_a_node_that_declares_nothing_leaves_what_is_stored(connection: Conn) -> None:
    def declared(**spec: Any) -> tuple[Any, ...] | None:
        node = NodeStore("batchproc", uuid4(), {"work": KindSpec("work", **spec)})
        node.join(connection, NodeFacts(node.node_id, "host", 1, 1, ("work",), (), "", ""), 3600.0)
        return connection.execute(
            "select declared_limit, declared_rate, declared_burst from batchproc.kinds where kind = 'work'"
        ).fetchone()

    assert declared(rate=2.0, burst=7) == (None, 2.0, 7)
    assert declared(limit=4) == (4, 2.0, 7)
    assert declared(rate=3.0) == (4, 3.0, None)
    before = one(connection, "select xmin::text from batchproc.kinds where kind = 'work'")
    assert declared() == declared(limit=4, rate=3.0) == (4, 3.0, None)
    assert one(connection, "select xmin::text from batchproc.kinds where kind = 'work'") == before, "not written again"
