"""What a settle writes: the job, its attempt, usage, follow-ups and the failed document, together or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg
import pytest

from batchproc.core.fairness import Queue
from batchproc.core.job import JobState, KindSpec, Lane
from batchproc.core.limits import LEAST_SNOOZE
from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Failed, FollowUp, Interrupted, Outcome, Snoozed
from batchproc.core.settle import STORAGE_SNOOZE
from batchproc.queue.node_store import Ended
from tests.queue.helpers import (
    PATIENCE,
    Conn,
    add_document,
    add_tenant,
    attempts,
    claim_job,
    decide,
    ended,
    enqueue,
    failed,
    job,
    join,
    now,
    one,
    queue_of,
    rows_of,
    running,
    state,
    wait_for_blocked,
)

Opened = Callable[[], Conn]
KEPT = ("tenant_id", "kind", "lane", "priority", "args", "unique_key", "max_attempts", "created_at", "run_id")


class Row(NamedTuple):
    """What is expected of the job and its attempt. ``due_in``: seconds until it is due, None: as before.

    ``counters``: attempt, crashes, timeouts, node losses; they are 2, 1, 1, 1 when the attempt ends.
    """

    state: str
    due_in: float | None
    counters: tuple[int, int, int, int]
    code: str | None
    attempt_outcome: str


ENDINGS: list[tuple[Outcome, Row]] = [
    (Completed('{"pages": 3}'), Row("completed", None, (2, 1, 1, 1), None, "completed")),
    (failed(), Row("scheduled", 2.0, (2, 1, 1, 1), "own_code", "failed")),
    (failed(ErrorClass.TIMEOUT), Row("discarded", None, (2, 1, 2, 1), "timeout", "failed")),
    (failed(ErrorClass.STALLED), Row("discarded", None, (2, 1, 2, 1), "stalled", "failed")),
    (failed(ErrorClass.CRASHED), Row("scheduled", 2.0, (2, 2, 1, 1), "own_code", "failed")),
    (failed(ErrorClass.OUT_OF_MEMORY), Row("scheduled", 2.0, (2, 2, 1, 1), "own_code", "failed")),
    (failed(ErrorClass.LEASE_EXPIRED), Row("available", 0.0, (1, 1, 1, 2), "own_code", "failed")),
    (failed(ErrorClass.PERMANENT), Row("discarded", None, (2, 1, 1, 1), "own_code", "failed")),
    (failed(ErrorClass.INVALID), Row("discarded", None, (2, 1, 1, 1), "own_code", "failed")),
    (failed(ErrorClass.STORAGE_UNAVAILABLE), Row("scheduled", STORAGE_SNOOZE, (1, 1, 1, 1), "own_code", "snoozed")),
    (Interrupted("shutdown"), Row("available", None, (1, 1, 1, 1), None, "interrupted")),
    (Snoozed(90.0), Row("scheduled", 90.0, (1, 1, 1, 1), None, "snoozed")),
    (Snoozed(0.0), Row("scheduled", LEAST_SNOOZE, (1, 1, 1, 1), None, "snoozed")),
    (Cancelled(), Row("cancelled", None, (2, 1, 1, 1), None, "cancelled")),
]


@pytest.mark.parametrize(("outcome", "expected"), ENDINGS, ids=[str(outcome)[:40] for outcome, _ in ENDINGS])
def test_each_ending_is_written_as_decided(connection: Conn, outcome: Outcome, expected: Row) -> None:
    tenant, node = add_tenant(connection), join(connection)
    run_id = node.runs.start(connection, node.node_id, {})
    job_id = enqueue(connection, tenant, args={"a": 1}, priority=2, lane=Lane.INTERACTIVE)
    connection.execute("update batchproc.processing_jobs set attempt = 1, crashes = 1, timeouts = 1, node_losses = 1")
    claimed = claim_job(connection, node, job_id, run_id)
    before, asked = job(connection, job_id), now(connection)
    settled = node.settle(connection, [ended(claimed, outcome)])
    after, done = job(connection, job_id), now(connection)

    assert settled.states == {claimed.claim_id: JobState(expected.state)}
    assert {name: after[name] for name in KEPT} == {name: before[name] for name in KEPT}
    assert (after["state"], after["failure_code"]) == (expected.state, expected.code)
    assert tuple(after[name] for name in ("attempt", "crashes", "timeouts", "node_losses")) == expected.counters
    assert (after["claim_id"], after["node_id"]) == (None, None)
    assert after["claimed_at"] == before["claimed_at"]
    assert after["result"] == ({"pages": 3} if isinstance(outcome, Completed) else None)
    if expected.due_in is None:
        assert after["run_at"] == before["run_at"]
    else:
        wait = timedelta(seconds=expected.due_in)
        assert asked + wait <= after["run_at"] <= done + wait
    if expected.state in ("completed", "discarded", "cancelled"):
        assert asked <= after["finished_at"] <= done
    else:
        assert after["finished_at"] is None

    [attempt] = attempts(connection, job_id)
    assert asked <= attempt.pop("ended_at") <= done
    assert attempt == {
        "claim_id": claimed.claim_id,
        "job_id": job_id,
        "tenant_id": tenant,
        "number": 2,
        "node_id": node.node_id,
        "run_id": run_id,
        "worker_pid": 4711,
        "started_at": before["claimed_at"],
        "seconds": 1.5,
        "outcome": expected.attempt_outcome,
        "error_class": outcome.error_class if isinstance(outcome, Failed) else None,
        "failure_code": expected.code,
        "error_type": "ValueError at scan.py:12" if isinstance(outcome, Failed) else None,
        "detail": {Failed: "a safe detail", Interrupted: "shutdown"}.get(type(outcome)),
        "gave_up": expected.state == "discarded",
    }


def test_usage_counts_attempts_seconds_and_endings_per_day(connection: Conn) -> None:
    one_, two, node = add_tenant(connection, "one"), add_tenant(connection, "two"), join(connection)
    endings = [
        ended(running(connection, node, one_)),
        ended(running(connection, node, one_), failed(ErrorClass.PERMANENT)),
        ended(running(connection, node, one_), failed()),
        ended(running(connection, node, one_, "other")),
        ended(running(connection, node, two), Interrupted("")),
    ]
    node.settle(connection, endings)
    node.settle(connection, [ended(running(connection, node, one_))])
    day = one(connection, "select (clock_timestamp() at time zone 'UTC')::date")
    query = """
        select tenant_id, kind, day, attempts, worker_seconds, completed, discarded from batchproc.usage_daily
        order by tenant_id, kind
    """
    assert [tuple(row.values()) for row in rows_of(connection, query)] == [
        (one_, "other", day, 1, 1.5, 1, 0),
        (one_, "work", day, 4, 6.0, 2, 1),
        (two, "work", day, 1, 1.5, 0, 0),
    ]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_the_day_of_usage_is_that_of_utc(connection: Conn, zone: str) -> None:
    connection.execute("select set_config('timezone', %s, false)", [zone])
    tenant, node = add_tenant(connection), join(connection)
    node.settle(connection, [ended(running(connection, node, tenant))])
    utc = "(clock_timestamp() at time zone 'UTC')::date"
    assert one(connection, f"select day = {utc} from batchproc.usage_daily")


def test_the_settle_ends_the_jobs_signals(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    gone, kept = running(connection, node, tenant), running(connection, node, tenant)
    node.write_progress(connection, [(item.job_id, item.claim_id, 1, 2) for item in (gone, kept)])
    node.settle(connection, [ended(gone)])
    assert one(connection, "select job_id from batchproc.job_signals") == kept.job_id


# -- results


def test_a_result_is_stored_as_it_is(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    result = {"text": "ä😀\"\\ % %s {} '", "list": [1, 2.5, None, True], "empty": {}, "big": 10**30}
    claimed = running(connection, node, tenant)
    node.settle(connection, [ended(claimed, Completed(json.dumps(result)))])
    assert job(connection, claimed.job_id)["result"] == result


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Completed(None), None),
        (Completed('{"final": 1}'), {"final": 1}),
        (failed(ErrorClass.PERMANENT), {"partial": 1}),
        (failed(), None),
    ],
    ids=["completed without", "completed", "discarded", "retried"],
)
def test_a_partial_result_stays_only_with_a_job_that_was_given_up_on(
    connection: Conn, outcome: Outcome, expected: Any
) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    connection.execute("""update batchproc.processing_jobs set result = '{"partial": 1}'""")
    node.settle(connection, [ended(claimed, outcome)])
    assert job(connection, claimed.job_id)["result"] == expected


def test_texts_are_cleaned_and_cut(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    outcome = Failed(ErrorClass.PERMANENT, "own_code", "T\0" * 400, "nul\0 half\ud800 😀" + "x" * 3000)
    node.settle(connection, [ended(claimed, outcome)])
    [attempt] = attempts(connection, claimed.job_id)
    assert attempt["error_type"] == "T" * 299 + "…"
    assert attempt["detail"] == ("nul half 😀" + "x" * 3000)[:1999] + "…"


# -- follow-ups


def test_a_follow_up_inherits_and_is_stored_as_asked(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    document, run_id = add_document(connection, tenant), node.runs.start(connection, node.node_id, {})
    campaign = one(connection, "insert into batchproc.campaigns (command) values ('') returning campaign_id")
    claimed = running(connection, node, tenant, lane=Lane.INTERACTIVE, priority=2, campaign_id=campaign, run_id=run_id)
    node._specs = {"once": KindSpec("once", max_attempts=9, unique_while_running=True)}
    follow_ups = (FollowUp("once", {"document_id": document}, document, "key"), FollowUp("unknown_here"))
    settled = node.settle(connection, [ended(claimed, Completed(follow_ups=follow_ups))])
    assert sorted(settled.followed) == [Queue(0, tenant, "once"), Queue(0, tenant, "unknown_here")]
    columns = """
        tenant_id, document_id, kind, lane, priority, state, args, unique_key, unique_while_running, max_attempts,
        campaign_id, run_id, attempt
    """
    first, second = rows_of(
        connection, f"select {columns} from batchproc.processing_jobs where job_id > %s order by kind", [claimed.job_id]
    )
    shared = (0, 2, "available")
    inherited = (campaign, run_id, 0)
    args = {"document_id": document}
    assert tuple(first.values()) == (tenant, document, "once", *shared, args, "key", True, 9, *inherited)
    assert tuple(second.values()) == (tenant, None, "unknown_here", *shared, {}, None, False, 5, *inherited)


def test_the_run_that_claimed_a_job_owns_what_follows(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    first, second = node.runs.start(connection, node.node_id, {}), node.runs.start(connection, node.node_id, {})
    job_id = enqueue(connection, tenant, run_id=first)
    claimed = claim_job(connection, node, job_id, second)
    node.settle(connection, [ended(claimed, Completed(follow_ups=(FollowUp("other"),)))])
    assert one(connection, "select run_id from batchproc.processing_jobs where kind = 'other'") == second


def test_a_follow_up_that_waits_already_is_dropped(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    waiting = enqueue(connection, tenant, "other", unique_key="k")
    first, second = running(connection, node, tenant), running(connection, node, tenant)
    twice = (FollowUp("other", {}, None, "new"), FollowUp("other", {}, None, "new"), FollowUp("other", {}, None, "k"))
    endings = [ended(item, Completed('{"a": 1}', twice)) for item in (first, second)]
    settled = node.settle(connection, endings)
    assert settled.states == dict.fromkeys([first.claim_id, second.claim_id], JobState.COMPLETED)
    assert settled.followed == [queue_of(tenant, "other")]
    keys = rows_of(connection, "select job_id, unique_key from batchproc.processing_jobs where kind = 'other'")
    assert sorted(row["unique_key"] for row in keys) == ["k", "new"]
    assert waiting in {row["job_id"] for row in keys}


@pytest.mark.parametrize("outcome", [failed(), failed(ErrorClass.PERMANENT), Interrupted(""), Snoozed(1), Cancelled()])
def test_only_a_completed_job_is_followed(connection: Conn, outcome: Outcome) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    assert node.settle(connection, [ended(claimed, outcome)]).followed == []
    assert one(connection, "select count(*) from batchproc.processing_jobs") == 1


# -- a job that comes back while another of its key waits


@pytest.mark.parametrize("outcome", [failed(), Snoozed(90), Interrupted(""), failed(ErrorClass.LEASE_EXPIRED)])
def test_a_job_that_comes_back_while_its_successor_waits_is_superseded(connection: Conn, outcome: Failed) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant, unique_key="k")
    successor = enqueue(connection, tenant, unique_key="k")
    assert node.settle(connection, [ended(claimed, outcome)]).states == {claimed.claim_id: JobState.CANCELLED}
    stored = job(connection, claimed.job_id)
    assert (stored["state"], stored["failure_code"]) == ("cancelled", "superseded")
    assert stored["finished_at"] is not None
    [attempt] = attempts(connection, claimed.job_id)
    assert attempt["outcome"] == decide(claimed, outcome).outcome, "the attempt ended as it ended"
    assert state(connection, successor) is JobState.AVAILABLE


@pytest.mark.parametrize("outcome", [Completed("{}"), failed(ErrorClass.PERMANENT), Cancelled()])
def test_a_job_that_is_over_is_not_superseded(connection: Conn, outcome: Outcome) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant, unique_key="k")
    enqueue(connection, tenant, unique_key="k")
    expected = decide(claimed, outcome).state
    assert node.settle(connection, [ended(claimed, outcome)]).states == {claimed.claim_id: expected}
    assert job(connection, claimed.job_id)["failure_code"] != "superseded"


def test_a_successor_that_commits_while_the_settle_waits_is_found_by_the_next_try(
    connection: Conn, opened: Opened
) -> None:
    tenant, node, other = add_tenant(connection), join(connection), opened()
    claimed = running(connection, node, tenant, unique_key="k")
    endings = [ended(claimed, failed())]
    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            enqueue(other, tenant, unique_key="k")
            settling = pool.submit(node.settle, connection, endings)
            wait_for_blocked(other)
        with pytest.raises(psycopg.errors.UniqueViolation):
            settling.result(PATIENCE)
    assert state(connection, claimed.job_id) is JobState.RUNNING
    assert attempts(connection, claimed.job_id) == []
    assert node.settle_one_by_one(connection, endings).states == {claimed.claim_id: JobState.CANCELLED}
    [attempt] = attempts(connection, claimed.job_id)
    assert (attempt["failure_code"], attempt["detail"]) == ("own_code", "a safe detail")


def test_a_successor_that_comes_in_between_costs_nothing_of_the_ending(connection: Conn, opened: Opened) -> None:
    tenant, node, other = add_tenant(connection), join(connection), opened()
    claimed = running(connection, node, tenant, unique_key="k")
    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            enqueue(other, tenant, unique_key="k")
            settling = pool.submit(node.settle_one_by_one, connection, [ended(claimed, failed())])
            wait_for_blocked(other)
        assert settling.result(PATIENCE).states == {claimed.claim_id: JobState.CANCELLED}
    [attempt] = attempts(connection, claimed.job_id)
    assert (attempt["failure_code"], attempt["detail"]) == ("own_code", "a safe detail")


def test_of_two_with_one_key_that_come_back_together_one_is_superseded(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    first = running(connection, node, tenant, unique_key="k")
    second = running(connection, node, tenant, unique_key="k")
    endings = [ended(first, failed()), ended(second, failed())]
    with pytest.raises(psycopg.errors.UniqueViolation):
        node.settle(connection, endings)
    states = node.settle_one_by_one(connection, endings).states
    assert states == {first.claim_id: JobState.SCHEDULED, second.claim_id: JobState.CANCELLED}


# -- the document


@pytest.mark.parametrize(
    ("before", "after"),
    [("pending", "failed"), ("failed", "failed"), ("completed", "completed"), ("partial", "partial")],
)
def test_a_document_without_a_good_text_fails_with_its_job(connection: Conn, before: str, after: str) -> None:
    tenant, node = add_tenant(connection), join(connection)
    document, untouched = add_document(connection, tenant, before), add_document(connection, tenant)
    spec = KindSpec("work", fails_document=True)
    claimed = running(connection, node, tenant, document_id=document)
    node.settle(connection, [ended(claimed, failed(ErrorClass.PERMANENT), spec)])
    query = "select status, failure_code from batchproc.documents where document_id = %s"
    code = "own_code" if after == "failed" else None
    assert rows_of(connection, query, [document]) == [{"status": after, "failure_code": code}]
    assert rows_of(connection, query, [untouched]) == [{"status": "pending", "failure_code": None}]


@pytest.mark.parametrize(
    ("outcome", "fails_document"),
    [(failed(), True), (failed(ErrorClass.PERMANENT), False), (Completed(), True), (Cancelled(), True)],
)
def test_a_document_does_not_fail_before_its_job_is_given_up_on(
    connection: Conn, outcome: Outcome, fails_document: bool
) -> None:
    tenant, node = add_tenant(connection), join(connection)
    document = add_document(connection, tenant)
    claimed = running(connection, node, tenant, document_id=document)
    node.settle(connection, [ended(claimed, outcome, KindSpec("work", fails_document=fails_document))])
    assert one(connection, "select status from batchproc.documents") == "pending"


def test_a_job_without_a_document_fails_none(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    add_document(connection, tenant)
    claimed = running(connection, node, tenant)
    node.settle(connection, [ended(claimed, failed(ErrorClass.PERMANENT), KindSpec("work", fails_document=True))])
    assert one(connection, "select status from batchproc.documents") == "pending"


# -- many at once


def test_a_batch_is_written_in_one_go(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claims = [running(connection, node, tenant) for _ in range(40)]
    outcomes: list[Outcome] = [Completed("{}"), failed(), failed(ErrorClass.PERMANENT), Interrupted("")]
    endings = [ended(claimed, outcomes[number % 4]) for number, claimed in enumerate(claims)]
    settled = node.settle(connection, endings)
    expected = [JobState.COMPLETED, JobState.SCHEDULED, JobState.DISCARDED, JobState.AVAILABLE] * 10
    assert [settled.states[claimed.claim_id] for claimed in claims] == expected
    assert one(connection, "select count(*) from batchproc.job_attempts") == 40
    assert one(connection, "select count(distinct xmin::text) from batchproc.processing_jobs") == 1


def test_an_attempt_without_a_worker_is_written_too(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    node.settle(connection, [Ended(decide(claimed, Interrupted("never started")))])
    [attempt] = attempts(connection, claimed.job_id)
    assert (attempt["worker_pid"], attempt["seconds"]) == (None, 0.0)


def test_attempts_add_up_until_the_job_is_given_up_on(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    job_id = enqueue(connection, tenant, max_attempts=3)
    for _ in range(3):
        node.settle(connection, [ended(claim_job(connection, node, job_id), failed())])
    assert node.claim_one(connection, job_id, None) is None
    assert [(row["number"], row["outcome"]) for row in attempts(connection, job_id)] == [
        (1, "failed"),
        (2, "failed"),
        (3, "failed"),
    ]
    stored = job(connection, job_id)
    assert (stored["state"], stored["attempt"], stored["failure_code"]) == ("discarded", 3, "own_code")


def test_a_rescue_writes_what_the_owner_would_have(connection: Conn) -> None:
    """The same statement: only the check of the lease is added."""
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    ending = ended(claimed, failed(ErrorClass.LEASE_EXPIRED))._replace(worker_pid=None)
    assert node.settle(connection, [ending], rescue=True).states == {}, "its node lives"
    connection.execute("delete from batchproc.nodes")
    assert node.settle(connection, [ending], rescue=True).states == {claimed.claim_id: JobState.AVAILABLE}
    assert attempts(connection, claimed.job_id)[0]["node_id"] == node.node_id
