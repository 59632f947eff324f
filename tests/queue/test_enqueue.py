"""One job: in the caller's transaction, unique when asked, owned by its tenant by the database's own word."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batchproc.core.errors import UsageError
from batchproc.core.job import JobState, KindSpec, Lane, NewJob
from batchproc.database import SqlFolder
from batchproc.queue.hints import Hint
from batchproc.queue.listener import Heard, Listener
from batchproc.queue.store import JobStore
from tests.queue.helpers import (
    PATIENCE,
    SPECS,
    STORE,
    Conn,
    add_document,
    add_tenant,
    at_once,
    claim_job,
    ended,
    enqueue,
    job,
    join,
    now,
    one,
    queue_of,
    rows_of,
    state,
    wait_for_blocked,
)

Opened = Callable[[], Conn]


def test_a_job_is_stored_as_it_was_given(connection: Conn) -> None:
    tenant = add_tenant(connection)
    document = add_document(connection, tenant)
    before = now(connection)
    job_id = enqueue(
        connection,
        tenant,
        args={"page": 3, "text": "ä😀"},
        document_id=document,
        lane=Lane.INTERACTIVE,
        priority=2,
        unique_key="a key",
        max_attempts=7,
    )
    stored = job(connection, job_id)
    expected = {
        "tenant_id": tenant,
        "document_id": document,
        "kind": "work",
        "lane": 0,
        "priority": 2,
        "state": "available",
        "args": {"page": 3, "text": "ä😀"},
        "unique_key": "a key",
        "unique_while_running": False,
        "attempt": 0,
        "max_attempts": 7,
        "claim_id": None,
        "finished_at": None,
    }
    assert {name: stored[name] for name in expected} == expected
    assert before <= stored["run_at"] <= now(connection)
    assert before <= stored["created_at"] <= now(connection)


def test_the_kind_says_how_often_it_is_tried_unless_the_job_does(connection: Conn) -> None:
    tenant = add_tenant(connection)
    spec = KindSpec("work", max_attempts=9)
    by_kind = STORE.enqueue(connection, NewJob(tenant, "work"), spec).job_id
    by_job = STORE.enqueue(connection, NewJob(tenant, "work", max_attempts=1), spec).job_id
    by_default = STORE.enqueue(connection, NewJob(tenant, "work")).job_id
    assert [job(connection, job_id)["max_attempts"] for job_id in (by_kind, by_job, by_default)] == [9, 1, 5]


# -- the caller's transaction


def test_a_job_exists_when_the_caller_commits_and_not_before(connection: Conn, opened: Opened) -> None:
    tenant = add_tenant(connection)
    listener = Listener(opened(), "batchproc")
    with connection.transaction(force_rollback=True):
        enqueue(connection, tenant)
    assert one(connection, "select count(*) from batchproc.processing_jobs") == 0
    with connection.transaction():
        job_id = enqueue(connection, tenant, lane=Lane.INTERACTIVE)
        assert listener.wait(0.1) == Heard([])
        assert one(listener._connection, "select count(*) from batchproc.processing_jobs") == 0
    assert listener.wait(PATIENCE) == Heard([Hint(queue_of(tenant, lane=Lane.INTERACTIVE), 5)])
    assert state(connection, job_id) is JobState.AVAILABLE


def test_a_duplicate_leaves_the_callers_transaction_usable(connection: Conn) -> None:
    tenant = add_tenant(connection)
    first = enqueue(connection, tenant, unique_key="k")
    with connection.transaction():
        assert STORE.enqueue(connection, NewJob(tenant, "work", unique_key="k")).job_id == first
        second = enqueue(connection, tenant, unique_key="other")
    assert state(connection, second) is JobState.AVAILABLE


# -- unique keys


def duplicate_of(connection: Conn, tenant: int, kind: str, key: str = "k") -> int | None:
    """The job that stands in the way of another of that key, tried without leaving a trace."""
    enqueued = None
    with connection.transaction(force_rollback=True):
        enqueued = STORE.enqueue(connection, NewJob(tenant, kind, unique_key=key), SPECS[kind])
    return enqueued.job_id if enqueued.duplicate else None


@pytest.mark.parametrize("kind", ["work", "once"])
def test_a_unique_key_waits_once_and_is_free_again_later(connection: Conn, kind: str) -> None:
    tenant, node = add_tenant(connection), join(connection)
    later = now(connection) + timedelta(hours=1)
    while_running = kind == "once"
    scheduled = enqueue(connection, tenant, kind, unique_key="k", run_at=later)
    assert state(connection, scheduled) is JobState.SCHEDULED
    assert duplicate_of(connection, tenant, kind) == scheduled
    connection.execute("delete from batchproc.processing_jobs")
    available = enqueue(connection, tenant, kind, unique_key="k")
    assert duplicate_of(connection, tenant, kind) == available
    claimed = claim_job(connection, node, available)
    assert duplicate_of(connection, tenant, kind) == (available if while_running else None)
    node.settle(connection, [ended(claimed)])
    assert duplicate_of(connection, tenant, kind) is None


def test_a_unique_key_is_of_its_tenant_and_kind(connection: Conn) -> None:
    tenant, other = add_tenant(connection), add_tenant(connection, "other")
    enqueue(connection, tenant, unique_key="k")
    enqueue(connection, tenant, "other", unique_key="k")
    enqueue(connection, other, unique_key="k")
    enqueue(connection, tenant)
    enqueue(connection, tenant)
    assert one(connection, "select count(*) from batchproc.processing_jobs") == 5


def test_a_rerun_asked_for_while_one_runs_is_kept_and_named(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    first = enqueue(connection, tenant, unique_key="k")
    claim_job(connection, node, first)
    second = enqueue(connection, tenant, unique_key="k")
    assert duplicate_of(connection, tenant, "work") == second


def test_of_many_at_once_with_one_key_one_is_stored(connection: Conn, opened: Opened) -> None:
    tenant = add_tenant(connection)
    asked = NewJob(tenant, "work", unique_key="k")
    enqueued = at_once([partial(STORE.enqueue, opened(), asked) for _ in range(4)])
    assert len({item.job_id for item in enqueued}) == 1
    assert sorted(item.duplicate for item in enqueued) == [False, True, True, True]


@pytest.mark.parametrize("committed", [True, False])
def test_a_key_in_an_open_transaction_is_waited_for(connection: Conn, opened: Opened, committed: bool) -> None:
    tenant = add_tenant(connection)
    other = opened()
    with ThreadPoolExecutor(1) as pool:
        with connection.transaction(force_rollback=not committed):
            first = enqueue(connection, tenant, unique_key="k")
            waiting = pool.submit(STORE.enqueue, other, NewJob(tenant, "work", unique_key="k"))
            wait_for_blocked(connection)
        second = waiting.result(PATIENCE)
    assert second.duplicate is committed
    assert (second.job_id == first) is committed


def test_a_key_whose_job_is_just_being_claimed_is_free(connection: Conn, opened: Opened) -> None:
    tenant, node, other = add_tenant(connection), join(connection), opened()
    first = enqueue(connection, tenant, unique_key="k")
    with ThreadPoolExecutor(1) as pool:
        with connection.transaction():
            claim_job(connection, node, first)
            waiting = pool.submit(STORE.enqueue, other, NewJob(tenant, "work", unique_key="k"))
            wait_for_blocked(connection)
        second = waiting.result(PATIENCE)
    assert not second.duplicate
    assert second.job_id != first


def test_a_key_whose_job_is_claimed_before_it_can_be_named_is_free(connection: Conn, opened: Opened) -> None:
    tenant, node, other = add_tenant(connection), join(connection), opened()
    first = enqueue(connection, tenant, unique_key="k")

    class Meddling(SqlFolder):
        def __getitem__(self, name: str) -> bytes:
            if name == "find_unique":
                claim_job(other, node, first)
            return super().__getitem__(name)

    store = JobStore("batchproc")
    store._sql = Meddling("batchproc.queue")
    second = store.enqueue(connection, NewJob(tenant, "work", unique_key="k"))
    assert not second.duplicate
    assert second.job_id != first


# -- time


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns", "Asia/Kathmandu"])
def test_a_time_is_an_instant_whatever_the_sessions_zone(connection: Conn, zone: str) -> None:
    connection.execute("select set_config('timezone', %s, false)", [zone])
    tenant = add_tenant(connection)
    moment = datetime(2040, 3, 31, 2, 30, tzinfo=timezone(timedelta(hours=-7)))
    job_id = enqueue(connection, tenant, run_at=moment)
    stored = job(connection, job_id)
    assert (stored["state"], stored["run_at"]) == ("scheduled", moment)


def test_a_time_that_has_passed_is_now(connection: Conn) -> None:
    tenant = add_tenant(connection)
    past = now(connection) - timedelta(days=1)
    stored = job(connection, enqueue(connection, tenant, run_at=past))
    assert (stored["state"], stored["run_at"]) == ("available", past)


# -- refusals


def test_a_tenant_that_does_not_exist_is_named(connection: Conn) -> None:
    with pytest.raises(UsageError, match="there is no tenant with id 4711: see: batchproc tenants list"):
        STORE.enqueue(connection, NewJob(4711, "work"))


def test_the_database_itself_refuses_another_tenants_document(connection: Conn) -> None:
    mine, other = add_tenant(connection, "mine"), add_tenant(connection, "other")
    theirs = add_document(connection, other)
    with pytest.raises(UsageError, match=f"tenant {mine} has no document {theirs}"):
        STORE.enqueue(connection, NewJob(mine, "work", document_id=theirs))
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        connection.execute(
            """
            insert into batchproc.processing_jobs (tenant_id, document_id, kind, state, max_attempts)
            values (%s, %s, 'work', 'available', 1)
            """,
            [mine, theirs],
        )
    job_id = enqueue(connection, other, document_id=theirs)
    for change in ("tenant_id = %s", "document_id = (select max(document_id) + 1 from batchproc.documents), lane = %s"):
        statement = f"update batchproc.processing_jobs set {change} where job_id = %s"
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.execute(statement.encode(), [mine if "tenant" in change else 1, job_id])


@pytest.mark.parametrize(
    "bad",
    [
        {"kind": "No Kind"},
        {"kind": "x" * 64},
        {"kind": "x" * 9000},
        {"kind": "a\0b"},
        {"priority": 0},
        {"priority": 10},
        {"priority": 40_000},
        {"priority": 2**40},
        {"max_attempts": -1},
        {"max_attempts": 1001},
        {"unique_key": "x" * 201},
        {"unique_key": "nul\0"},
        {"unique_key": "half a pair \ud800"},
        {"args": {"nul": "\0"}},
        {"args": {"half a pair": "\ud800"}},
        {"args": {"not a number": float("nan")}},
        {"document_id": 2**63},
    ],
    ids=lambda bad: ascii(bad)[:40],
)
def test_what_cannot_be_stored_is_refused_and_leaves_nothing(connection: Conn, bad: dict[str, Any]) -> None:
    tenant = add_tenant(connection)
    new = replace(NewJob(tenant, "work"), **bad)
    with pytest.raises(UsageError, match=r"cannot be stored \(\w+\)"):
        STORE.enqueue(connection, new)
    with pytest.raises(UsageError, match=r"cannot be stored \(\w+\): nothing was enqueued"):
        STORE.enqueue_many(connection, [NewJob(tenant, "work"), new])
    assert one(connection, "select count(*) from batchproc.processing_jobs") == 0


NAMES = st.one_of(
    st.from_regex(r"\A[a-z][a-z0-9_]{0,70}\Z"),
    st.text("az09_A -.\nä", max_size=5),
    st.integers(60, 66).map("k".__mul__),
)


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES, min_size=30, max_size=60))
def test_jobs_and_kinds_have_the_same_names(connection: Conn, names: list[str]) -> None:
    """The check of the jobs is said in another way, since it is made with every write."""
    [row] = rows_of(
        connection,
        """
        select array_agg(n ~ '^[a-z][a-z0-9_]{0,62}$' order by i) as kinds,
               array_agg(n ~ '^[a-z][a-z0-9_]*$' and length(n) <= 63 order by i) as jobs
        from unnest(%s::text[]) with ordinality as named(n, i)
        """,
        [names],
    )
    assert row["jobs"] == row["kinds"]
    checks = rows_of(
        connection,
        """
        select conname, pg_get_constraintdef(oid) as said from pg_constraint
        where conname in ('kinds_kind_check', 'processing_jobs_kind_check') and connamespace = 'batchproc'::regnamespace
        order by conname
        """,
    )
    assert "[a-z0-9_]{0,62}$" in checks[0]["said"]
    assert "[a-z0-9_]*$" in checks[1]["said"]
    assert "length(kind) <= 63" in checks[1]["said"]
