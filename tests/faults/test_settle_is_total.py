"""Every way an attempt can end, with every state of the counters, is a transition that the tables take."""

from __future__ import annotations

import math
from itertools import product
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import Claim, JobState, KindSpec
from batchproc.core.limits import CODE, LEAST_SNOOZE, LONGEST_DELAY
from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Failed, FollowUp, Interrupted, Outcome, Snoozed
from batchproc.core.settle import settle
from batchproc.core.transition import Transition
from batchproc.database import connect
from batchproc.queue.node_store import Ended, NodeStore
from tests.faults.invariants import violations
from tests.queue.helpers import STORE, join

SPEC = KindSpec("work", max_timeouts=2, max_crashes=3)
MAX_NODE_LOSSES = 3
FINAL = {JobState.COMPLETED, JobState.DISCARDED, JobState.CANCELLED}
OUTCOMES: list[Outcome] = [
    *(Failed(error_class, "own_code") for error_class in ErrorClass),
    Completed('{"a": 1}'),
    Completed(follow_ups=(FollowUp("work"),), partial=True),
    Cancelled(),
    Interrupted("shutdown"),
    *(Snoozed(seconds) for seconds in (90.0, 0.0, -1.0, math.nan, math.inf, -math.inf, 1e300)),
]
# As a claim finds them: the attempt is counted already. Budgets that the settings have lowered since may be exceeded.
COUNTERS = list(product((1, 2, 3, 5), (0, 1, 2, 7), (0, 1, 5), (0, 2, 9)))


def claim_with(attempt: int, crashes: int, timeouts: int, node_losses: int, max_attempts: int = 3) -> Claim:
    return Claim(1, uuid4(), 1, "work", 1, 5, attempt, max_attempts, crashes, timeouts, node_losses)


def decided(claim: Claim, outcome: Outcome, spec: KindSpec = SPEC, jitter: float = 0.5) -> Transition:
    return settle(claim, outcome, spec, max_node_losses=MAX_NODE_LOSSES, jitter=jitter)


@pytest.fixture
def connection(database_url: str) -> Connection[TupleRow]:
    return connect(database_url)


def test_every_outcome_with_every_state_of_the_counters_is_stored(connection: Connection[TupleRow]) -> None:
    """All of them in one statement, as constraints, triggers of foreign keys and types see them."""
    with connection:
        tenant, node = STORE.add_tenant(connection, "acme").tenant_id, join(connection)
        cases = list(product(OUTCOMES, COUNTERS))
        claims = _running(connection, node, tenant, [counters for _, counters in cases])
        moved = [decided(claim, outcome) for claim, (outcome, _) in zip(claims, cases, strict=True)]

        settled = node.settle(connection, [Ended(transition, 1, 0.5) for transition in moved])

        assert settled.states == {transition.claim_id: transition.state for transition in moved}
        rows = connection.execute(
            b"""select attempt, crashes, timeouts, node_losses, failure_code, finished_at is not null
                from batchproc.processing_jobs where attempt > 0 or job_id = any(%s) order by job_id""",
            [[transition.job_id for transition in moved]],
        ).fetchall()
        assert rows == [
            (
                transition.counters.attempt,
                transition.counters.crashes,
                transition.counters.timeouts,
                transition.counters.node_losses,
                transition.failure_code,
                transition.state in FINAL,
            )
            for transition in moved
        ]
        # The counters that were made up here are above their budgets; everything else must hold.
        assert [line for line in violations(connection) if not line.startswith("a counter")] == []


def _running(
    connection: Connection[TupleRow], node: NodeStore, tenant: int, counters: list[tuple[int, ...]]
) -> list[Claim]:
    attempts, crashes, timeouts, losses = zip(*counters, strict=True)
    connection.execute(
        b"""insert into batchproc.processing_jobs
                (tenant_id, kind, state, max_attempts, attempt, crashes, timeouts, node_losses, claim_id, node_id,
                 claimed_at)
            select %s, 'work', 'running', 3, c.*, gen_random_uuid(), %s, now()
            from unnest(%s::smallint[], %s::smallint[], %s::smallint[], %s::smallint[]) c""",
        [tenant, node.node_id, list(attempts), list(crashes), list(timeouts), list(losses)],
    )
    return node.held(connection)


small = st.integers(0, 1100)
claims = st.builds(claim_with, st.integers(1, 1100), small, small, small, st.integers(1, 1000))
specs = st.builds(
    KindSpec,
    st.just("work"),
    max_timeouts=st.integers(1, 1000),
    max_crashes=st.integers(1, 1000),
    base=st.floats(0.001, 1e9),
    cap=st.floats(0.001, 1e9),
    fails_document=st.booleans(),
)
outcomes = st.one_of(
    st.sampled_from(OUTCOMES),
    st.builds(Snoozed, st.floats()),
    st.builds(Failed, st.sampled_from(ErrorClass), st.sampled_from(["own_code", "internal_error"])),
)


@given(claims, outcomes, specs, st.floats(0, 1, exclude_max=True))
def test_whatever_comes_is_decided_within_bounds(claim: Claim, outcome: Outcome, spec: KindSpec, jitter: float) -> None:
    moved = decided(claim, outcome, spec, jitter)
    assert (moved.job_id, moved.claim_id) == (claim.job_id, claim.claim_id)
    assert moved.state in FINAL | {JobState.SCHEDULED, JobState.AVAILABLE}
    assert (moved.state is JobState.SCHEDULED) == (moved.delay is not None and moved.delay > 0)
    assert moved.delay is None or 0 <= moved.delay <= LONGEST_DELAY
    if isinstance(outcome, Snoozed):
        assert moved.delay is not None
        assert moved.delay >= LEAST_SNOOZE
    assert claim.attempt - 1 <= moved.counters.attempt <= claim.attempt
    raised = [
        moved.counters.crashes - claim.crashes,
        moved.counters.timeouts - claim.timeouts,
        moved.counters.node_losses - claim.node_losses,
    ]
    assert sorted(raised) in ([0, 0, 0], [0, 0, 1]), "one budget at most pays for an ending"
    if moved.state is JobState.DISCARDED:
        assert moved.failure_code is not None
        assert CODE.match(moved.failure_code)
    assert bool(moved.follow_ups) <= (moved.state is JobState.COMPLETED)


@given(specs, st.sampled_from(list(ErrorClass)))
def test_no_failure_is_tried_for_ever(spec: KindSpec, error_class: ErrorClass) -> None:
    """Each class that is charged to a job gives it up within its attempts, or within the nodes it may lose."""
    claim = claim_with(1, 0, 0, 0, max_attempts=5)
    ended = 0
    while (moved := decided(claim, Failed(error_class, "own_code"), spec)).state is not JobState.DISCARDED:
        ended += 1
        counters = moved.counters
        claim = claim_with(
            counters.attempt + 1, counters.crashes, counters.timeouts, counters.node_losses, max_attempts=5
        )
        if error_class is ErrorClass.STORAGE_UNAVAILABLE and ended == 20:
            return  # Not the job's fault at all, and no budget of its.
        assert ended < 20
