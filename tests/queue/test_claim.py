"""Claiming: the right jobs in the right order, each by one node only, whatever others do meanwhile."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import psycopg
import pytest

from batchproc.core.fairness import Turn
from batchproc.core.job import Claim, JobState, Lane
from batchproc.core.outcome import Interrupted
from batchproc.queue.node_store import Ended, NodeStore
from tests.queue.helpers import (
    STORE,
    Conn,
    add_tenant,
    at_once,
    claim,
    claim_job,
    ended,
    enqueue,
    job,
    join,
    now,
    one,
    queue_of,
    running,
    state,
)

Opened = Callable[[], Conn]
LIMITED = pytest.mark.parametrize("limited", [False, True])


def order(connection: Conn, store: NodeStore, *turns: Turn, limited: bool) -> list[int]:
    """Job ids in the order in which single claims take them."""
    taken: list[int] = []
    while claims := claim(connection, store, *turns, limited=limited):
        taken.extend(claimed.job_id for claimed in claims)
    return taken


@LIMITED
def test_priority_goes_first_then_age(connection: Conn, limited: bool) -> None:
    tenant, node = add_tenant(connection), join(connection)
    by_priority: dict[int, list[int]] = {}
    for priority in (5, 9, 1, 5, 1, 9, 5):
        by_priority.setdefault(priority, []).append(enqueue(connection, tenant, priority=priority))
    expected = by_priority[1] + by_priority[5] + by_priority[9]
    assert order(connection, node, Turn(queue_of(tenant), 1), limited=limited) == expected


@LIMITED
def test_several_of_a_queue_are_the_first_ones(connection: Conn, limited: bool) -> None:
    tenant, node = add_tenant(connection), join(connection)
    jobs = [enqueue(connection, tenant, priority=priority) for priority in (5, 4, 3, 2, 1)]
    claims = claim(connection, node, Turn(queue_of(tenant), 3), limited=limited)
    assert {claimed.job_id for claimed in claims} == set(jobs[2:])


@LIMITED
def test_each_queue_gives_what_was_asked_of_it(connection: Conn, limited: bool) -> None:
    one_, two, node = add_tenant(connection, "one"), add_tenant(connection, "two"), join(connection)
    for _ in range(4):
        for lane in Lane:
            enqueue(connection, one_, lane=lane)
        enqueue(connection, one_, "other")
        enqueue(connection, two)
    asked = {queue_of(one_): 2, queue_of(two): 9, queue_of(one_, "other"): 1, queue_of(two, "other"): 3}
    claims = claim(connection, node, *(Turn(queue, jobs) for queue, jobs in asked.items()), limited=limited)
    got = Counter(queue_of(claimed.tenant_id, claimed.kind, claimed.lane) for claimed in claims)
    assert got == {queue_of(one_): 2, queue_of(two): 4, queue_of(one_, "other"): 1}
    assert len({claimed.claim_id for claimed in claims}) == len(claims)


@LIMITED
def test_a_claim_is_what_the_row_says(connection: Conn, limited: bool) -> None:
    tenant, node = add_tenant(connection), join(connection)
    run_id = node.runs.start(connection, node.node_id, {})
    job_id = enqueue(connection, tenant, priority=3, lane=Lane.INTERACTIVE, max_attempts=4)
    connection.execute(
        "update batchproc.processing_jobs set attempt = 1, crashes = 2, timeouts = 3, node_losses = 4, range_of = 9"
    )
    before = now(connection)
    [claimed] = claim(connection, node, Turn(queue_of(tenant, lane=0), 2), limited=limited, run_id=run_id)
    stored = job(connection, job_id)
    assert claimed == Claim(job_id, stored["claim_id"], tenant, "work", 0, 3, 2, 4, 2, 3, 4, 9)
    assert node.held(connection) == [claimed]
    assert node.refreshed(connection, [claimed]) == {claimed.claim_id: claimed}
    assert (stored["state"], stored["node_id"], stored["run_id"]) == ("running", node.node_id, run_id)
    assert before <= stored["claimed_at"] <= now(connection)


@LIMITED
def test_a_claim_without_a_run_keeps_the_jobs_own(connection: Conn, limited: bool) -> None:
    tenant, node = add_tenant(connection), join(connection)
    first, second = node.runs.start(connection, node.node_id, {}), node.runs.start(connection, node.node_id, {})
    kept, replaced = enqueue(connection, tenant, run_id=first), enqueue(connection, tenant, run_id=first)
    claim(connection, node, Turn(queue_of(tenant), 1), limited=limited)
    claim(connection, node, Turn(queue_of(tenant), 1), limited=limited, run_id=second)
    assert [job(connection, job_id)["run_id"] for job_id in (kept, replaced)] == [first, second]


@LIMITED
@pytest.mark.parametrize("other", ["scheduled", "held", "completed", "discarded", "cancelled"])
def test_only_available_jobs_are_claimed(connection: Conn, limited: bool, other: str) -> None:
    tenant, node = add_tenant(connection), join(connection)
    enqueue(connection, tenant)
    connection.execute(
        """
        update batchproc.processing_jobs
        set state = %s, finished_at = case when %s in ('scheduled', 'held') then null else clock_timestamp() end
        """,
        [other, other],
    )
    running(connection, node, tenant, "other")
    asked = [Turn(queue_of(tenant), 5), Turn(queue_of(tenant, "other"), 5)]
    assert claim(connection, node, *asked, limited=limited) == []


@LIMITED
def test_a_pause_holds_for_the_tenant_or_the_kind(connection: Conn, limited: bool) -> None:
    tenant, other, node = add_tenant(connection), add_tenant(connection, "other"), join(connection)
    for owner in (tenant, other):
        for kind in ("work", "other"):
            enqueue(connection, owner, kind)
    turns = [Turn(queue_of(owner, kind), 1) for owner in (tenant, other) for kind in ("work", "other")]
    STORE.set_tenant(connection, "acme", paused=True)
    connection.execute("update batchproc.kinds set paused = true where kind = 'other'")
    [claimed] = claim(connection, node, *turns, limited=limited)
    assert (claimed.tenant_id, claimed.kind) == (other, "work")
    STORE.set_tenant(connection, "acme", paused=False)
    connection.execute("update batchproc.kinds set paused = false")
    assert len(claim(connection, node, *turns, limited=limited)) == 3


@LIMITED
def test_a_row_that_somebody_holds_is_passed_over(connection: Conn, opened: Opened, limited: bool) -> None:
    tenant, node, other = add_tenant(connection), join(connection), opened()
    first, second = enqueue(connection, tenant), enqueue(connection, tenant)
    with other.transaction():
        other.execute("select from batchproc.processing_jobs where job_id = %s for update", [first])
        [claimed] = claim(connection, node, Turn(queue_of(tenant), 1), limited=limited)
        assert claimed.job_id == second
    [claimed] = claim(connection, node, Turn(queue_of(tenant), 1), limited=limited)
    assert claimed.job_id == first


# -- others claim too


@LIMITED
def test_no_job_is_claimed_twice(connection: Conn, opened: Opened, limited: bool) -> None:
    tenants = [add_tenant(connection, f"t{number}") for number in range(3)]
    for tenant in tenants:
        connection.execute(
            """
            insert into batchproc.processing_jobs (tenant_id, kind, state, max_attempts)
            select %s, 'work', 'available', 5 from generate_series(1, 80)
            """,
            [tenant],
        )
    turns = [Turn(queue_of(tenant), 2) for tenant in tenants]

    def drain(store: NodeStore, own: Conn) -> list[int]:
        return order(own, store, *turns, limited=limited)

    taken = at_once([partial(drain, join(connection), opened()) for _ in range(4)])
    together = [job_id for jobs in taken for job_id in jobs]
    assert len(together) == len(set(together)) == 240
    assert one(connection, "select count(*) from batchproc.processing_jobs where state = 'running'") == 240
    assert one(connection, "select count(distinct claim_id) from batchproc.processing_jobs") == 240


@LIMITED
def test_a_job_has_one_holder_however_often_it_changes_hands(connection: Conn, opened: Opened, limited: bool) -> None:
    """Three jobs that are claimed and given back all the time: rows change between a snapshot and its locks."""
    tenant = add_tenant(connection)
    for _ in range(3):
        enqueue(connection, tenant, max_attempts=1000)

    def take_and_give_back(store: NodeStore, own: Conn) -> int:
        rounds, deadline = 0, time.monotonic() + 0.8
        endings: list[Ended] = []
        while time.monotonic() < deadline:
            settled, claims = store.tick(
                own, endings, [Turn(queue_of(tenant), random.randint(1, 2))], limited=limited, run_id=None
            )
            assert len(settled.states) == len(endings), "a claim was lost to somebody"
            assert all(claimed.attempt == 1 for claimed in claims)
            endings = [
                ended(claimed, Interrupted("")) for claimed in sorted(claims, key=lambda claimed: claimed.job_id)
            ]
            rounds += len(claims)
        assert len(store.settle(own, endings).states) == len(endings)
        return rounds

    rounds = at_once([partial(take_and_give_back, join(connection), opened()) for _ in range(4)])
    assert one(connection, "select count(*) from batchproc.job_attempts") == sum(rounds) > 50
    assert one(connection, "select count(*) from batchproc.processing_jobs where state = 'available'") == 3
    assert one(connection, "select sum(attempt) from batchproc.processing_jobs") == 0


# -- one job by its id


def test_one_job_is_claimed_due_or_not(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    STORE.set_tenant(connection, "acme", paused=True)
    due = enqueue(connection, tenant)
    later = enqueue(connection, tenant, run_at=now(connection) + timedelta(days=1))
    run_id = node.runs.start(connection, node.node_id, {})
    for job_id in (due, later):
        claimed = claim_job(connection, node, job_id, run_id)
        stored = job(connection, job_id)
        assert (claimed.job_id, claimed.claim_id, claimed.attempt) == (job_id, stored["claim_id"], 1)
        assert (stored["state"], stored["node_id"], stored["run_id"]) == ("running", node.node_id, run_id)
        assert node.claim_one(connection, job_id, run_id) is None


def test_a_job_that_does_not_wait_is_not_claimed(connection: Conn, opened: Opened) -> None:
    tenant, node, other = add_tenant(connection), join(connection), opened()
    claimed = running(connection, node, tenant)
    node.settle(connection, [ended(claimed)])
    assert node.claim_one(connection, claimed.job_id, None) is None
    assert node.claim_one(connection, 4711, None) is None
    held = enqueue(connection, tenant)
    with other.transaction():
        other.execute("select from batchproc.processing_jobs where job_id = %s for update", [held])
        assert node.claim_one(connection, held, None) is None
    assert state(connection, held) is JobState.AVAILABLE


# -- one tick is one transaction


@LIMITED
def test_a_tick_claims_what_it_has_just_given_back(connection: Conn, limited: bool) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    ending = ended(claimed, Interrupted("shutdown"))
    settled, [again] = node.tick(connection, [ending], [Turn(queue_of(tenant), 1)], limited=limited, run_id=None)
    assert settled.states == {claimed.claim_id: JobState.AVAILABLE}
    assert (again.job_id, again.attempt) == (claimed.job_id, 1)
    assert again.claim_id != claimed.claim_id


@LIMITED
def test_a_tick_that_fails_writes_nothing_and_leaves_the_connection_usable(connection: Conn, limited: bool) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed, waiting = running(connection, node, tenant), enqueue(connection, tenant)
    good, bad_turn = ended(claimed), Turn(queue_of(2**63), 1)
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        node.tick(connection, [good], [Turn(queue_of(tenant), 1), bad_turn], limited=limited, run_id=None)
    assert state(connection, claimed.job_id) is JobState.RUNNING
    assert state(connection, waiting) is JobState.AVAILABLE
    settled, claims = node.tick(connection, [good], [Turn(queue_of(tenant), 1)], limited=limited, run_id=None)
    assert settled.states == {claimed.claim_id: JobState.COMPLETED}
    assert [item.job_id for item in claims] == [waiting]


def test_a_tick_is_one_transaction(connection: Conn, opened: Opened) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed, waiting = running(connection, node, tenant), enqueue(connection, tenant)
    node.tick(connection, [ended(claimed)], [Turn(queue_of(tenant), 1)], limited=True, run_id=None)
    [transaction] = connection.execute(
        "select distinct xmin::text from batchproc.processing_jobs where job_id = any(%s)", [[claimed.job_id, waiting]]
    ).fetchall()
    assert transaction


def test_a_tick_with_nothing_to_do_does_nothing(connection: Conn) -> None:
    node = join(connection)
    settled, claims = node.tick(connection, [], [], limited=True, run_id=None)
    assert (settled.states, settled.followed, claims) == ({}, [], [])


# -- queues that have jobs


def test_ready_names_every_queue_with_available_jobs_once(connection: Conn) -> None:
    randomly = random.Random(7)
    tenants = [add_tenant(connection, f"t{number}") for number in range(12)]
    node, expected = join(connection), set()
    for _ in range(150):
        queue = queue_of(randomly.choice(tenants), randomly.choice(["work", "other", "once"]), randomly.choice([0, 1]))
        job_id = enqueue(connection, queue.tenant_id, queue.kind, lane=Lane(queue.lane))
        if randomly.random() < 0.6:
            claim_job(connection, node, job_id)
    rows = connection.execute(
        "select distinct lane, tenant_id, kind from batchproc.processing_jobs where state = 'available'"
    ).fetchall()
    expected = {queue_of(tenant, kind, lane) for lane, tenant, kind in rows}
    found = [ready.queue for ready in node.ready(connection)]
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_ready_tells_weights_and_limits_and_leaves_out_what_is_paused(connection: Conn) -> None:
    node = join(connection)
    tenants = {slug: add_tenant(connection, slug) for slug in ("plain", "heavy", "limited", "paused")}
    STORE.set_tenant(connection, "heavy", weight=2.5)
    STORE.set_tenant(connection, "limited", max_running=3)
    STORE.set_tenant(connection, "paused", paused=True)
    connection.execute("update batchproc.kinds set max_running = 1 where kind = 'other'")
    connection.execute("update batchproc.kinds set paused = true where kind = 'once'")
    for tenant in tenants.values():
        for kind in ("work", "other", "once"):
            enqueue(connection, tenant, kind)
    enqueue(connection, tenants["plain"], "unregistered")
    told = {
        (ready.queue.tenant_id, ready.queue.kind): (ready.weight, ready.limited) for ready in node.ready(connection)
    }
    assert told == {
        (tenants["plain"], "work"): (1.0, False),
        (tenants["plain"], "other"): (1.0, True),
        (tenants["plain"], "unregistered"): (1.0, False),
        (tenants["heavy"], "work"): (2.5, False),
        (tenants["heavy"], "other"): (2.5, True),
        (tenants["limited"], "work"): (1.0, True),
        (tenants["limited"], "other"): (1.0, True),
    }


def test_nothing_is_ready_in_an_empty_table(connection: Conn) -> None:
    assert join(connection).ready(connection) == []
