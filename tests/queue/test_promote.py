"""Due jobs become available: per tenant in bounded batches, past whoever holds a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from batchproc.core.floors import FRONT, Place
from batchproc.core.job import JobState, Lane
from batchproc.queue import rounds, upkeep
from batchproc.queue.upkeep import PutOff
from tests.queue.helpers import Conn, add_tenant, at_once, enqueue, join, now, queue_of, rows_of, state

Opened = Callable[[], Conn]


def add_scheduled(connection: Conn, tenant: int, count: int, due_in: float, kind: str = "work") -> None:
    """Jobs due that many seconds from now, at distinct times."""
    connection.execute(
        """
        insert into batchproc.processing_jobs (tenant_id, kind, state, run_at, max_attempts)
        select %s, %s, 'scheduled', clock_timestamp() + make_interval(secs => %s - n * 0.001), 5
        from generate_series(1, %s) n
        """,
        [tenant, kind, due_in, count],
    )


def available(connection: Conn) -> Counter[int]:
    """Available jobs by tenant."""
    rows = rows_of(connection, "select tenant_id from batchproc.processing_jobs where state = 'available'")
    return Counter(row["tenant_id"] for row in rows)


def test_what_is_due_becomes_available_and_the_rest_waits(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    due = enqueue(connection, tenant, run_at=now(connection) + timedelta(hours=1))
    later = enqueue(connection, tenant, run_at=now(connection) + timedelta(hours=1))
    held = enqueue(connection, tenant)
    connection.execute("update batchproc.processing_jobs set state = 'held' where job_id = %s", [held])
    assert node.promote(connection) == []
    connection.execute(
        "update batchproc.processing_jobs set run_at = clock_timestamp() where job_id = any(%s)", [[due, held]]
    )
    assert node.promote(connection) == [queue_of(tenant)]
    assert [state(connection, job_id) for job_id in (due, later, held)] == [
        JobState.AVAILABLE,
        JobState.SCHEDULED,
        JobState.HELD,
    ]
    assert node.promote(connection) == []


def test_every_queue_is_named_once(connection: Conn) -> None:
    one, two, node = add_tenant(connection, "one"), add_tenant(connection, "two"), join(connection)
    for _ in range(3):
        for lane in Lane:
            enqueue(connection, one, lane=lane)
        enqueue(connection, one, "other")
        enqueue(connection, two)
    connection.execute("update batchproc.processing_jobs set state = 'scheduled'")
    expected = [queue_of(one, lane=0), queue_of(one), queue_of(one, "other"), queue_of(two)]
    assert sorted(node.promote(connection)) == sorted(expected)


def test_a_tenant_with_many_due_jobs_holds_up_nobody(connection: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of each tenant in the first round, and more in the next: the big one is done before long, too."""
    monkeypatch.setattr(rounds, "STEP", 30)
    monkeypatch.setattr(upkeep, "STEP", 30)
    big, small, last = (add_tenant(connection, slug) for slug in ("big", "small", "last"))
    node = join(connection)
    add_scheduled(connection, big, 60, due_in=-1)
    for tenant in (small, last):
        add_scheduled(connection, tenant, 1, due_in=0)
    taken = []
    while node.promote(connection):
        taken.append(available(connection))
    others = {small: 1, last: 1}
    assert taken == [{big: 5} | others, {big: 25} | others, {big: 55} | others, {big: 60} | others]
    add_scheduled(connection, big, 2, due_in=-1)
    assert node.promote(connection) == [queue_of(big)], "all at once again"
    assert available(connection) == {big: 62} | others


def test_a_round_goes_on_behind_the_tenants_that_had_their_turn(
    connection: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "STEP", 12)
    monkeypatch.setattr(upkeep, "STEP", 12)
    tenants, node = [add_tenant(connection, f"t{number}") for number in range(7)], join(connection)
    for tenant in tenants:
        add_scheduled(connection, tenant, 8, due_in=-1)
    taken = []
    while node.promote(connection):
        taken.append([available(connection)[tenant] for tenant in tenants])
        assert taken[-1] not in taken[:-1], "each step promotes something"
    assert taken[:3] == [[5, 5, 2, 0, 0, 0, 0], [5, 5, 2, 5, 5, 2, 0], [5, 5, 2, 5, 5, 2, 5]]
    assert taken[-1] == [8] * 7


def test_the_longest_due_come_first(connection: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "STEP", 200)
    monkeypatch.setattr(upkeep, "STEP", 200)
    tenant, node = add_tenant(connection), join(connection)
    add_scheduled(connection, tenant, 250, due_in=-1)
    promoted = []
    while node.promote(connection):
        rows = rows_of(connection, "select state from batchproc.processing_jobs order by run_at")
        waiting = [row["state"] == "scheduled" for row in rows]
        assert waiting == sorted(waiting)
        promoted.append(waiting.index(True) if True in waiting else len(waiting))
    assert promoted == [5, 25, 105, 250]


def test_a_row_that_somebody_holds_is_passed_over(connection: Conn, opened: Opened) -> None:
    tenant, node, other = add_tenant(connection), join(connection), opened()
    add_scheduled(connection, tenant, 3, due_in=-1)
    with other.transaction():
        other.execute("select from batchproc.processing_jobs order by job_id limit 1 for update")
        assert node.promote(connection) == [queue_of(tenant)]
        assert available(connection) == {tenant: 2}
    assert node.promote(connection) == [queue_of(tenant)]


def test_several_nodes_promote_together(connection: Conn, opened: Opened) -> None:
    tenants = [add_tenant(connection, f"t{number}") for number in range(5)]
    for tenant in tenants:
        add_scheduled(connection, tenant, 100, due_in=-1)
    nodes = [(join(connection), opened()) for _ in range(4)]
    at_once([partial(node.promote, own) for node, own in nodes] * 2)
    assert available(connection) == dict.fromkeys(tenants, 100)


def waiting_for_storage(connection: Conn, tenant: int, tried: str) -> int:
    """A job whose storage was gone when it was tried; waits for an hour yet."""
    job = enqueue(connection, tenant, run_at=now(connection) + timedelta(hours=1))
    connection.execute(
        "update batchproc.processing_jobs set failure_code = 'storage_unavailable',"
        " claimed_at = clock_timestamp() - %s::interval where job_id = %s",
        [tried, job],
    )
    return job


def test_a_run_takes_up_what_waits_for_a_storage_since_before_it_began(connection: Conn) -> None:
    tenant, other, node = add_tenant(connection), add_tenant(connection, "other"), join(connection)
    before = [waiting_for_storage(connection, owner, "1 minute") for owner in (tenant, tenant, other)]
    later = enqueue(connection, tenant, run_at=now(connection) + timedelta(hours=1))
    assert node.promote(connection) == [], "which nobody has asked for"
    node.take_up(node.runs.start(connection, node.node_id, {}))
    since = waiting_for_storage(connection, tenant, "0 seconds")
    assert set(node.promote(connection)) == {queue_of(tenant), queue_of(other)}
    assert {state(connection, job_id) for job_id in before} == {JobState.AVAILABLE}
    assert {state(connection, job_id) for job_id in (since, later)} == {JobState.SCHEDULED}
    assert node.takes_up
    assert node.promote(connection) == [], "each is tried once in a run"
    assert not node.takes_up


def test_what_another_takes_up_and_has_not_committed_is_not_taken_up_yet(connection: Conn, opened: Opened) -> None:
    """Or a run could end before it has begun, since it neither sees the job as waiting nor as available."""
    another, tenant, node = opened(), add_tenant(connection), join(connection)
    job = waiting_for_storage(connection, tenant, "1 minute")
    node.take_up(node.runs.start(connection, node.node_id, {}))
    with another.transaction():
        another.execute("update batchproc.processing_jobs set state = 'available' where job_id = %s", [job])
        assert node.promote(connection) == []
        assert node.takes_up
    assert node.promote(connection) == []
    assert not node.takes_up


def test_a_run_without_end_takes_it_up_again_and_again(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    node.take_up(node.runs.start(connection, node.node_id, {}), pause=60.0)
    old, young = (waiting_for_storage(connection, tenant, tried) for tried in ("61 seconds", "30 seconds"))
    assert node.promote(connection) == [queue_of(tenant)]
    assert (state(connection, old), state(connection, young)) == (JobState.AVAILABLE, JobState.SCHEDULED)


def test_a_tenant_with_much_that_waits_for_a_storage_does_not_keep_others_waiting(connection: Conn) -> None:
    many, one, node = add_tenant(connection, "many"), add_tenant(connection, "one"), join(connection)
    add_scheduled(connection, many, 45, due_in=3600)
    connection.execute(
        "update batchproc.processing_jobs set failure_code = 'storage_unavailable',"
        " claimed_at = clock_timestamp() - interval '1 hour'"
    )
    waiting_for_storage(connection, one, "1 minute")
    node.take_up(node.runs.start(connection, node.node_id, {}))
    taken = []
    while node.promote(connection):
        taken.append(available(connection))
    assert taken == [{many: 5, one: 1}, {many: 25, one: 1}, {many: 45, one: 1}]


def add_document(connection: Conn, tenant: int, root: bytes) -> int:
    row = connection.execute(
        "insert into batchproc.documents (tenant_id, root, path, sha256, bytes)"
        " values (%s, %s, 'file', sha256(gen_random_uuid()::text::bytea), 1) returning document_id",
        [tenant, root],
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_what_lies_on_one_root_is_put_off_for_the_next_run(connection: Conn) -> None:
    tenant, other, node = add_tenant(connection), add_tenant(connection, "other"), join(connection)

    def job(root: bytes, owner: int = tenant, kind: str = "work") -> int:
        return enqueue(connection, owner, kind, document_id=add_document(connection, owner, root))

    there, also, elsewhere = job(b"/a"), job(b"/a"), job(b"/b")
    others = [job(b"/a", owner=other), job(b"/a", kind="other"), enqueue(connection, tenant)]
    queue = queue_of(tenant)
    assert node.put_off(connection, queue, [there], 3600.0).jobs == 0, "no run has begun"
    run = node.runs.start(connection, node.node_id, {})
    node.take_up(run)
    assert node.put_off(connection, queue, [there, elsewhere], 3600.0).jobs == 0, "they lie on two roots"
    assert node.put_off(connection, queue, [there], 3600.0).jobs == 2
    assert {state(connection, job_id) for job_id in (elsewhere, *others)} == {JobState.AVAILABLE}
    rows = rows_of(
        connection, "select job_id, state, attempt, failure_code, run_id from batchproc.processing_jobs order by job_id"
    )
    put_off = {"state": "scheduled", "attempt": 0, "failure_code": "storage_unavailable", "run_id": run}
    assert rows[:2] == [{"job_id": job_id} | put_off for job_id in (there, also)]
    assert node.put_off(connection, queue, [there], 3600.0).jobs == 0
    assert node.promote(connection) == [], "not in this run"
    node.take_up(node.runs.start(connection, node.node_id, {}))
    assert node.promote(connection) == [queue]


def test_what_may_be_read_from_another_root_is_not_put_off_nor_speaks_for_one(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    node.take_up(node.runs.start(connection, node.node_id, {}))

    def job(*roots: bytes) -> int:
        """Of a document that was imported from these roots, first from the first."""
        document = add_document(connection, tenant, roots[0])
        for root in roots:
            connection.execute(
                "insert into batchproc.document_paths (tenant_id, document_id, root, path) values (%s, %s, %s, 'file')",
                [tenant, document, root],
            )
        return enqueue(connection, tenant, document_id=document)

    there, also, double, beyond = job(b"/a"), job(b"/a"), job(b"/a", b"/b"), job(b"/b", b"/a")
    queue = queue_of(tenant)
    assert node.put_off(connection, queue, [double, beyond], 3600.0) == PutOff(0, None)
    assert node.put_off(connection, queue, [there, beyond], 3600.0) == PutOff(2, None)
    assert [state(connection, job_id) for job_id in (there, also, double, beyond)] == [
        JobState.SCHEDULED,
        JobState.SCHEDULED,
        JobState.AVAILABLE,
        JobState.AVAILABLE,
    ]


def test_a_queue_is_gone_through_in_bounded_parts(connection: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_PUT_OFF", 2)
    tenant, node = add_tenant(connection), join(connection)
    node.take_up(node.runs.start(connection, node.node_id, {}))
    jobs = [
        enqueue(connection, tenant, document_id=add_document(connection, tenant, root), priority=priority)
        for root, priority in ((b"/a", 9), (b"/b", 5), (b"/b", 5), (b"/a", 5), (b"/a", 1))
    ]
    told, last = [], FRONT
    for _ in range(3):
        done = node.put_off(connection, queue_of(tenant), [jobs[0]], 3600.0, last)
        told.append(done)
        last = done.last or last
    assert told == [PutOff(1, Place(5, jobs[1])), PutOff(1, Place(5, jobs[3])), PutOff(1, None)]
    assert available(connection) == {tenant: 2}
