"""Every write after a claim is fenced by it: without the claim nothing is written, by nobody."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from batchproc.core.job import Claim, JobState
from batchproc.core.limits import ResultTooLarge
from batchproc.core.outcome import Cancelled, Completed, ErrorClass, FollowUp, Interrupted, Snoozed
from batchproc.queue.claims import ClaimFence
from batchproc.queue.endings import Recorded
from batchproc.queue.inspection import Inspection
from batchproc.queue.node_store import NodeStore, Settled
from tests.queue.helpers import (
    PATIENCE,
    Conn,
    add_document,
    add_tenant,
    attempts,
    claim_job,
    ended,
    expire,
    failed,
    job,
    join,
    one,
    rows_of,
    running,
    state,
    wait_for_blocked,
)

Opened = Callable[[], Conn]
FENCE = ClaimFence("batchproc")


def everything(connection: Conn) -> list[Any]:
    tables = ("processing_jobs", "job_attempts", "usage_daily", "documents", "job_signals")
    return [rows_of(connection, f"select * from batchproc.{table} t order by t") for table in tables]


def lost(connection: Conn, node: NodeStore, how: str) -> Claim:
    """A claim that is not held any more (or never was)."""
    tenant = add_tenant(connection)
    document = add_document(connection, tenant)
    claimed = running(connection, node, tenant, document_id=document, unique_key="k")
    match how:
        case "settled":
            node.settle(connection, [ended(claimed)])
        case "given back":
            node.settle(connection, [ended(claimed, Interrupted(""))])
        case "claimed again":
            node.settle(connection, [ended(claimed, Interrupted(""))])
            claim_job(connection, node, claimed.job_id)
        case "rescued":
            expire(connection, node)
            node.settle(connection, [ended(claimed, failed(ErrorClass.LEASE_EXPIRED))], rescue=True)
        case "deleted":
            connection.execute("delete from batchproc.processing_jobs")
    return claimed


@pytest.mark.parametrize("how", ["settled", "given back", "claimed again", "rescued", "deleted"])
def test_a_stale_claim_changes_nothing(connection: Conn, how: str) -> None:
    node = join(connection)
    claimed = lost(connection, node, how)
    before = everything(connection)
    follow_ups = (FollowUp("other"),)
    for outcome in (
        Completed('{"a": 1}', follow_ups),
        failed(),
        failed(ErrorClass.PERMANENT),
        Snoozed(5),
        Interrupted(""),
        Cancelled(),
    ):
        for rescue in (False, True):
            assert node.settle(connection, [ended(claimed, outcome)], rescue=rescue) == Settled({}, [])
        assert node.settle_one_by_one(connection, [ended(claimed, outcome)]) == Settled({}, [])
    with connection.transaction():
        assert not FENCE.lock(connection, claimed.job_id, claimed.claim_id)
        assert not FENCE.is_claimed(connection, claimed.job_id, claimed.claim_id)
        FENCE.publish(connection, claimed.job_id, claimed.claim_id, '{"a": 1}')
        FENCE.reset_budgets(connection, claimed.job_id, claimed.claim_id)
    node.write_progress(connection, [(claimed.job_id, claimed.claim_id, 1, 2)])
    assert node.refreshed(connection, [claimed]) == {}
    assert everything(connection) == before


def test_a_claim_of_another_job_is_no_claim_of_this_one(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    mine, other = running(connection, node, tenant), running(connection, node, tenant)
    with connection.transaction():
        assert not FENCE.lock(connection, mine.job_id, other.claim_id)
        assert FENCE.lock(connection, mine.job_id, mine.claim_id)
    assert not FENCE.is_claimed(connection, mine.job_id, other.claim_id)
    assert FENCE.is_claimed(connection, mine.job_id, mine.claim_id)
    swapped = [(mine.job_id, other.claim_id, 1, 2), (other.job_id, mine.claim_id, 1, 2)]
    node.write_progress(connection, swapped)
    assert one(connection, "select count(*) from batchproc.job_signals") == 0


def test_an_outcome_is_recorded_once_however_often_it_is_written(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    assert node.settle(connection, [ended(claimed)]).states == {claimed.claim_id: JobState.COMPLETED}
    assert node.settle(connection, [ended(claimed, failed())]).states == {}
    assert node.settle(connection, [ended(claimed), ended(claimed)]).states == {}
    assert len(attempts(connection, claimed.job_id)) == 1
    assert node.attempted(connection, [claimed.claim_id, uuid4()]) == {
        claimed.claim_id: Recorded("completed", None, None, 4711)
    }


# -- the handler's transaction


def test_a_held_row_keeps_settles_out_until_the_transaction_ends(connection: Conn, opened: Opened) -> None:
    tenant, node, handler = add_tenant(connection), join(connection), opened()
    claimed = running(connection, node, tenant, max_attempts=5)
    connection.execute("update batchproc.processing_jobs set attempt = 3, crashes = 2, timeouts = 1")
    with ThreadPoolExecutor(1) as pool:
        with handler.transaction():
            assert FENCE.lock(handler, claimed.job_id, claimed.claim_id)
            settling = pool.submit(node.settle, connection, [ended(claimed, Completed("{}"))])
            wait_for_blocked(handler)
            FENCE.reset_budgets(handler, claimed.job_id, claimed.claim_id)
            FENCE.publish(handler, claimed.job_id, claimed.claim_id, '{"partial": true}')
        assert settling.result(PATIENCE).states == {claimed.claim_id: JobState.COMPLETED}
    stored = job(connection, claimed.job_id)
    assert (stored["state"], stored["result"]) == ("completed", {})
    [attempt] = attempts(connection, claimed.job_id)
    assert attempt["number"] == 1, "of the row as it was when the lock was given"


def test_a_settle_that_waited_in_vain_writes_nothing(connection: Conn, opened: Opened) -> None:
    tenant, node, rescuer, third = add_tenant(connection), join(connection), opened(), opened()
    claimed = running(connection, node, tenant)
    expire(connection, node)
    with ThreadPoolExecutor(1) as pool:
        with rescuer.transaction():
            node.settle(rescuer, [ended(claimed, failed(ErrorClass.LEASE_EXPIRED))], rescue=True)
            settling = pool.submit(node.settle, connection, [ended(claimed, Completed("{}"))])
            wait_for_blocked(third)
        assert settling.result(PATIENCE) == Settled({}, [])
    assert state(connection, claimed.job_id) is JobState.AVAILABLE
    assert [attempt["error_class"] for attempt in attempts(connection, claimed.job_id)] == ["lease_expired"]


def test_progress_does_not_wait_for_the_handlers_transaction(connection: Conn, opened: Opened) -> None:
    tenant, node, handler = add_tenant(connection), join(connection), opened()
    claimed = running(connection, node, tenant)
    connection.execute("set lock_timeout = '1s'")
    with handler.transaction():
        assert FENCE.lock(handler, claimed.job_id, claimed.claim_id)
        node.write_progress(connection, [(claimed.job_id, claimed.claim_id, 1, 10)])
        node.write_progress(connection, [(claimed.job_id, claimed.claim_id, 2, 10)])
        node.renew(connection, 60.0)
        assert node.held(connection)
    assert Inspection("batchproc").job(connection, claimed.job_id)["progress"] == {"done": 2, "total": 10}


def test_progress_out_of_range_keeps_no_other_from_being_written(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    mad, sane = running(connection, node, tenant), running(connection, node, tenant)
    node.write_progress(connection, [(mad.job_id, mad.claim_id, -1, 2**40), (sane.job_id, sane.claim_id, 1, 2)])
    rows = rows_of(connection, "select job_id, done, total from batchproc.job_signals order by job_id")
    assert [tuple(row.values()) for row in rows] == [(mad.job_id, 0, 2**31 - 1), (sane.job_id, 1, 2)]


def test_the_lock_of_a_claim_is_exclusive(connection: Conn, opened: Opened) -> None:
    tenant, node, handler = add_tenant(connection), join(connection), opened()
    claimed = running(connection, node, tenant)
    connection.execute("set lock_timeout = '100ms'")
    with handler.transaction():
        assert FENCE.lock(handler, claimed.job_id, claimed.claim_id)
        with pytest.raises(psycopg.errors.LockNotAvailable), connection.transaction():
            FENCE.lock(connection, claimed.job_id, claimed.claim_id)


def test_a_checkpoint_sets_the_budgets_back_to_one_at_most(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    for before, after in [((4, 3, 2, 5), (1, 1, 1, 5)), ((1, 0, 0, 0), (1, 0, 0, 0)), ((1, 2, 0, 0), (1, 1, 0, 0))]:
        claimed = running(connection, node, tenant)
        connection.execute(
            """
            update batchproc.processing_jobs set attempt = %s, crashes = %s, timeouts = %s, node_losses = %s
            where job_id = %s
            """,
            [*before, claimed.job_id],
        )
        FENCE.reset_budgets(connection, claimed.job_id, claimed.claim_id)
        fresh = node.refreshed(connection, [claimed])[claimed.claim_id]
        assert (fresh.attempt, fresh.crashes, fresh.timeouts, fresh.node_losses) == after
        assert fresh.job_id == claimed.job_id


def test_a_checkpoint_with_nothing_to_set_back_writes_no_row(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    version = "select xmin::text from batchproc.processing_jobs"
    before = one(connection, version)
    FENCE.reset_budgets(connection, claimed.job_id, claimed.claim_id)
    assert one(connection, version) == before


def test_a_partial_result_is_seen_while_the_job_runs(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    FENCE.publish(connection, claimed.job_id, claimed.claim_id, '{"text": "nul\\u0000, half \\ud800, ä"}')
    assert job(connection, claimed.job_id)["result"] == {"text": "nul, half , ä"}
    with pytest.raises(ResultTooLarge):
        FENCE.publish(connection, claimed.job_id, claimed.claim_id, '{"text": "' + "x" * 70_000 + '"}')
    with pytest.raises(ValueError, match="not a JSON object"):
        FENCE.publish(connection, claimed.job_id, claimed.claim_id, "[]")


@pytest.mark.parametrize("backwards", [False, True])
def test_rows_are_locked_in_the_order_of_their_ids(connection: Conn, opened: Opened, backwards: bool) -> None:
    tenant, node, blocker, third = add_tenant(connection), join(connection), opened(), opened()
    first, second = running(connection, node, tenant), running(connection, node, tenant)
    endings = [ended(first), ended(second)]
    lock = "select job_id from batchproc.processing_jobs where job_id = %s for update skip locked"
    with ThreadPoolExecutor(1) as pool:
        with blocker.transaction():
            blocker.execute(lock, [first.job_id])
            settling = pool.submit(node.settle, connection, endings[::-1] if backwards else endings)
            wait_for_blocked(third)
            assert one(third, lock, [second.job_id]) == second.job_id, "still free: others cannot meet it head-on"
        assert len(settling.result(PATIENCE).states) == 2
