"""One row that the database refuses to write, or that somebody holds, stops no batch, no rescue and no promotion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from unittest.mock import Mock

import psycopg
import pytest

from batchproc.core.job import JobState, NewJob
from batchproc.core.outcome import Completed, ErrorClass
from batchproc.queue.apart import SetAside, write_apart
from batchproc.queue.node_store import Settled
from tests.queue.helpers import (
    SPECS,
    STORE,
    Conn,
    add_tenant,
    ended,
    enqueue,
    expire,
    failed,
    join,
    one,
    prune,
    queue_of,
    rows_of,
    running,
    state,
)

Opened = Callable[[], Conn]
Refuse = Callable[[int], None]
LOST = failed(ErrorClass.LEASE_EXPIRED, "lease_expired")
_FUNCTION = """
    create function batchproc.refused() returns trigger language plpgsql as
    $$ begin raise exception 'job %% is not written', old.job_id; end $$
"""
_TRIGGER = """
    create trigger refused_{job_id} before update or delete on batchproc.processing_jobs
    for each row when (old.job_id = {job_id}) execute function batchproc.refused()
"""


@pytest.fixture
def refuse(connection: Conn) -> Iterator[Refuse]:
    """Makes every later write of that job's row fail."""
    connection.execute(_FUNCTION.replace("%%", "%").encode())
    try:
        yield lambda job_id: _execute(connection, _TRIGGER.format(job_id=job_id))
    finally:
        connection.execute("drop function batchproc.refused() cascade")


def _execute(connection: Conn, statement: str) -> None:
    connection.execute(statement.encode())


def states(connection: Conn) -> list[str]:
    rows = rows_of(connection, "select state from batchproc.processing_jobs order by job_id")
    return [row["state"] for row in rows]


def test_a_promotion_goes_on_without_it(connection: Conn, refuse: Refuse) -> None:
    tenant, other, node = add_tenant(connection), add_tenant(connection, "other"), join(connection)
    bad = enqueue(connection, tenant)
    for owner in (tenant, tenant, other):
        enqueue(connection, owner)
    connection.execute("update batchproc.processing_jobs set state = 'scheduled'")
    refuse(bad)
    assert sorted(node.promote(connection)) == [queue_of(tenant), queue_of(other)]
    assert states(connection) == ["scheduled", "available", "available", "available"]


def test_a_promotion_is_not_filled_by_rows_that_are_never_written(connection: Conn, refuse: Refuse) -> None:
    """The longest due of its tenant comes first each time: it is left out for a while, and costs one try."""
    tenant, node = add_tenant(connection), join(connection)
    bad, *later = (enqueue(connection, tenant) for _ in range(4))
    connection.execute("update batchproc.processing_jobs set state = 'scheduled'")
    refuse(bad)
    node.promote(connection)
    connection.execute("update batchproc.processing_jobs set state = 'scheduled' where job_id = any(%s)", [later])
    watched = Mock(wraps=connection)
    assert node.promote(watched) == [queue_of(tenant)]
    assert watched.execute.call_count == 2, "a look and a write"


def test_a_rescue_goes_on_without_it(connection: Conn, refuse: Refuse) -> None:
    tenant, rescuer, dead = add_tenant(connection), join(connection), join(connection)
    run_id = rescuer.runs.start(connection, rescuer.node_id, {})
    bad, good = running(connection, dead, tenant), running(connection, dead, tenant)
    expire(connection, dead)
    refuse(bad.job_id)
    endings = [ended(claimed, LOST) for claimed in rescuer.expired_claims(connection)]
    with pytest.raises(psycopg.errors.RaiseException):
        rescuer.settle(connection, endings, rescue=True)
    settled = rescuer.settle_one_by_one(connection, endings, rescue=True)
    assert settled == Settled({good.claim_id: JobState.AVAILABLE}, [], frozenset([bad.claim_id]))
    assert rescuer.expired_claims(connection) == [], "for a while, so that a hundred of them hide no other"
    assert rescuer.undrained(connection, run_id, 600.0) == (0, 0), "nor does a run wait for it"


def test_a_rescue_does_not_wait_for_a_row_that_somebody_holds(connection: Conn, opened: Opened) -> None:
    tenant, rescuer, dead, handler = add_tenant(connection), join(connection), join(connection), opened()
    held, free = running(connection, dead, tenant), running(connection, dead, tenant)
    expire(connection, dead)
    with handler.transaction():
        handler.execute("select from batchproc.processing_jobs where job_id = %s for no key update", [held.job_id])
        assert rescuer.expired_claims(connection) == [free]
    assert rescuer.expired_claims(connection) == [held, free]


def test_a_rescue_that_met_a_lock_is_tried_again_at_the_next_look(connection: Conn, opened: Opened) -> None:
    """It was taken between the look and the write; only what the database refuses is left out for a while."""
    tenant, rescuer, dead, handler = add_tenant(connection), join(connection), join(connection), opened()
    run_id, claimed = rescuer.runs.start(connection, rescuer.node_id, {}), running(connection, dead, tenant)
    expire(connection, dead)
    with handler.transaction():
        handler.execute("select from batchproc.processing_jobs where job_id = %s for no key update", [claimed.job_id])
        settled = rescuer.settle_one_by_one(connection, [ended(claimed, LOST)], rescue=True)
    assert settled == Settled({}, [], frozenset([claimed.claim_id]))
    assert rescuer.undrained(connection, run_id, 600.0) == (0, 1)
    assert rescuer.expired_claims(connection) == [claimed]


def test_a_settle_goes_on_without_it(connection: Conn, refuse: Refuse) -> None:
    tenant, node = add_tenant(connection), join(connection)
    bad, good = running(connection, node, tenant), running(connection, node, tenant)
    refuse(bad.job_id)
    endings = [ended(bad, Completed("{}")), ended(good, Completed("{}"))]
    with pytest.raises(psycopg.errors.RaiseException):
        node.tick(connection, endings, [], limited=False, run_id=None)
    assert one(connection, "select count(*) from batchproc.job_attempts") == 0
    settled = node.settle_one_by_one(connection, endings)
    assert settled == Settled({good.claim_id: JobState.COMPLETED}, [], frozenset([bad.claim_id]))
    assert state(connection, bad.job_id) is JobState.RUNNING


def test_a_cancel_goes_on_without_it(connection: Conn, refuse: Refuse) -> None:
    tenant = add_tenant(connection)
    ids = [enqueue(connection, tenant) for _ in range(5)]
    refuse(ids[2])
    expected = [(job_id, "unwritten" if job_id == ids[2] else "cancelled") for job_id in ids]
    assert STORE.cancel(connection, ids) == expected


def test_a_hold_a_release_and_what_puts_them_right_go_on_without_it(connection: Conn, refuse: Refuse) -> None:
    tenant, node = add_tenant(connection), join(connection)
    campaign = one(connection, "insert into batchproc.campaigns (command) values ('') returning campaign_id")
    bad, *good = (enqueue(connection, tenant, campaign_id=campaign) for _ in range(4))
    refuse(bad)
    assert STORE.hold(connection, campaign) == 3
    assert states(connection) == ["available", "held", "held", "held"]
    node.put_right(connection)
    watched = Mock(wraps=connection)
    node.put_right(watched)
    assert watched.execute.call_count == 1, "it is left out for a while"
    connection.execute("drop function batchproc.refused() cascade")
    connection.execute(_FUNCTION.replace("%%", "%").encode())
    connection.execute("update batchproc.processing_jobs set state = 'held'")
    refuse(good[1])
    assert STORE.release(connection, campaign) == (3, 0)
    assert states(connection) == ["available", "available", "held", "available"]


def test_a_prune_goes_on_without_it(connection: Conn, refuse: Refuse) -> None:
    tenant = add_tenant(connection)
    STORE.enqueue_many(connection, (NewJob(tenant, "work") for _ in range(20)), SPECS)
    connection.execute("update batchproc.processing_jobs set state = 'completed', finished_at = '2020-01-01'")
    bad = one(connection, "select min(job_id) + 7 from batchproc.processing_jobs")
    refuse(bad)
    assert prune(connection, timedelta(days=1)) == 19
    assert one(connection, "select job_id from batchproc.processing_jobs") == bad


# -- how rows are written apart


def test_a_bad_row_among_many_costs_few_tries(connection: Conn) -> None:
    tries: list[list[int]] = []

    def write(job_ids: list[int]) -> list[int]:
        tries.append(job_ids)
        if 700 in job_ids:
            raise psycopg.errors.RaiseException("not this one")
        return job_ids

    told, refused = write_apart(connection, range(1000), write)
    assert (sorted(told), refused) == ([number for number in range(1000) if number != 700], [700])
    assert len(tries) <= 21
    assert write_apart(connection, [], write) == ([], [])


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.DiskFull("full"),
        psycopg.errors.ReadOnlySqlTransaction("a standby"),
        psycopg.errors.InsufficientPrivilege("no right"),
        psycopg.errors.UndefinedTable("not migrated"),
        psycopg.OperationalError("lost"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_the_database_is_told_at_once(connection: Conn, error: psycopg.Error) -> None:
    write = Mock(side_effect=error)
    with pytest.raises(type(error)):
        write_apart(connection, [1, 2, 3], write)
    assert write.call_count == 1


@pytest.mark.parametrize(
    "error", [psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.QueryCanceled]
)
def test_an_error_that_meets_a_large_batch_only_is_got_over(
    connection: Conn, error: type[psycopg.OperationalError]
) -> None:
    def write(job_ids: list[int]) -> list[int]:
        if len(job_ids) > 2:
            raise error("too much at once")
        return job_ids

    assert write_apart(connection, range(9), write) == (list(range(9)), [])


def test_what_is_set_aside_is_tried_again_after_a_while_and_bounded() -> None:
    aside = SetAside(seconds=3600, most=3)
    aside.add([1, 2, 3])
    aside.add([1, 4])
    assert sorted(aside.job_ids()) == [1, 3, 4], "the one that was longest out comes back first"
    again = SetAside(seconds=0.0)
    again.add([1])
    assert again.job_ids() == []
