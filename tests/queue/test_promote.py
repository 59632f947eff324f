"""Due jobs become available: per tenant in bounded batches, past whoever holds a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from batchproc.core.job import JobState, Lane
from batchproc.database import SqlFolder
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


def test_a_tenant_with_many_due_jobs_holds_up_nobody(connection: Conn) -> None:
    big, small, node = add_tenant(connection, "big"), add_tenant(connection, "small"), join(connection)
    add_scheduled(connection, big, 450, due_in=-1)
    add_scheduled(connection, small, 1, due_in=0)
    taken = []
    while node.promote(connection):
        taken.append(available(connection))
    assert taken == [{big: 200, small: 1}, {big: 400, small: 1}, {big: 450, small: 1}]


def test_the_longest_due_come_first(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    add_scheduled(connection, tenant, 250, due_in=-1)
    node.promote(connection)
    rows = rows_of(connection, "select state from batchproc.processing_jobs order by run_at")
    assert [row["state"] for row in rows] == ["available"] * 200 + ["scheduled"] * 50


def test_a_row_that_somebody_holds_is_passed_over(connection: Conn, opened: Opened) -> None:
    tenant, node, other = add_tenant(connection), join(connection), opened()
    add_scheduled(connection, tenant, 3, due_in=-1)
    with other.transaction():
        other.execute("select from batchproc.processing_jobs order by job_id limit 1 for update")
        assert node.promote(connection) == [queue_of(tenant)]
        assert available(connection) == {tenant: 2}
    assert node.promote(connection) == [queue_of(tenant)]


def test_promoting_in_parts_finds_the_rows_that_promoting_at_once_takes(connection: Conn) -> None:
    """The one statement locks what it finds and the other must not, so that they are two."""
    statements, tenants = SqlFolder("batchproc.queue"), [add_tenant(connection, f"t{number}") for number in range(4)]
    for tenant, (due, later) in zip(tenants, [(5, 2), (1, 0), (0, 3), (3, 3)], strict=True):
        add_scheduled(connection, tenant, due, due_in=-1)
        add_scheduled(connection, tenant, later, due_in=3600)
    add_scheduled(connection, tenants[0], 2, due_in=-60, kind="other")
    enqueue(connection, tenants[0])
    available_ids = "select job_id from batchproc.processing_jobs where state = 'available' order by job_id"
    before = rows_of(connection, available_ids)
    skip: list[int] = []

    for per_tenant, count in [(1, 3), (4, 8), (200, 11), (200, 9)]:
        values = {"per_tenant": per_tenant, "skip": skip}
        found = [job_id for (job_id,) in connection.execute(statements["due_jobs"], values).fetchall()]
        with connection.transaction(force_rollback=True):
            connection.execute(statements["promote"], values)
            taken = [row["job_id"] for row in rows_of(connection, available_ids) if row not in before]
        assert found == taken
        assert len(found) == count
        if per_tenant == 200:
            skip = found[:2]


def test_several_nodes_promote_together(connection: Conn, opened: Opened) -> None:
    tenants = [add_tenant(connection, f"t{number}") for number in range(5)]
    for tenant in tenants:
        add_scheduled(connection, tenant, 100, due_in=-1)
    nodes = [(join(connection), opened()) for _ in range(4)]
    at_once([partial(node.promote, own) for node, own in nodes] * 2)
    assert available(connection) == dict.fromkeys(tenants, 100)
