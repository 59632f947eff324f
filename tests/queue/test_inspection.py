"""What people are shown of the queue: the keys are stable, the slices complete."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from batchproc.core.errors import UsageError
from batchproc.core.job import Lane
from batchproc.core.outcome import Completed, ErrorClass
from batchproc.queue.inspection import Inspection
from tests.queue.helpers import (
    Conn,
    add_document,
    add_tenant,
    claim_job,
    ended,
    enqueue,
    expire,
    failed,
    job,
    join,
    now,
    running,
)

LOOK = Inspection("batchproc")
LISTED = {
    "job_id", "tenant", "kind", "lane", "priority", "state", "attempt", "max_attempts", "crashes", "run_at",
    "document_id", "failure_code", "created_at", "claimed_at", "finished_at", "campaign_id", "result",
}  # fmt: skip
SHOWN = LISTED | {"args", "progress", "attempts"}
ATTEMPT = {
    "number", "node_id", "worker_pid", "started_at", "ended_at", "seconds", "outcome", "error_class", "failure_code",
    "error_type", "detail",
}  # fmt: skip


def test_a_listed_job_has_exactly_the_promised_keys(connection: Conn) -> None:
    tenant = add_tenant(connection)
    document = add_document(connection, tenant)
    job_id = enqueue(connection, tenant, document_id=document, priority=2, lane=Lane.INTERACTIVE)
    [listed] = LOOK.jobs(connection)
    assert set(listed) == LISTED
    stored = job(connection, job_id)
    shared = LISTED - {"tenant", "lane"}
    assert {name: listed[name] for name in shared} == {name: stored[name] for name in shared}
    assert (listed["tenant"], listed["lane"]) == ("acme", "interactive")


def test_a_shown_job_adds_args_progress_and_attempts(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    job_id = enqueue(connection, tenant, args={"page": 3})
    shown = LOOK.job(connection, job_id)
    assert set(shown) >= SHOWN
    assert {"done", "total"}.isdisjoint(shown)
    assert (shown["args"], shown["progress"], shown["attempts"]) == ({"page": 3}, None, [])

    first = claim_job(connection, node, job_id)
    node.write_progress(connection, [(job_id, first.claim_id, 3, 40)])
    assert LOOK.job(connection, job_id)["progress"] == {"done": 3, "total": 40}
    node.settle(connection, [ended(first, failed())])
    second = claim_job(connection, node, job_id)
    node.settle(connection, [ended(second, Completed('{"a": 1}'))])
    shown = LOOK.job(connection, job_id)
    assert (shown["progress"], shown["result"], shown["state"]) == (None, {"a": 1}, "completed")
    assert [set(attempt) for attempt in shown["attempts"]] == [ATTEMPT, ATTEMPT]
    assert [(attempt["number"], attempt["outcome"]) for attempt in shown["attempts"]] == [
        (1, "failed"),
        (2, "completed"),
    ]


def test_a_job_that_does_not_exist_is_named(connection: Conn) -> None:
    for job_id in (4711, 0, -1, 2**63, 10**40):
        with pytest.raises(UsageError, match=f"there is no job {job_id}: see: batchproc jobs list"):
            LOOK.job(connection, job_id)


def test_slices_follow_each_other_without_gap_or_double(connection: Conn) -> None:
    tenants = [add_tenant(connection, slug) for slug in ("one", "two")]
    ids = [enqueue(connection, tenants[number % 2]) for number in range(11)]
    seen: list[int] = []
    after = 0
    while found := LOOK.jobs(connection, after=after, limit=4):
        assert len(found) <= 4
        seen.extend(row["job_id"] for row in found)
        after = seen[-1]
    assert seen == ids
    assert [row["job_id"] for row in LOOK.jobs(connection, tenant="one", after=ids[2], limit=2)] == [ids[4], ids[6]]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"tenant": "one"}, [0, 1, 2]),
        ({"tenant": "nobody"}, []),
        ({"states": ["available"]}, [1, 3]),
        ({"states": ["available", "discarded"]}, [0, 1, 3]),
        ({"kind": "other"}, [2]),
        ({"failure_code": "own_code"}, [0]),
        ({"tenant": "one", "states": ["available"]}, [1]),
        ({"document_id": 2**40}, []),
    ],
    ids=str,
)
def test_filters_narrow_a_listing_together(connection: Conn, filters: dict[str, Any], expected: list[int]) -> None:
    one_, two, node = add_tenant(connection, "one"), add_tenant(connection, "two"), join(connection)
    ids = [
        enqueue(connection, one_),
        enqueue(connection, one_),
        enqueue(connection, one_, "other"),
        enqueue(connection, two),
    ]
    node.settle(connection, [ended(claim_job(connection, node, ids[0]), failed(ErrorClass.PERMANENT))])
    claim_job(connection, node, ids[2])
    assert [row["job_id"] for row in LOOK.jobs(connection, **filters)] == [ids[place] for place in expected]


def test_the_jobs_of_a_document_are_found(connection: Conn) -> None:
    tenant = add_tenant(connection)
    document = add_document(connection, tenant)
    wanted = enqueue(connection, tenant, document_id=document)
    enqueue(connection, tenant, document_id=add_document(connection, tenant))
    assert [row["job_id"] for row in LOOK.jobs(connection, document_id=document)] == [wanted]


def test_queues_count_what_waits_and_runs(connection: Conn) -> None:
    one_, two, node = add_tenant(connection, "one"), add_tenant(connection, "two"), join(connection)
    old = enqueue(connection, one_)
    enqueue(connection, one_)
    enqueue(connection, one_, run_at=now(connection) + timedelta(days=1))
    running(connection, node, one_)
    enqueue(connection, two, "other", lane=Lane.INTERACTIVE, run_at=now(connection) + timedelta(days=1))
    node.settle(connection, [ended(running(connection, node, two))])
    connection.execute(
        "update batchproc.processing_jobs set run_at = clock_timestamp() - interval '90 s' where job_id = %s", [old]
    )
    first, second = LOOK.queues(connection)
    assert 90 <= first.pop("oldest_seconds") < 150
    assert first == {"tenant": "one", "kind": "work", "lane": "bulk", "available": 2, "scheduled": 1, "running": 1}
    assert second == {
        "tenant": "two",
        "kind": "other",
        "lane": "interactive",
        "available": 0,
        "scheduled": 1,
        "running": 0,
        "oldest_seconds": 0.0,
    }


def test_totals_name_every_state(connection: Conn) -> None:
    states = ["scheduled", "available", "running", "held", "completed", "discarded", "cancelled"]
    assert LOOK.totals(connection) == dict.fromkeys(states, 0)
    assert list(LOOK.totals(connection)) == states
    tenant, node = add_tenant(connection), join(connection)
    running(connection, node, tenant)
    enqueue(connection, tenant)
    enqueue(connection, tenant)
    assert LOOK.totals(connection) == dict.fromkeys(states, 0) | {"available": 2, "running": 1}


def test_nodes_show_whether_they_live_and_what_they_run(connection: Conn) -> None:
    tenant, alive, dead = add_tenant(connection), join(connection), join(connection)
    running(connection, alive, tenant)
    running(connection, alive, tenant)
    expire(connection, dead)
    shown = {row["node_id"]: (row["alive"], row["running"], row["slots"]) for row in LOOK.nodes(connection)}
    assert shown == {alive.node_id: (True, 2, 2), dead.node_id: (False, 0, 2)}


def test_every_listing_can_be_shown_as_json(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    node.settle(connection, [ended(claimed, Completed('{"a": 1}'))])
    rows = [
        *LOOK.jobs(connection),
        LOOK.job(connection, claimed.job_id),
        *LOOK.queues(connection),
        *LOOK.nodes(connection),
    ]
    assert json.loads(json.dumps(rows, default=str))
