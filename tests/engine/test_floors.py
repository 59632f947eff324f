"""Every way in which a job comes in below the place up to which a node has claimed a queue: none is lost or starved."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from batchproc.core.floors import FRONT, Floors, Place
from batchproc.core.job import JobState
from batchproc.core.outcome import Interrupted
from batchproc.engine import ready
from batchproc.engine.news import ReadyNow
from batchproc.engine.ready import ReadyQueues, Scope
from batchproc.queue.hints import Hint
from batchproc.queue.listener import Listener
from batchproc.queue.node_store import NodeStore
from tests.engine.running import Bench
from tests.engine.stepped import Step
from tests.queue.conftest import connection as connection
from tests.queue.conftest import empty as empty
from tests.queue.conftest import opened as opened
from tests.queue.conftest import queue_url as queue_url
from tests.queue.helpers import (
    CAMPAIGNS,
    SPECS,
    STORE,
    Conn,
    add_tenant,
    at_once,
    ended,
    enqueue,
    expire,
    join,
    now,
    queue_of,
    retry,
    running,
    wait_until,
)

Opened = Callable[[], Conn]


@pytest.fixture(autouse=True)
def _floors_of_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A floor is of use from the first claim on."""
    monkeypatch.setattr(ready, "Floors", partial(Floors, 1))


class Reader:
    """A node that chooses and claims as a dispatcher does."""

    def __init__(self, connection: Conn) -> None:
        self.connection = connection
        self.store: NodeStore = join(connection)
        self.ready = ReadyQueues({0: 4, 1: 1}, SPECS, Scope())
        self.asked_from: list[Place] = []

    def look(self) -> None:
        self.ready.learn(self.store.ready(self.connection), self.store.rooms(self.connection))

    def claim(self, jobs: int = 1) -> list[int]:
        """Ids of what one tick claims."""
        turns = self.ready.choose(jobs, None)
        after = self.ready.floors(turns)
        self.asked_from += after.values()
        _, claims = self.store.tick(self.connection, [], turns, limited=False, run_id=None, after=after)
        self.ready.claimed(turns, claims, 0.0)
        return sorted(claim.job_id for claim in claims)


@pytest.fixture
def reader(connection: Conn) -> Reader:
    return Reader(connection)


def floored(reader: Reader, count: int = 6, claimed: int = 3) -> tuple[int, list[int]]:
    """A tenant with so many jobs, the first of which are claimed; and those that wait."""
    tenant = add_tenant(reader.connection)
    jobs = [enqueue(reader.connection, tenant) for _ in range(count)]
    reader.look()
    for job_id in jobs[:claimed]:
        assert reader.claim() == [job_id]
    assert reader.asked_from[:2] == [FRONT, Place(5, jobs[0])]
    return tenant, jobs[claimed:]


def test_claims_go_on_from_where_the_last_one_ended(reader: Reader) -> None:
    _, waiting = floored(reader)
    assert [reader.claim() for _ in waiting] == [[job_id] for job_id in waiting]
    assert reader.claim() == []


def test_a_job_of_a_lower_priority_number_is_next_as_soon_as_it_is_heard_of(reader: Reader, opened: Opened) -> None:
    ears = opened()
    listener = Listener(ears, "batchproc")
    tenant, _ = floored(reader)
    urgent = enqueue(reader.connection, tenant, priority=1)
    heard: list[Hint] = []

    def hears_of_it() -> bool:
        heard.extend(listener.wait(0.1).hints)
        return Hint(queue_of(tenant), 1) in heard

    wait_until(hears_of_it, "the hint of the urgent job")
    for queue, priority in heard:
        reader.ready.hint([queue], priority)
    assert reader.claim() == [urgent]


def test_a_job_whose_transaction_took_longer_is_found_at_the_end_of_the_queue(reader: Reader, opened: Opened) -> None:
    """Its id is lower than those that were claimed meanwhile, and its hint drops no floor."""
    tenant, slow = add_tenant(reader.connection), opened()
    with slow.transaction():
        late = enqueue(slow, tenant)
        jobs = [enqueue(reader.connection, tenant) for _ in range(3)]
        reader.look()
        assert reader.claim() == [jobs[0]]
    reader.ready.hint([queue_of(tenant)], 5)
    assert reader.claim(9) == jobs[1:], "less than asked for, and from the floor: that proves nothing"
    assert reader.claim(9) == [late]


def test_and_else_with_the_next_look(reader: Reader, opened: Opened) -> None:
    tenant, slow = add_tenant(reader.connection), opened()
    with slow.transaction():
        late = enqueue(slow, tenant)
        jobs = [enqueue(reader.connection, tenant) for _ in range(9)]
        reader.look()
        assert reader.claim() == [jobs[0]]
    assert reader.claim() == [jobs[1]]
    reader.look()
    assert reader.claim() == [late]


def test_a_row_that_somebody_held_is_found_with_the_next_look(reader: Reader, opened: Opened) -> None:
    tenant, other = add_tenant(reader.connection), opened()
    held, *others = [enqueue(reader.connection, tenant) for _ in range(4)]
    reader.look()
    with other.transaction():
        other.execute("select from batchproc.processing_jobs where job_id = %s for update", [held])
        assert reader.claim() == [others[0]]
    assert reader.claim() == [others[1]]
    reader.look()
    assert reader.claim() == [held]


def elsewhere_rescued(reader: Reader, tenant: int) -> int:
    other = join(reader.connection)
    claimed = running(reader.connection, other, tenant, priority=1)
    expire(reader.connection, other)
    assert reader.store.settle(reader.connection, [ended(claimed, Interrupted(""))], rescue=True).states
    return claimed.job_id


def interrupted_on_another_node(reader: Reader, tenant: int) -> int:
    other = join(reader.connection)
    claimed = running(reader.connection, other, tenant, priority=1)
    other.settle(reader.connection, [ended(claimed, Interrupted(""))])
    return claimed.job_id


def released_with_its_campaign(reader: Reader, tenant: int) -> int:
    campaign = CAMPAIGNS.begin(reader.connection, "test")
    STORE.hold(reader.connection, campaign)
    job_id = enqueue(reader.connection, tenant, priority=1, campaign_id=campaign)
    STORE.release(reader.connection, campaign)
    return job_id


def retried_by_a_person(reader: Reader, tenant: int) -> int:
    job_id = enqueue(reader.connection, tenant, priority=1)
    STORE.cancel(reader.connection, [job_id])
    assert retry(reader.connection, [job_id]) == {job_id: "retried"}
    return job_id


def promoted_by_another_node(reader: Reader, tenant: int) -> int:
    soon = now(reader.connection)
    job_id = enqueue(reader.connection, tenant, priority=1)
    reader.connection.execute(
        "update batchproc.processing_jobs set state = 'scheduled', run_at = %s where job_id = %s", [soon, job_id]
    )
    assert join(reader.connection).promote(reader.connection) == [queue_of(tenant)]
    return job_id


@pytest.mark.parametrize(
    "put_there",
    [
        elsewhere_rescued,
        interrupted_on_another_node,
        released_with_its_campaign,
        retried_by_a_person,
        promoted_by_another_node,
    ],
)
def test_what_others_put_below_the_floor_is_next_after_a_look(
    reader: Reader, put_there: Callable[[Reader, int], int]
) -> None:
    tenant, waiting = floored(reader)
    job_id = put_there(reader, tenant)
    assert reader.claim() == [waiting[0]], "nobody told"
    reader.look()
    assert reader.claim() == [job_id]
    assert [reader.claim() for _ in waiting[1:]] == [[other] for other in waiting[1:]]


def test_what_this_node_promotes_or_puts_back_is_next(reader: Reader) -> None:
    tenant, waiting = floored(reader)
    job_id = promoted_by_another_node(reader, tenant)
    reader.ready.hint([queue_of(tenant)])
    assert reader.claim() == [job_id]
    assert reader.claim() == [waiting[0]]


def test_a_job_that_waits_below_a_floor_is_never_starved_by_those_above(reader: Reader) -> None:
    """Each look finds it, however fast others come."""
    tenant, _ = floored(reader)
    job_id = interrupted_on_another_node(reader, tenant)
    for _ in range(3):
        enqueue(reader.connection, tenant, priority=5)
        reader.ready.hint([queue_of(tenant)], 5)
        assert reader.claim() != [job_id]
    reader.look()
    enqueue(reader.connection, tenant, priority=5)
    assert reader.claim() == [job_id]


def test_four_nodes_with_floors_leave_nothing_and_claim_nothing_twice(connection: Conn, opened: Opened) -> None:
    tenant = add_tenant(connection)
    jobs = [enqueue(connection, tenant, priority=1 + number % 3) for number in range(120)]
    readers = [Reader(opened()) for _ in range(4)]

    def claim_all(one: Reader) -> list[int]:
        got: list[int] = []
        in_vain = 0
        one.look()
        while in_vain < 3:
            claimed = one.claim(4)
            got += claimed
            in_vain = 0 if claimed else in_vain + 1
            if not claimed:
                one.look()
        return got

    got = [job_id for part in at_once([partial(claim_all, one) for one in readers]) for job_id in part]
    assert sorted(got) == jobs


class PutsBackUnseen(NodeStore):
    """A store after whose third tick another node has put the first job back, below everything, and told nobody."""

    ticks = 0

    def tick(self, connection: Conn, *arguments: Any, **options: Any) -> Any:
        answer = super().tick(connection, *arguments, **options)
        self.ticks += 1
        if self.ticks == 3:
            connection.execute(
                "update batchproc.processing_jobs set state = 'available', priority = 1, finished_at = null"
                " where job_id = (select min(job_id) from batchproc.processing_jobs where state = 'completed')"
            )
        return answer


def test_a_run_does_not_end_before_what_came_in_below_its_floors(bench: Bench, stepped: Step) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_quick") for _ in range(4)]
    node = stepped(slots=1, store_class=PutsBackUnseen)
    node.news.tell(ready_now(node.store, bench.connection))

    node.dispatcher.run()

    assert bench.states(jobs) == {JobState.COMPLETED: 4}
    assert node.pool.submitted.count(jobs[0]) == 2


def ready_now(store: NodeStore, connection: Conn) -> ReadyNow:
    return ReadyNow(store.ready(connection), store.rooms(connection))
