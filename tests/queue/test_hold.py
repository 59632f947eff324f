"""A paused campaign holds what waits and whatever would wait again, and its end lets it all go on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from batchproc.core.errors import UsageError
from batchproc.core.fairness import Turn
from batchproc.core.job import JobState, NewJob
from batchproc.core.outcome import Completed, ErrorClass, FollowUp, Interrupted, Outcome, Snoozed
from batchproc.queue import campaigns
from batchproc.queue.listener import Heard, Listener
from tests.queue.helpers import (
    PATIENCE,
    SPECS,
    STORE,
    Conn,
    add_tenant,
    claim,
    claim_job,
    ended,
    enqueue,
    failed,
    job,
    join,
    now,
    one,
    queue_of,
    retry,
    rows_of,
    running,
    state,
    wait_for_blocked,
)

Opened = Callable[[], Conn]
HOUR = timedelta(hours=1)
LOCK = "select from batchproc.processing_jobs where job_id = %s for no key update"


def add_campaign(connection: Conn) -> int:
    return int(one(connection, "insert into batchproc.campaigns (command) values ('test') returning campaign_id"))


def states(connection: Conn, *job_ids: int) -> list[str]:
    return [str(state(connection, job_id)) for job_id in job_ids]


def test_what_waits_is_held_and_goes_on_where_it_was(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    campaign, other = add_campaign(connection), add_campaign(connection)
    due = enqueue(connection, tenant, campaign_id=campaign)
    later = enqueue(connection, tenant, campaign_id=campaign, run_at=now(connection) + HOUR)
    runs = running(connection, node, tenant, campaign_id=campaign)
    over = running(connection, node, tenant, campaign_id=campaign)
    node.settle(connection, [ended(over)])
    elsewhere = [enqueue(connection, tenant, campaign_id=other), enqueue(connection, tenant)]
    before = {job_id: job(connection, job_id) for job_id in (due, later)}

    assert STORE.hold(connection, campaign) == 2
    assert states(connection, due, later, runs.job_id, over.job_id) == ["held", "held", "running", "completed"]
    assert states(connection, *elsewhere) == ["available", "available"]
    assert STORE.hold(connection, campaign) == 0
    assert {item.job_id for item in claim(connection, node, Turn(queue_of(tenant), 9))} == set(elsewhere)
    assert node.claim_one(connection, due, None) is None
    connection.execute("update batchproc.processing_jobs set run_at = now() where job_id = %s", [later])
    assert (node.promote(connection), node.ready(connection)) == ([], [])
    connection.execute(
        "update batchproc.processing_jobs set run_at = %s where job_id = %s", [before[later]["run_at"], later]
    )

    assert STORE.release(connection, campaign) == (2, 0)
    assert {job_id: job(connection, job_id) for job_id in before} == before


def test_a_held_job_whose_time_has_come_is_available_at_once(connection: Conn, opened: Opened) -> None:
    tenant, campaign = add_tenant(connection), add_campaign(connection)
    later = enqueue(connection, tenant, campaign_id=campaign, run_at=now(connection) + HOUR)
    STORE.hold(connection, campaign)
    connection.execute("update batchproc.processing_jobs set run_at = now()")
    listener = Listener(opened(), "batchproc")
    assert STORE.release(connection, campaign) == (1, 0)
    assert state(connection, later) is JobState.AVAILABLE
    assert listener.wait(PATIENCE) == Heard([], refresh=True)


def test_many_are_held_and_released_in_batches(connection: Conn) -> None:
    tenant, campaign = add_tenant(connection), add_campaign(connection)
    count = campaigns._BATCH + 3
    STORE.enqueue_many(connection, (NewJob(tenant, "work", campaign_id=campaign) for _ in range(count)), SPECS)
    assert STORE.hold(connection, campaign) == count
    assert one(connection, "select count(distinct xmin::text) from batchproc.processing_jobs") == 2
    assert STORE.release(connection, campaign) == (count, 0)
    assert one(connection, "select count(*) from batchproc.processing_jobs where state = 'available'") == count


def test_a_campaign_that_does_not_exist_is_named(connection: Conn) -> None:
    for change in (STORE.hold, STORE.release):
        with pytest.raises(UsageError, match="there is no campaign 4711"):
            change(connection, 4711)


# -- what would wait again


@pytest.mark.parametrize(
    ("outcome", "released"),
    [
        (failed(), "scheduled"),
        (Snoozed(90), "scheduled"),
        (Interrupted(""), "available"),
        (failed(ErrorClass.LEASE_EXPIRED), "available"),
    ],
)
def test_a_job_that_comes_back_is_held(connection: Conn, outcome: Outcome, released: str) -> None:
    tenant, node, campaign = add_tenant(connection), join(connection), add_campaign(connection)
    claimed = running(connection, node, tenant, campaign_id=campaign)
    STORE.hold(connection, campaign)
    assert node.settle(connection, [ended(claimed, outcome)]).states == {claimed.claim_id: JobState.HELD}
    stored = job(connection, claimed.job_id)
    assert (stored["claim_id"], stored["finished_at"]) == (None, None)
    assert stored["failure_code"] == ended(claimed, outcome).transition.failure_code
    assert STORE.release(connection, campaign) == (1, 0)
    assert state(connection, claimed.job_id) == released


def test_a_job_that_is_over_is_not_held_and_what_follows_it_is(connection: Conn) -> None:
    tenant, node, campaign = add_tenant(connection), join(connection), add_campaign(connection)
    claimed = running(connection, node, tenant, campaign_id=campaign)
    STORE.hold(connection, campaign)
    settled = node.settle(connection, [ended(claimed, Completed(follow_ups=(FollowUp("other"),)))])
    assert (settled.states, settled.followed) == ({claimed.claim_id: JobState.COMPLETED}, [])
    assert rows_of(connection, "select state from batchproc.processing_jobs where kind = 'other'") == [
        {"state": "held"}
    ]
    assert STORE.release(connection, campaign) == (1, 0)


def test_what_is_enqueued_or_retried_into_a_paused_campaign_is_held(connection: Conn, opened: Opened) -> None:
    tenant, node, campaign = add_tenant(connection), join(connection), add_campaign(connection)
    given_up = running(connection, node, tenant, campaign_id=campaign)
    node.settle(connection, [ended(given_up, failed(ErrorClass.PERMANENT))])
    STORE.hold(connection, campaign)
    listener = Listener(opened(), "batchproc")
    single = enqueue(connection, tenant, campaign_id=campaign)
    later = enqueue(connection, tenant, campaign_id=campaign, run_at=now(connection) + HOUR)
    assert listener.wait(0.05) == Heard([]), "nothing to claim is announced"
    STORE.enqueue_many(connection, [NewJob(tenant, "other", campaign_id=campaign), NewJob(tenant, "other")], SPECS)
    assert retry(connection, [given_up.job_id]) == {given_up.job_id: "retried_held"}
    assert states(connection, single, later, given_up.job_id) == ["held"] * 3
    rows = rows_of(connection, "select state from batchproc.processing_jobs where kind = 'other' order by job_id")
    assert [row["state"] for row in rows] == ["held", "available"]
    assert STORE.release(connection, campaign) == (4, 0)
    assert states(connection, single, later, given_up.job_id) == ["available", "scheduled", "available"]


def test_a_run_does_not_wait_for_held_jobs(connection: Conn) -> None:
    tenant, node, campaign = add_tenant(connection), join(connection), add_campaign(connection)
    run_id = node.runs.start(connection, node.node_id, {})
    claimed = claim_job(connection, node, enqueue(connection, tenant, campaign_id=campaign), run_id)
    STORE.hold(connection, campaign)
    node.settle(connection, [ended(claimed, failed())])
    assert node.undrained(connection, run_id, 600.0) == (0, 0)
    assert node.ready(connection) == []


# -- unique keys


def test_a_held_job_whose_successor_waits_is_superseded(connection: Conn) -> None:
    tenant, campaign = add_tenant(connection), add_campaign(connection)
    held = enqueue(connection, tenant, unique_key="k", campaign_id=campaign)
    STORE.hold(connection, campaign)
    successor = enqueue(connection, tenant, unique_key="k")
    assert STORE.release(connection, campaign) == (0, 1)
    stored = job(connection, held)
    assert (stored["state"], stored["failure_code"]) == ("cancelled", "superseded")
    assert stored["finished_at"] is not None
    assert state(connection, successor) is JobState.AVAILABLE


@pytest.mark.parametrize("between", [0, campaigns._BATCH], ids=["one batch", "two batches"])
def test_of_several_held_with_one_key_the_newest_goes_on(connection: Conn, between: int) -> None:
    tenant, campaign = add_tenant(connection), add_campaign(connection)
    STORE.hold(connection, campaign)
    older = [enqueue(connection, tenant, unique_key="k", campaign_id=campaign) for _ in range(2)]
    STORE.enqueue_many(connection, (NewJob(tenant, "work", campaign_id=campaign) for _ in range(between)), SPECS)
    newest = enqueue(connection, tenant, unique_key="k", campaign_id=campaign)
    apart = [
        enqueue(connection, tenant, "other", unique_key="k", campaign_id=campaign),
        enqueue(connection, tenant, unique_key="other", campaign_id=campaign),
    ]
    assert STORE.release(connection, campaign) == (3 + between, 2)
    assert states(connection, *older, newest, *apart) == ["cancelled"] * 2 + ["available"] * 3


@pytest.mark.parametrize(("kind", "expected"), [("work", "available"), ("once", "cancelled")])
def test_a_running_job_of_the_key_stands_in_the_way_only_where_its_kind_says_so(
    connection: Conn, kind: str, expected: str
) -> None:
    tenant, node, campaign = add_tenant(connection), join(connection), add_campaign(connection)
    held = enqueue(connection, tenant, kind, unique_key="k", campaign_id=campaign)
    STORE.hold(connection, campaign)
    running(connection, node, tenant, kind, unique_key="k")
    STORE.release(connection, campaign)
    assert states(connection, held) == [expected]


def test_a_successor_that_commits_during_the_release_is_found(connection: Conn, opened: Opened) -> None:
    tenant, campaign, other, third = add_tenant(connection), add_campaign(connection), opened(), opened()
    held = enqueue(connection, tenant, unique_key="k", campaign_id=campaign)
    free = enqueue(connection, tenant, campaign_id=campaign)
    STORE.hold(connection, campaign)
    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            enqueue(other, tenant, unique_key="k")
            releasing = pool.submit(STORE.release, connection, campaign)
            wait_for_blocked(third)
        assert releasing.result(PATIENCE) == (1, 1)
    assert states(third, held, free) == ["cancelled", "available"]


# -- races


def test_a_job_that_a_settle_put_back_without_seeing_the_pause_is_held_by_the_next_look(
    connection: Conn, opened: Opened
) -> None:
    tenant, node, campaign = add_tenant(connection), join(connection), add_campaign(connection)
    holder, settler = opened(), opened()
    claimed = running(connection, node, tenant, campaign_id=campaign)
    with ThreadPoolExecutor(1) as pool:
        with holder.transaction():
            holder.execute(LOCK, [claimed.job_id])
            settling = pool.submit(node.settle, settler, [ended(claimed, Interrupted(""))])
            wait_for_blocked(connection)
            assert STORE.hold(connection, campaign) == 0
        assert settling.result(PATIENCE).states == {claimed.claim_id: JobState.AVAILABLE}
    assert node.put_right(connection) == []
    assert states(connection, claimed.job_id) == ["held"]


def test_a_job_that_a_settle_held_without_seeing_the_release_goes_on_at_the_next_look(
    connection: Conn, opened: Opened
) -> None:
    tenant, node, campaign = add_tenant(connection), join(connection), add_campaign(connection)
    holder, settler = opened(), opened()
    claimed = running(connection, node, tenant, campaign_id=campaign)
    STORE.hold(connection, campaign)
    with ThreadPoolExecutor(1) as pool:
        with holder.transaction():
            holder.execute(LOCK, [claimed.job_id])
            settling = pool.submit(node.settle, settler, [ended(claimed, Interrupted(""))])
            wait_for_blocked(connection)
            assert STORE.release(connection, campaign) == (0, 0)
        assert settling.result(PATIENCE).states == {claimed.claim_id: JobState.HELD}
    assert node.put_right(connection) == [queue_of(tenant)]
    assert states(connection, claimed.job_id) == ["available"]


def test_an_open_transaction_that_enqueued_before_the_pause_is_caught_up_with(connection: Conn, opened: Opened) -> None:
    tenant, node, campaign, application = add_tenant(connection), join(connection), add_campaign(connection), opened()
    with application.transaction():
        job_id = enqueue(application, tenant, campaign_id=campaign)
        assert STORE.hold(connection, campaign) == 0, "nor is the application waited for"
    assert states(connection, job_id) == ["available"]
    node.put_right(connection)
    assert states(connection, job_id) == ["held"]


def test_a_row_that_somebody_holds_is_passed_over_and_follows(connection: Conn, opened: Opened) -> None:
    tenant, node, campaign, other = add_tenant(connection), join(connection), add_campaign(connection), opened()
    blocked, free = (enqueue(connection, tenant, campaign_id=campaign) for _ in range(2))
    with other.transaction():
        other.execute(LOCK, [blocked])
        assert STORE.hold(connection, campaign) == 1
    assert states(connection, blocked, free) == ["available", "held"]
    node.put_right(connection)
    assert states(connection, blocked) == ["held"]
    with other.transaction():
        other.execute(LOCK, [blocked])
        assert STORE.release(connection, campaign) == (1, 0)
    assert node.put_right(connection) == [queue_of(tenant)]
    assert states(connection, blocked, free) == ["available", "available"]


def test_strays_are_put_right_a_bounded_number_at_a_time(connection: Conn) -> None:
    tenant, node, campaign = add_tenant(connection), join(connection), add_campaign(connection)
    STORE.enqueue_many(connection, (NewJob(tenant, "work", campaign_id=campaign) for _ in range(520)), SPECS)
    connection.execute("update batchproc.campaigns set paused = true")
    held = "select count(*) from batchproc.processing_jobs where state = 'held'"
    counts = []
    for _ in range(2):
        node.put_right(connection)
        counts.append(one(connection, held))
    assert counts == [500, 520]
