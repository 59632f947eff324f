"""Cancelling: what waits ends at once, what runs is asked for, and no race loses the wish or hits another attempt."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import uuid4

import pytest

from batchproc.core.fairness import Turn
from batchproc.core.job import Claim, JobState
from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Interrupted, Outcome, Snoozed
from batchproc.database import SqlFolder
from batchproc.queue import cancelling, hints
from batchproc.queue.claims import ClaimFence
from batchproc.queue.listener import Heard, Listener
from batchproc.queue.node_store import NodeStore
from tests.queue.helpers import (
    PATIENCE,
    STORE,
    Conn,
    add_tenant,
    at_once,
    attempts,
    claim,
    claim_job,
    decide,
    ended,
    enqueue,
    expire,
    failed,
    job,
    join,
    now,
    one,
    queue_of,
    retry,
    running,
    state,
    wait_for_blocked,
)

Opened = Callable[[], Conn]
STATEMENTS = SqlFolder("batchproc.queue")
WAITS_AGAIN = [failed(), Snoozed(90), Interrupted(""), failed(ErrorClass.STORAGE_UNAVAILABLE)]
IS_OVER: list[Outcome] = [Completed("{}"), failed(ErrorClass.PERMANENT), Cancelled()]
LOCK = "select from batchproc.processing_jobs where job_id = %s for no key update"


def requests(connection: Conn) -> list[int]:
    query = "select job_id from batchproc.job_signals where cancel_requested_at is not null order by job_id"
    return [row[0] for row in connection.execute(query).fetchall()]


def test_each_state_is_cancelled_requested_or_named(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    waiting = enqueue(connection, tenant)
    later = enqueue(connection, tenant, run_at=now(connection).replace(year=2090))
    on_hold = enqueue(connection, tenant)
    connection.execute("update batchproc.processing_jobs set state = 'held' where job_id = %s", [on_hold])
    runs, over = running(connection, node, tenant), running(connection, node, tenant)
    node.settle(connection, [ended(over)])
    untouched = {job_id: job(connection, job_id) for job_id in (runs.job_id, over.job_id)}
    ids = [waiting, later, on_hold, runs.job_id, over.job_id]
    assert STORE.cancel(connection, [2**62, *reversed(ids), waiting]) == [
        (waiting, "cancelled"),
        (later, "cancelled"),
        (on_hold, "cancelled"),
        (runs.job_id, "requested"),
        (over.job_id, "ended"),
        (2**62, "unknown"),
    ]
    assert {job_id: job(connection, job_id) for job_id in untouched} == untouched
    assert requests(connection) == [runs.job_id]
    assert STORE.cancel(connection, ids) == [
        *((job_id, "ended") for job_id in (waiting, later, on_hold)),
        (runs.job_id, "requested"),
        (over.job_id, "ended"),
    ]


def test_a_cancelled_job_keeps_all_but_its_code_and_runs_no_more(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    node.settle(connection, [ended(claimed, failed())])
    before, asked = job(connection, claimed.job_id), now(connection)
    STORE.cancel(connection, [claimed.job_id])
    after = job(connection, claimed.job_id)
    changed = {name: after[name] for name in after if after[name] != before[name]}
    assert asked <= changed.pop("finished_at") <= now(connection)
    assert changed == {"state": "cancelled", "failure_code": None}
    assert len(attempts(connection, claimed.job_id)) == 1
    assert node.claim_one(connection, claimed.job_id, None) is None


def test_a_cancel_commits_by_itself(connection: Conn) -> None:
    with pytest.raises(ValueError, match="outside transactions"), connection.transaction():
        STORE.cancel(connection, [1])


def test_many_are_cancelled_in_batches(connection: Conn) -> None:
    tenant = add_tenant(connection)
    ids = [enqueue(connection, tenant) for _ in range(cancelling._BATCH + 7)]
    assert STORE.cancel(connection, ids) == [(job_id, "cancelled") for job_id in ids]
    assert one(connection, "select count(distinct xmin::text) from batchproc.processing_jobs") == 2


# -- what runs


def test_a_request_does_not_wait_for_the_handlers_transaction(connection: Conn, opened: Opened) -> None:
    tenant, node, handler = add_tenant(connection), join(connection), opened()
    claimed = running(connection, node, tenant)
    connection.execute("set lock_timeout = '200ms'")
    with handler.transaction():
        assert ClaimFence("batchproc").lock(handler, claimed.job_id, claimed.claim_id)
        assert STORE.cancel(connection, [claimed.job_id]) == [(claimed.job_id, "requested")]
        assert node.cancel_requested(connection) == [claimed]


def test_a_node_is_told_of_its_own_jobs_until_they_end(connection: Conn, opened: Opened) -> None:
    tenant, node, other = add_tenant(connection), join(connection), join(connection)
    mine, theirs, left_alone = (running(connection, owner, tenant) for owner in (node, other, node))
    listener = Listener(opened(), "batchproc")
    STORE.cancel(connection, [mine.job_id, theirs.job_id])
    assert listener.wait(PATIENCE) == Heard([], cancel=True)
    assert (node.cancel_requested(connection), other.cancel_requested(connection)) == ([mine], [theirs])
    first = one(connection, "select cancel_requested_at from batchproc.job_signals where job_id = %s", [mine.job_id])
    node.write_progress(connection, [(mine.job_id, mine.claim_id, 1, 2)])
    STORE.cancel(connection, [mine.job_id])
    query = "select cancel_requested_at from batchproc.job_signals where job_id = %s"
    assert one(connection, query, [mine.job_id]) == first, "the first request counts"
    assert node.settle(connection, [ended(mine, Cancelled())]).states == {mine.claim_id: JobState.CANCELLED}
    assert node.cancel_requested(connection) == []
    assert state(connection, left_alone.job_id) is JobState.RUNNING


def test_an_older_node_takes_the_hint_for_a_refresh() -> None:
    assert hints.parse(hints.CANCEL) is None


@pytest.mark.parametrize("outcome", WAITS_AGAIN, ids=lambda outcome: type(outcome).__name__)
def test_a_job_that_would_wait_again_is_cancelled(connection: Conn, outcome: Outcome) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant, unique_key="k")
    enqueue(connection, tenant, unique_key="k")
    STORE.cancel(connection, [claimed.job_id])
    assert node.settle(connection, [ended(claimed, outcome)]).states == {claimed.claim_id: JobState.CANCELLED}
    stored = job(connection, claimed.job_id)
    assert (stored["failure_code"], stored["claim_id"]) == (None, None)
    assert stored["finished_at"] is not None
    assert requests(connection) == []
    [attempt] = attempts(connection, claimed.job_id)
    assert attempt["outcome"] != "cancelled", "the attempt ended as it ended"


@pytest.mark.parametrize("outcome", IS_OVER, ids=lambda outcome: type(outcome).__name__)
def test_a_job_that_is_over_stays_as_it_ended(connection: Conn, outcome: Outcome) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    STORE.cancel(connection, [claimed.job_id])
    expected = ended(claimed, outcome).transition
    assert node.settle(connection, [ended(claimed, outcome)]).states == {claimed.claim_id: expected.state}
    assert job(connection, claimed.job_id)["failure_code"] == expected.failure_code
    assert requests(connection) == []


def test_a_rescue_honours_the_request(connection: Conn) -> None:
    tenant, rescuer, dead = add_tenant(connection), join(connection), join(connection)
    wanted, other = running(connection, dead, tenant), running(connection, dead, tenant)
    STORE.cancel(connection, [wanted.job_id])
    expire(connection, dead)
    lost = [ended(item, failed(ErrorClass.LEASE_EXPIRED)) for item in rescuer.expired_claims(connection)]
    states = rescuer.settle(connection, lost, rescue=True).states
    assert states == {wanted.claim_id: JobState.CANCELLED, other.claim_id: JobState.AVAILABLE}


# -- races


@pytest.mark.parametrize("has_progress", [False, True])
def test_a_request_that_the_settle_could_not_see_is_kept_for_the_next_look(
    connection: Conn, opened: Opened, has_progress: bool
) -> None:
    tenant, node, holder, settler = add_tenant(connection), join(connection), opened(), opened()
    claimed = running(connection, node, tenant)
    if has_progress:
        node.write_progress(connection, [(claimed.job_id, claimed.claim_id, 1, 2)])
    with ThreadPoolExecutor(1) as pool:
        with holder.transaction():
            holder.execute(LOCK, [claimed.job_id])
            settling = pool.submit(node.settle, settler, [ended(claimed, Interrupted(""))])
            wait_for_blocked(connection)
            assert STORE.cancel(connection, [claimed.job_id]) == [(claimed.job_id, "requested")]
        assert settling.result(PATIENCE).states == {claimed.claim_id: JobState.AVAILABLE}
    assert requests(connection) == [claimed.job_id]
    assert node.put_right(connection) == []
    stored = job(connection, claimed.job_id)
    assert (stored["state"], stored["failure_code"]) == ("cancelled", None)
    assert requests(connection) == []


def test_a_request_that_no_settle_saw_reaches_the_next_claim(connection: Conn, opened: Opened) -> None:
    tenant, node, settler = add_tenant(connection), join(connection), opened()
    claimed = running(connection, node, tenant)
    with settler.transaction():
        node.settle(settler, [ended(claimed, Interrupted(""))])
        assert STORE.cancel(connection, [claimed.job_id]) == [(claimed.job_id, "requested")]
    again = claim_job(connection, node, claimed.job_id)
    assert node.cancel_requested(connection) == [again]


def test_a_request_left_behind_on_an_ended_job_does_not_cancel_its_retry(connection: Conn, opened: Opened) -> None:
    tenant, node, settler = add_tenant(connection), join(connection), opened()
    claimed = running(connection, node, tenant)
    with settler.transaction():
        node.settle(settler, [ended(claimed, failed(ErrorClass.PERMANENT))])
        STORE.cancel(connection, [claimed.job_id])
    assert (state(connection, claimed.job_id), requests(connection)) == (JobState.DISCARDED, [claimed.job_id])
    assert node.put_right(connection) == []
    assert retry(connection, [claimed.job_id]) == {claimed.job_id: "retried"}
    assert node.put_right(connection) == []
    claim_job(connection, node, claimed.job_id)
    assert node.cancel_requested(connection) == []


def test_a_job_that_is_claimed_between_the_looks_is_asked_for(
    connection: Conn, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, node, claimer = add_tenant(connection), join(connection), opened()
    job_id = enqueue(connection, tenant)
    claimer.execute("begin")
    claimed = claim_job(claimer, node, job_id)
    on_pause(monkeypatch, 2, lambda: claimer.execute("commit"))
    assert STORE.cancel(connection, [job_id]) == [(job_id, "requested")]
    assert node.cancel_requested(connection) == [claimed]


def test_a_job_that_comes_back_between_the_looks_is_cancelled(
    connection: Conn, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, node, settler = add_tenant(connection), join(connection), opened()
    claimed = running(connection, node, tenant)
    request = cancelling.Cancelling.request

    def settled_first(self: cancelling.Cancelling, own: Conn, job_ids: list[int]) -> list[int]:
        node.settle(settler, [ended(claimed, Interrupted(""))])
        return request(self, own, job_ids)

    monkeypatch.setattr(cancelling.Cancelling, "request", settled_first)
    assert STORE.cancel(connection, [claimed.job_id]) == [(claimed.job_id, "cancelled")]
    assert (state(connection, claimed.job_id), requests(connection)) == (JobState.CANCELLED, [])


def test_a_row_that_is_held_all_the_while_is_named_and_stops_no_other(connection: Conn, opened: Opened) -> None:
    tenant, other = add_tenant(connection), opened()
    held, free = enqueue(connection, tenant), enqueue(connection, tenant)
    with other.transaction():
        other.execute(LOCK, [held])
        assert STORE.cancel(connection, [held, free]) == [(held, "unwritten"), (free, "cancelled")]
    assert STORE.cancel(connection, [held]) == [(held, "cancelled")]


@pytest.mark.parametrize("outcome", [Completed(), Cancelled()], ids=["completed", "cancelled"])
def test_a_request_that_comes_while_its_job_ends_is_forgotten_then(
    connection: Conn, opened: Opened, outcome: Outcome
) -> None:
    tenant, node, settler = add_tenant(connection), join(connection), opened()
    claimed, runs = running(connection, node, tenant), running(connection, node, tenant)
    settler.execute("begin")
    node.settle(settler, [ended(claimed, outcome)])
    for asked in (claimed, runs):
        connection.execute(STATEMENTS["request_cancel"], {"job_ids": [asked.job_id]})
    settler.execute("commit")
    assert requests(connection) == [claimed.job_id, runs.job_id]

    assert node.put_right(connection) == []

    assert requests(connection) == [runs.job_id], "the other's node has to be told of it"
    assert state(connection, claimed.job_id) is JobState(decide(claimed, outcome).state)


def test_cancels_settles_and_claims_at_once_lose_no_wish(connection: Conn, opened: Opened) -> None:
    """No deadlock, and in the end every job that was cancelled is over or known to its node."""
    tenant, node = add_tenant(connection), join(connection)
    ids = [enqueue(connection, tenant) for _ in range(60)]
    wanted = random.Random(1).sample(ids, 40)

    def work(own: Conn) -> None:
        for _ in range(25):
            claims = claim(own, node, Turn(queue_of(tenant), 8))
            node.write_progress(own, [(item.job_id, item.claim_id, 1, 2) for item in claims])
            node.settle(own, [ended(item, Interrupted("")) for item in claims])

    def cancel(own: Conn) -> None:
        for start in range(0, 40, 8):
            assert {told for _, told in STORE.cancel(own, wanted[start : start + 8])} <= {"cancelled", "requested"}

    at_once([partial(work, opened()), partial(work, opened()), partial(cancel, opened())])
    node.put_right(connection)
    states = {job_id: state(connection, job_id) for job_id in ids}
    assert [job_id for job_id in sorted(wanted) if states[job_id] is not JobState.CANCELLED] == []
    assert {states[job_id] for job_id in ids if job_id not in wanted} == {JobState.AVAILABLE}
    assert requests(connection) == []


def on_pause(monkeypatch: pytest.MonkeyPatch, number: int, action: Callable[[], object]) -> None:
    """Does something in the n-th pause between the looks of a cancel."""
    pauses = iter(range(1, 100))
    monkeypatch.setattr(time, "sleep", lambda _: action() if next(pauses) == number else None)


def test_a_claim_that_was_never_made_is_not_asked_for(connection: Conn) -> None:
    node = NodeStore("batchproc", uuid4(), {})
    assert node.cancel_requested(connection) == list[Claim]()
