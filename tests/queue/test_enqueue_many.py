"""Jobs by COPY: all or none, at once and at volume."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batchproc.core.errors import UsageError
from batchproc.core.job import JobState, KindSpec, Lane, NewJob
from batchproc.queue.hints import Hint
from batchproc.queue.listener import Heard, Listener
from tests.queue.helpers import (
    CAMPAIGNS,
    PATIENCE,
    STORE,
    Conn,
    add_document,
    add_tenant,
    enqueue,
    now,
    one,
    queue_of,
    rows_of,
)

Opened = Callable[[], Conn]


def test_every_column_arrives(connection: Conn) -> None:
    tenant = add_tenant(connection)
    document = add_document(connection, tenant)
    later = now(connection) + timedelta(days=400)
    args: dict[str, Any] = {"text": 'tab\t back\\slash \\N "quoted" \n ä😀', "list": [1, None]}
    jobs = [
        NewJob(tenant, "work", args, document, Lane.INTERACTIVE, 1, later, "key\twith \\N", 3),
        NewJob(tenant, "once", unique_key="k"),
    ]
    specs = {"once": KindSpec("once", max_attempts=8, unique_while_running=True)}
    assert STORE.enqueue_many(connection, jobs, specs) == 2
    columns = "document_id, kind, lane, priority, state, run_at, args, unique_key, unique_while_running, max_attempts"
    first, second = rows_of(connection, f"select {columns} from batchproc.processing_jobs order by job_id")
    assert list(first.values()) == [
        document, "work", 0, 1, "scheduled", later, args, "key\twith \\N", False, 3,
    ]  # fmt: skip
    assert second.pop("run_at") <= now(connection)
    assert list(second.values()) == [None, "once", 1, 5, "available", {}, "k", True, 8]


def test_a_copy_looks_as_if_each_job_had_been_enqueued(connection: Conn) -> None:
    tenant = add_tenant(connection)
    jobs = [NewJob(tenant, "work"), NewJob(tenant, "other", {"a": 1}, lane=Lane.INTERACTIVE, unique_key="k")]
    for new in jobs:
        STORE.enqueue(connection, new)
    STORE.enqueue_many(connection, [NewJob(tenant, "work"), NewJob(tenant, "other", {"a": 1}, lane=Lane.INTERACTIVE)])
    own = {"job_id", "run_at", "created_at", "unique_key"}
    rows = rows_of(connection, "select * from batchproc.processing_jobs order by job_id")
    stored = [{name: value for name, value in row.items() if name not in own} for row in rows]
    assert stored[:2] == stored[2:]


def test_many_jobs_take_one_hint_and_little_time(connection: Conn, opened: Opened) -> None:
    tenant = add_tenant(connection)
    listener = Listener(opened(), "batchproc")
    jobs = (NewJob(tenant, "work", {"document_id": number}) for number in range(5000))
    assert STORE.enqueue_many(connection, jobs) == 5000
    assert listener.wait(PATIENCE) == Heard([Hint(queue_of(tenant), 5)])
    assert listener.wait(0) == Heard([])
    assert one(connection, "select count(distinct args) from batchproc.processing_jobs") == 5000


def test_of_a_batch_each_queue_is_told_with_its_lowest_priority(connection: Conn, opened: Opened) -> None:
    tenant, other = add_tenant(connection), add_tenant(connection, "other")
    campaign = CAMPAIGNS.begin(connection, "test")
    STORE.hold(connection, campaign)
    listener = Listener(opened(), "batchproc")
    jobs = [
        NewJob(tenant, "work", priority=7),
        NewJob(other, "work", priority=4),
        NewJob(tenant, "work", priority=3),
        NewJob(tenant, "work", priority=6),
        NewJob(tenant, "work", lane=Lane.INTERACTIVE),
        NewJob(tenant, "work", priority=1, campaign_id=campaign),
    ]
    with connection.transaction():
        STORE.enqueue_many(connection, jobs)
    expected = {
        Hint(queue_of(tenant), 3),
        Hint(queue_of(other), 4),
        Hint(queue_of(tenant, lane=Lane.INTERACTIVE), 5),
    }
    heard = set[Hint]()
    while len(heard) < len(expected):
        told = listener.wait(PATIENCE)
        assert told.hints
        assert not told.refresh
        heard |= set(told.hints)
    assert heard == expected
    assert listener.wait(0) == Heard([])


def test_of_a_batch_with_more_than_hints_can_tell_a_refresh_is_asked_for(connection: Conn, opened: Opened) -> None:
    tenant = add_tenant(connection)
    listener = Listener(opened(), "batchproc")
    STORE.enqueue_many(connection, [NewJob(tenant, f"kind_{number}") for number in range(9)])
    assert listener.wait(PATIENCE) == Heard([], refresh=True)
    STORE.enqueue_many(connection, [NewJob(tenant, "work"), NewJob(tenant, "work", run_at=now(connection))])
    assert listener.wait(PATIENCE) == Heard([], refresh=True), "what is due may have to be promoted"


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
_AWKWARD = st.lists(st.sampled_from(["\\", "\t", "\n", "\r", "\\.", "\\N", '"', "{", ",", "ä", "x"]), max_size=6).map(
    "".join
)
_TEXTS = st.one_of(_TEXT, _AWKWARD)


@given(
    key=st.none() | _TEXTS,
    args=st.dictionaries(_TEXTS, _TEXTS | st.integers(-(2**53), 2**53) | st.none() | st.lists(_TEXTS), max_size=3),
    languages=st.none() | st.lists(_TEXTS.filter(bool), min_size=1, max_size=3),
    later=st.booleans(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_job_holds_a_copy_stores_it_as_an_insert_does(
    connection: Conn, key: str | None, args: dict[str, Any], languages: list[str] | None, later: bool
) -> None:
    with connection.transaction(force_rollback=True):
        tenant = add_tenant(connection, "awkward")
        due = now(connection) + timedelta(hours=1) if later else None
        asked = tuple(languages) if languages else None
        new = NewJob(tenant, "work", args, unique_key=key, run_at=due, languages=asked)
        STORE.enqueue(connection, new)
        own = {"job_id", "created_at", *(() if later else ("run_at",))}
        [inserted] = rows_of(connection, "delete from batchproc.processing_jobs returning *")
        STORE.enqueue_many(connection, [new, NewJob(tenant, "work")])
        [copied] = rows_of(connection, "select * from batchproc.processing_jobs order by job_id limit 1")
        assert {name: copied[name] for name in copied.keys() - own} == {
            name: inserted[name] for name in inserted.keys() - own
        }


def test_none_is_none(connection: Conn) -> None:
    assert STORE.enqueue_many(connection, []) == 0


def good_and(tenant: int, bad: NewJob) -> Iterator[NewJob]:
    yield NewJob(tenant, "work")
    yield NewJob(tenant, "work", unique_key="k")
    yield bad
    yield NewJob(tenant, "work")


@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_batch_with_one_bad_job_leaves_nothing(connection: Conn, in_transaction: bool) -> None:
    tenant, other = add_tenant(connection), add_tenant(connection, "other")
    theirs = add_document(connection, other)
    waiting = enqueue(connection, tenant, unique_key="waits")
    refusals = [
        (NewJob(tenant, "work", unique_key="k"), "a unique key that already waits: nothing was enqueued"),
        (NewJob(tenant, "work", unique_key="waits"), "a unique key that already waits: nothing was enqueued"),
        (NewJob(4711, "work"), "names a tenant that does not exist, or a document that is not that tenant's"),
        (NewJob(tenant, "work", document_id=theirs), "a document that is not that tenant's: nothing was enqueued"),
        (NewJob(tenant, "Bad Kind"), "cannot be stored"),
        (NewJob(tenant, "work", priority=77), "cannot be stored"),
    ]
    for bad, message in refusals:
        # The error is caught inside: a transaction that met one commits nothing, whatever its caller does.
        with connection.transaction() if in_transaction else nullcontext(), pytest.raises(UsageError, match=message):
            STORE.enqueue_many(connection, good_and(tenant, bad))
        assert one(connection, "select job_id from batchproc.processing_jobs") == waiting


def test_a_source_that_fails_leaves_nothing_and_the_connection_usable(connection: Conn) -> None:
    tenant = add_tenant(connection)

    def jobs() -> Iterator[NewJob]:
        yield NewJob(tenant, "work")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        STORE.enqueue_many(connection, jobs())
    assert one(connection, "select count(*) from batchproc.processing_jobs") == 0
    assert rows_of(connection, "select state from batchproc.processing_jobs") == []


def test_a_batch_is_seen_when_the_caller_commits(connection: Conn, opened: Opened) -> None:
    tenant = add_tenant(connection)
    listener = Listener(opened(), "batchproc")
    with connection.transaction(force_rollback=True):
        STORE.enqueue_many(connection, [NewJob(tenant, "work")])
    assert listener.wait(0.1) == Heard([])
    assert one(connection, "select count(*) from batchproc.processing_jobs") == 0


def test_a_time_in_a_batch_is_due_when_it_is_due(connection: Conn) -> None:
    tenant = add_tenant(connection)
    past = now(connection) - timedelta(days=1)
    STORE.enqueue_many(connection, [NewJob(tenant, "work", run_at=past)])
    [row] = rows_of(connection, "select state, run_at from batchproc.processing_jobs")
    assert row["run_at"] == past
    assert row["state"] == JobState.SCHEDULED  # the next promotion takes it
