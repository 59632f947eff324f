"""The checker itself: usage that is off by one is found, and what a retry does to it is none."""

from __future__ import annotations

import pytest

from batchproc.core.outcome import Completed, ErrorClass, Failed, Interrupted, Outcome
from tests.engine.running import Bench
from tests.faults.invariants import violations
from tests.queue.helpers import claim_job, ended, enqueue, join, retry

DISCARDED = Failed(ErrorClass.PERMANENT, "own_code")
TRANSIENT = Failed(ErrorClass.TRANSIENT, "own_code")


def ran(bench: Bench, tenant: int, *outcomes: Outcome) -> int:
    """A job whose attempts ended so, one after the other."""
    node, job = join(bench.connection), enqueue(bench.connection, tenant)
    for outcome in outcomes:
        node.settle(bench.connection, [ended(claim_job(bench.connection, node, job), outcome)])
    return job


@pytest.mark.parametrize("column", ["attempts", "completed", "discarded"])
@pytest.mark.parametrize("more", [1, -1])
def test_usage_that_is_off_by_one_is_found(bench: Bench, column: str, more: int) -> None:
    tenant = bench.tenant("acme")
    ran(bench, tenant, TRANSIENT, Interrupted(""), Completed())
    ran(bench, tenant, TRANSIENT, DISCARDED)
    ran(bench, tenant, TRANSIENT)
    assert violations(bench.connection) == []

    change = {
        "attempts": "update batchproc.usage_daily set attempts = attempts + %s returning 1",
        "completed": "update batchproc.usage_daily set completed = completed + %s returning 1",
        "discarded": "update batchproc.usage_daily set discarded = discarded + %s returning 1",
    }[column]
    bench.rows(change, more)
    assert violations(bench.connection) == [f"usage that does not add up to the attempts: {tenant} work"]
    bench.rows(change, -more)


@pytest.mark.parametrize(
    "later", [(), (Completed(),), (DISCARDED,), (TRANSIENT, Completed())], ids=["waits", "done", "again", "later"]
)
def test_a_job_that_was_discarded_and_retried_is_sound(bench: Bench, later: tuple[Outcome, ...]) -> None:
    tenant = bench.tenant("acme")
    job = ran(bench, tenant, TRANSIENT, DISCARDED)
    retry(bench.connection, [job])
    node = join(bench.connection)
    for outcome in later:
        node.settle(bench.connection, [ended(claim_job(bench.connection, node, job), outcome)])

    assert violations(bench.connection) == []
