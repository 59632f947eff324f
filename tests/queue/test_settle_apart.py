"""An ending that cannot be written stops no other, and is written itself with whatever can be stored of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.budgets import Counters
from batchproc.core.job import Claim, JobState
from batchproc.core.outcome import Completed, ErrorClass, Failed, FollowUp, Interrupted, Outcome, Snoozed
from batchproc.core.transition import Transition
from batchproc.queue.endings import Ended, ending_json
from tests.queue.helpers import (
    PATIENCE,
    Conn,
    add_document,
    add_tenant,
    attempts,
    ended,
    failed,
    job,
    join,
    one,
    queue_of,
    running,
    state,
    wait_for_blocked,
)

Opened = Callable[[], Conn]
DEEP: Any = {}
for _ in range(5000):
    DEEP = {"a": DEEP}

BAD_RESULTS = {
    "no JSON": '{"a": ',
    "no object's end": "{}}",
    "NUL": '{"a": "\\u0000"}',
    "half a pair": '{"a": "\\ud800"}',
    "not ASCII": '{"a": "\ud800"}',
    "deep": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "number": '{"a": 1e999999}',
}
BAD_FOLLOW_UPS = {
    "kind": FollowUp("No Kind"),
    "args no JSON": FollowUp("other", {"at": datetime(2026, 1, 1)}),
    "args NaN": FollowUp("other", {"a": math.nan}),
    "args NUL": FollowUp("other", {"a": "\0"}),
    "args deep": FollowUp("other", DEEP),
    "key": FollowUp("other", {}, None, "x" * 201),
    "document": FollowUp("other", {}, 4711),
}
BAD_OUTCOMES = [pytest.param(Completed(result, (FollowUp("other"),)), id=name) for name, result in BAD_RESULTS.items()]
BAD_OUTCOMES += [pytest.param(Completed("{}", (bad,)), id=f"follow-up {name}") for name, bad in BAD_FOLLOW_UPS.items()]


@pytest.mark.parametrize("outcome", BAD_OUTCOMES)
def test_a_bad_ending_stops_no_other_and_ends_under_a_code(connection: Conn, outcome: Outcome) -> None:
    tenant, node = add_tenant(connection), join(connection)
    good, bad, also_good = (running(connection, node, tenant) for _ in range(3))
    endings = [
        ended(good, Completed('{"good": 1}', (FollowUp("other"),))),
        ended(bad, outcome),
        ended(also_good, failed()),
    ]
    try:
        settled, _ = node.tick(connection, endings, [], limited=False, run_id=None)
    except psycopg.Error:
        assert [state(connection, item.job_id) for item in (good, bad, also_good)] == [JobState.RUNNING] * 3
        assert one(connection, "select count(*) from batchproc.job_attempts") == 0
        settled = node.settle_one_by_one(connection, endings)
    assert settled.states == {
        good.claim_id: JobState.COMPLETED,
        bad.claim_id: JobState.DISCARDED,
        also_good.claim_id: JobState.SCHEDULED,
    }
    assert settled.followed == [queue_of(tenant, "other")]
    assert settled.unwritten == frozenset()
    assert job(connection, good.job_id)["result"] == {"good": 1}
    stored = job(connection, bad.job_id)
    assert (stored["failure_code"], stored["result"], stored["attempt"]) == ("internal_error", None, 1)
    [attempt] = attempts(connection, bad.job_id)
    expected = ("failed", "permanent", "internal_error", "the outcome could not be stored", 4711, 1.5)
    names = ("outcome", "error_class", "failure_code", "error_type", "worker_pid", "seconds")
    assert tuple(attempt[name] for name in names) == expected


def transition(job_id: int, claim: Any, **fields: Any) -> Transition:
    return Transition(job_id, claim, JobState.SCHEDULED, Counters(1, 0, 0, 0), "failed")._replace(**fields)


@pytest.mark.parametrize(
    ("fields", "expected_state", "expected_code"),
    [
        ({"failure_code": "nul\0"}, "scheduled", "internal_error"),
        ({"failure_code": "\ud800"}, "scheduled", "internal_error"),
        ({"failure_code": "fine", "delay": math.inf}, "scheduled", "fine"),
        ({"failure_code": "fine", "delay": 1e300}, "scheduled", "fine"),
        ({"outcome": "snoozed", "delay": math.nan}, "scheduled", None),
        ({"outcome": "interrupted", "state": JobState.AVAILABLE, "error_class": "\0"}, "running", None),
        ({"state": JobState.DISCARDED, "failure_code": "poison\0"}, "discarded", "internal_error"),
    ],
    ids=lambda value: ascii(value)[:50] if isinstance(value, dict) else "",
)
def test_no_field_of_a_transition_keeps_it_from_being_written(
    connection: Conn, fields: dict[str, Any], expected_state: str, expected_code: str | None
) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    ending = Ended(transition(claimed.job_id, claimed.claim_id, **fields), 1, 1.0)
    settled = node.settle_one_by_one(connection, [ending])
    stored = job(connection, claimed.job_id)
    assert (stored["state"], stored["failure_code"]) == (expected_state, expected_code)
    if expected_state == "running":
        assert settled.unwritten == {claimed.claim_id}, "nothing is pretended"


def test_a_failed_document_is_still_marked_when_the_rest_cannot_be_written(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    add_document(connection, tenant)
    document = one(connection, "select document_id from batchproc.documents")
    claimed = running(connection, node, tenant, document_id=document)
    bad = transition(claimed.job_id, claimed.claim_id, state=JobState.DISCARDED, failure_code="\0", fails_document=True)
    node.settle_one_by_one(connection, [Ended(bad)])
    assert one(connection, "select status || ' ' || failure_code from batchproc.documents") == "failed internal_error"


# -- errors that pass


def test_a_lock_timeout_leaves_the_ending_whole_for_the_next_try(
    connection: Conn, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, node, other = add_tenant(connection), join(connection), opened()
    blocked, free = running(connection, node, tenant), running(connection, node, tenant)
    endings = [ended(blocked, Completed('{"a": 1}')), ended(free, Completed("{}"))]
    connection.execute("set lock_timeout = '50ms'")
    with other.transaction():
        other.execute("select from batchproc.processing_jobs where job_id = %s for update", [blocked.job_id])
        with pytest.raises(psycopg.errors.LockNotAvailable):
            node.tick(connection, endings, [], limited=False, run_id=None)
        settle = Mock(side_effect=node.settle)
        monkeypatch.setattr(node, "settle", settle)
        settled = node.settle_one_by_one(connection, endings)
        assert settle.call_count == 2, "once each: not at once again, and never without its content"
    assert settled.states == {free.claim_id: JobState.COMPLETED}
    assert settled.unwritten == {blocked.claim_id}
    assert node.settle(connection, endings).states == {blocked.claim_id: JobState.COMPLETED}
    assert job(connection, blocked.job_id)["result"] == {"a": 1}


def test_a_deadlock_victim_is_tried_again_as_it_was(connection: Conn, opened: Opened) -> None:
    tenant, node, other, third = add_tenant(connection), join(connection), opened(), opened()
    mine, theirs = running(connection, node, tenant), running(connection, node, tenant)
    connection.execute("set deadlock_timeout = '50ms'")
    other.execute("set deadlock_timeout = '60s'")
    lock = "select from batchproc.processing_jobs where job_id = %s for update"
    with ThreadPoolExecutor(2) as pool, other.transaction():
        other.execute(lock, [theirs.job_id])

        def settle_holding_mine() -> frozenset[Any]:
            with connection.transaction():
                connection.execute(lock, [mine.job_id])
                return node.settle_one_by_one(connection, [ended(theirs)]).unwritten

        settling = pool.submit(settle_holding_mine)
        wait_for_blocked(third)
        blocked = pool.submit(other.execute, lock, [mine.job_id])
        assert settling.result(PATIENCE) == {theirs.claim_id}
        blocked.result(PATIENCE)
    assert node.settle(connection, [ended(mine), ended(theirs)]).states


def test_a_lost_connection_is_told(connection: Conn, opened: Opened) -> None:
    tenant, node, victim = add_tenant(connection), join(connection), opened()
    claimed = running(connection, node, tenant)
    connection.execute("select pg_terminate_backend(%s)", [victim.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        node.settle_one_by_one(victim, [ended(claimed)])
    assert state(connection, claimed.job_id) is JobState.RUNNING


def test_a_tick_on_a_lost_connection_is_told(connection: Conn, opened: Opened) -> None:
    tenant, node, victim = add_tenant(connection), join(connection), opened()
    claimed = running(connection, node, tenant)
    connection.execute("select pg_terminate_backend(%s)", [victim.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        node.tick(victim, [ended(claimed)], [], limited=False, run_id=None)
    assert victim.closed


# -- whatever an outcome holds

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
ANYTHING: st.SearchStrategy[Any] = st.none() | st.floats() | ANY_TEXT | st.binary(max_size=3) | st.just(object())
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(
        Completed, st.none() | ANY_TEXT, st.tuples(st.builds(FollowUp, ANY_TEXT, st.dictionaries(ANY_TEXT, ANYTHING)))
    ),
    st.builds(Failed, st.sampled_from(ErrorClass), ANY_TEXT, ANY_TEXT, ANY_TEXT),
    st.builds(Snoozed, st.floats()),
    st.builds(Interrupted, ANY_TEXT),
)


CLAIM = Claim(1, UUID(int=1), 1, "work", 1, 5, 1, 5, 0, 0, 0)


@given(OUTCOMES, st.floats())
def test_an_ending_is_always_ascii_json_text(outcome: Outcome, seconds: float) -> None:
    ending = ended(CLAIM, outcome)._replace(seconds=seconds)
    assert ending_json(ending, {}).isascii()


@given(
    result=st.none() | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3).map(json.dumps),
    seconds=st.floats(0, 1e9) | st.just(math.inf),
    worker_pid=st.none() | st.integers(1, 2**22),
)
def test_the_short_way_of_a_completed_job_says_the_same_as_the_long_one(
    result: str | None, seconds: float, worker_pid: int | None
) -> None:
    short = ended(CLAIM, Completed(result))._replace(seconds=seconds, worker_pid=worker_pid)
    long = short._replace(transition=short.transition._replace(detail="the long way"))
    assert meant(ending_json(short, {})) == meant(ending_json(long, {}), without="detail")


def meant(ending: str, without: str = "") -> dict[str, object]:
    """What is null is as what is left out."""
    return {name: value for name, value in json.loads(ending).items() if value is not None and name != without}


def test_any_outcome_can_be_settled(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)

    @given(OUTCOMES)
    def settles(outcome: Outcome) -> None:
        claimed = running(connection, node, tenant)
        settled = node.settle_one_by_one(connection, [ended(claimed, outcome)])
        assert set(settled.states) == {claimed.claim_id}

    settles()
