"""Trying again what was given up on, when an operator asks for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from batchproc.core.job import JobState
from batchproc.core.outcome import Cancelled, Completed, ErrorClass
from batchproc.queue.campaign_listing import CampaignListing
from batchproc.queue.changing import Changing
from batchproc.queue.listener import Heard, Listener
from batchproc.queue.node_store import NodeStore
from tests.queue.helpers import (
    CAMPAIGNS,
    PATIENCE,
    STORE,
    Conn,
    add_tenant,
    attempts,
    claim_job,
    ended,
    enqueue,
    failed,
    job,
    join,
    now,
    retry,
    running,
    state,
    wait_for_blocked,
)

Opened = Callable[[], Conn]


def discarded(connection: Conn, node: NodeStore, tenant: int, kind: str = "work", key: str | None = None) -> int:
    claimed = running(connection, node, tenant, kind, unique_key=key)
    node.settle(connection, [ended(claimed, failed(ErrorClass.PERMANENT))])
    return claimed.job_id


def test_each_state_is_retried_or_named(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    given_up = discarded(connection, node, tenant)
    cancelled, completed, held = (running(connection, node, tenant) for _ in range(3))
    node.settle(connection, [ended(cancelled, Cancelled()), ended(completed, Completed())])
    waiting = enqueue(connection, tenant)
    later = enqueue(connection, tenant, run_at=now(connection).replace(year=2090))
    on_hold = enqueue(connection, tenant)
    connection.execute("update batchproc.processing_jobs set state = 'held' where job_id = %s", [on_hold])
    ids = [given_up, cancelled.job_id, completed.job_id, held.job_id, waiting, later, on_hold]
    before = {job_id: job(connection, job_id) for job_id in ids}
    assert retry(connection, [*reversed(ids), given_up, 4711]) == {
        given_up: "retried",
        cancelled.job_id: "retried",
        completed.job_id: "completed",
        held.job_id: "retried_already",
        waiting: "retried_already",
        later: "retried_already",
        on_hold: "retried_already",
        4711: "unknown",
    }
    for job_id in ids[2:]:
        assert job(connection, job_id) == before[job_id]


def test_a_retried_job_begins_afresh_and_keeps_its_history(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    run_id = node.runs.start(connection, node.node_id, {})
    job_id = enqueue(connection, tenant, args={"a": 1}, priority=2, max_attempts=1)
    node.settle(connection, [ended(claim_job(connection, node, job_id, run_id), failed())])
    connection.execute(
        """
        update batchproc.processing_jobs set crashes = 1, timeouts = 1, node_losses = 1, result = '{"partial": 1}'
        """
    )
    before, asked = job(connection, job_id), now(connection)
    retry(connection, [job_id])
    after = job(connection, job_id)
    changed = {name: after[name] for name in after if after[name] != before[name]}
    assert asked <= changed.pop("run_at") <= now(connection)
    cleared = dict.fromkeys(("failure_code", "result", "finished_at", "run_id"))
    assert changed == cleared | {"state": "available", "attempt": 0, "crashes": 0, "timeouts": 0, "node_losses": 0}
    assert len(attempts(connection, job_id)) == 1
    assert claim_job(connection, node, job_id).attempt == 1


@pytest.mark.parametrize(
    ("state", "code", "waits"),
    [
        ("cancelled", None, "scheduled"),
        ("cancelled", "superseded", "scheduled"),
        ("discarded", "given_up", "scheduled"),
        ("discarded", "encrypted", "available"),
    ],
)
@pytest.mark.parametrize("is_due", [False, True])
def test_what_was_ended_before_its_time_waits_for_it_again(
    connection: Conn, state: str, code: str | None, waits: str, is_due: bool
) -> None:
    at = now(connection).replace(year=2090)
    job_id = enqueue(connection, add_tenant(connection), run_at=at)
    connection.execute(
        "update batchproc.processing_jobs set state = %s, failure_code = %s, finished_at = clock_timestamp(),"
        " run_at = case when %s then clock_timestamp() else run_at end",
        [state, code, is_due],
    )
    asked = now(connection)
    assert retry(connection, [job_id]) == {job_id: "retried"}
    after = job(connection, job_id)
    assert after["state"] == ("available" if is_due else waits)
    assert after["run_at"] == at if after["state"] == "scheduled" else asked <= after["run_at"] <= now(connection)


def test_retrying_is_announced(connection: Conn, opened: Opened) -> None:
    tenant, node = add_tenant(connection), join(connection)
    job_id = discarded(connection, node, tenant)
    listener = Listener(opened(), "batchproc")
    retry(connection, [job_id])
    assert listener.wait(PATIENCE) == Heard([], refresh=True)


def test_nothing_to_retry_is_nothing(connection: Conn) -> None:
    assert retry(connection, []) == {}


# -- unique keys


def test_of_several_with_one_key_the_newest_is_retried(connection: Conn) -> None:
    tenant, other, node = add_tenant(connection), add_tenant(connection, "other"), join(connection)
    same = [discarded(connection, node, tenant, key="k") for _ in range(3)]
    apart = [
        discarded(connection, node, tenant, key="other"),
        discarded(connection, node, tenant, "other", key="k"),
        discarded(connection, node, other, key="k"),
        discarded(connection, node, tenant),
        discarded(connection, node, tenant),
    ]
    result = retry(connection, same + apart)
    assert [result[job_id] for job_id in same] == ["superseded", "superseded", "retried"]
    assert [result[job_id] for job_id in apart] == ["retried"] * 5
    assert state(connection, same[0]) is JobState.DISCARDED


@pytest.mark.parametrize("together", [True, False])
def test_a_job_whose_key_waits_is_left_as_it_is(connection: Conn, together: bool) -> None:
    tenant, node = add_tenant(connection), join(connection)
    old = discarded(connection, node, tenant, key="k")
    waiting = enqueue(connection, tenant, unique_key="k")
    result = retry(connection, [old, waiting] if together else [old])
    assert result == {old: "superseded"} | ({waiting: "retried_already"} if together else {})
    assert state(connection, old) is JobState.DISCARDED


@pytest.mark.parametrize(("kind", "expected"), [("work", "retried"), ("once", "superseded")])
@pytest.mark.parametrize("together", [True, False])
def test_a_running_job_of_the_key_stands_in_the_way_only_where_its_kind_says_so(
    connection: Conn, kind: str, expected: str, together: bool
) -> None:
    tenant, node = add_tenant(connection), join(connection)
    old = discarded(connection, node, tenant, kind, key="k")
    now_running = running(connection, node, tenant, kind, unique_key="k").job_id
    result = retry(connection, [old, now_running] if together else [old])
    assert result == {old: expected} | ({now_running: "retried_already"} if together else {})


def test_a_key_that_is_taken_at_the_same_moment_keeps_no_other_job_from_its_retry(
    connection: Conn, opened: Opened
) -> None:
    tenant, node, other, third = add_tenant(connection), join(connection), opened(), opened()
    old, unrelated = discarded(connection, node, tenant, key="k"), discarded(connection, node, tenant)
    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            enqueue(other, tenant, unique_key="k")
            retrying = pool.submit(retry, connection, [old, unrelated])
            wait_for_blocked(third)
        assert retrying.result(PATIENCE) == {old: "superseded", unrelated: "retried"}


# -- of a cancelled campaign


class _KilledError(BaseException):
    """The end of a process, as its kill would be."""


def cancelled_campaign(connection: Conn, node: NodeStore, tenant: int, jobs: int, *, filled: bool = True) -> int:
    made = CAMPAIGNS.begin(connection, "reprocess --all", kind="work", scope={})
    ids = [enqueue(connection, tenant, campaign_id=made) for _ in range(jobs)]
    if filled:
        CAMPAIGNS.fill(connection, made)
    CAMPAIGNS.mark_cancelled(connection, made, cancelled=True)
    STORE.cancel(connection, ids)
    node.put_right(connection)
    assert is_cancelled(connection, made)
    return made


def is_cancelled(connection: Conn, campaign_id: int) -> bool:
    found = CampaignListing("batchproc").one(connection, campaign_id)
    assert not found.cancelling
    return found.cancelled_at is not None


def jobs_of(connection: Conn, campaign_id: int) -> list[int]:
    query = "select job_id from batchproc.processing_jobs where campaign_id = %s order by job_id"
    return [job_id for (job_id,) in connection.execute(query, [campaign_id]).fetchall()]


@pytest.mark.parametrize("then", ["waits", "completes"])
def test_a_retry_that_was_killed_before_it_took_the_cancel_back_is_made_good_by_the_next(
    connection: Conn, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    tenant, node = add_tenant(connection), join(connection)
    made = cancelled_campaign(connection, node, tenant, 1)
    ids = jobs_of(connection, made)
    changing = Changing("batchproc")
    whole = changing._sql

    class Killing:
        def __getitem__(self, name: str) -> bytes:
            if name == "take_back_cancel":
                raise _KilledError
            return whole[name]

    monkeypatch.setattr(changing, "_sql", Killing())
    with pytest.raises(_KilledError):
        changing.retry(connection, ids)
    assert (state(connection, ids[0]), is_cancelled(connection, made)) == (JobState.AVAILABLE, True)
    if then == "completes":
        node.settle(connection, [ended(claim_job(connection, node, ids[0]))])

    assert retry(connection, ids) == {ids[0]: "retried_already" if then == "waits" else "completed"}

    assert not is_cancelled(connection, made)


def test_a_cancel_stands_while_any_job_of_it_does(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    made = cancelled_campaign(connection, node, tenant, 2)
    first, second = jobs_of(connection, made)
    for _ in range(2):
        retry(connection, [first])
        assert is_cancelled(connection, made)
    retry(connection, [second])
    assert not is_cancelled(connection, made)


def test_a_command_that_adds_to_a_cancelled_campaign_stays_stopped(connection: Conn) -> None:
    """Although nothing of it is cancelled, and somebody asks for the retry of what is over."""
    tenant, node = add_tenant(connection), join(connection)
    made = CAMPAIGNS.begin(connection, "reprocess --all", kind="work", scope={})
    done = running(connection, node, tenant, campaign_id=made)
    given_up = running(connection, node, tenant, campaign_id=made)
    node.settle(connection, [ended(done, Completed()), ended(given_up, failed(ErrorClass.PERMANENT))])
    CAMPAIGNS.mark_cancelled(connection, made, cancelled=True)
    node.put_right(connection)
    retry(connection, [done.job_id, given_up.job_id])
    assert is_cancelled(connection, made)
