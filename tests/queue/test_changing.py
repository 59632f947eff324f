"""Many waiting jobs are changed at once: what somebody holds is passed over and never waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from batchproc.core.job import Lane
from batchproc.queue.changing import DISCARDED, DISCARDED_ALREADY, PRIORITISED, PRIORITISED_ALREADY, Changing
from batchproc.queue.job_states import UNWRITTEN
from tests.queue.helpers import Conn, add_document, add_tenant, enqueue, one, state

CHANGING = Changing("batchproc")


def discard(connection: Conn, job_ids: list[int]) -> dict[int, str]:
    return CHANGING.discard(connection, job_ids, failing_kinds=["work"], told={})


def status(connection: Conn, document_id: int) -> Any:
    return one(connection, f"select status from batchproc.documents where document_id = {document_id}")


def test_a_job_whose_document_somebody_holds_is_passed_over_with_it(
    connection: Conn, opened: Callable[[], Conn]
) -> None:
    """An import locks documents in the order of its files: who waits for one and holds others may wait for ever."""
    importing = opened()
    tenant = add_tenant(connection)
    documents = [add_document(connection, tenant) for _ in range(4)]
    jobs = [enqueue(connection, tenant, document_id=document) for document in reversed(documents)]
    other = enqueue(connection, tenant, "other", document_id=documents[1])
    connection.execute("set lock_timeout = '100ms'")
    with importing.transaction():
        importing.execute("select from batchproc.documents where document_id = %s for update", [documents[1]])
        assert discard(connection, [*jobs, other]) == dict.fromkeys([*jobs, other], DISCARDED) | {jobs[2]: UNWRITTEN}
        # It holds nothing that the import may want next.
        importing.execute("set local lock_timeout = '100ms'")
        importing.execute("update batchproc.documents set fields = fields")
    assert [status(connection, document) for document in documents] == ["failed", "pending", "failed", "failed"]
    assert state(connection, jobs[2]) == "available"
    already = [job_id for job_id in jobs if job_id != jobs[2]]
    assert discard(connection, jobs) == dict.fromkeys(already, DISCARDED_ALREADY) | {jobs[2]: DISCARDED}
    assert status(connection, documents[1]) == "failed"


@pytest.mark.parametrize(
    ("args", "is_range", "left"),
    [
        ({}, False, "failed"),
        ({"pilot": True}, False, "pending"),
        ({"pilot": False}, False, "failed"),
        ({"range": [1, 2]}, True, "pending"),
        ({"range": "join"}, True, "failed"),
    ],
)
def test_a_range_and_a_pilot_leave_their_document_as_it_is(
    connection: Conn, args: dict[str, Any], is_range: bool, left: str
) -> None:
    tenant = add_tenant(connection)
    document = add_document(connection, tenant)
    job_id = enqueue(connection, tenant, document_id=document, args=args)
    if is_range:
        connection.execute("update batchproc.processing_jobs set range_of = 1")
    spares = one(connection, "select batchproc.spares_document(range_of, args) from batchproc.processing_jobs")
    assert spares == (left == "pending")
    assert discard(connection, [job_id]) == {job_id: DISCARDED}
    assert status(connection, document) == left


VERSIONS = "select job_id, xmin::text from batchproc.processing_jobs order by job_id"


@pytest.mark.parametrize(
    ("priority", "lane", "rewritten"),
    [(5, None, []), (None, Lane.BULK, []), (5, Lane.BULK, []), (3, None, [0, 1]), (5, Lane.INTERACTIVE, [0, 1])],
)
def test_what_has_its_place_already_is_told_but_not_written(
    connection: Conn, priority: int | None, lane: Lane | None, rewritten: list[int]
) -> None:
    tenant = add_tenant(connection)
    jobs = [enqueue(connection, tenant, priority=5) for _ in range(2)]
    before = connection.execute(VERSIONS).fetchall()
    found = CHANGING.prioritise(connection, jobs, priority=priority, lane=lane)
    assert found == dict.fromkeys(jobs, PRIORITISED if rewritten else PRIORITISED_ALREADY)
    after = connection.execute(VERSIONS).fetchall()
    assert [place for place, (was, now) in enumerate(zip(before, after, strict=True)) if was != now] == rewritten
