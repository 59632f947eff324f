"""The outcome table of ``batchproc.core.settle``, row by row, and what holds whatever the counters."""

from __future__ import annotations

import math
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from batchproc.core.job import Claim, JobState, KindSpec
from batchproc.core.limits import LEAST_SNOOZE, LONGEST_DELAY
from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Failed, FollowUp, Interrupted, Outcome, Snoozed
from batchproc.core.settle import STORAGE_SNOOZE, settle
from batchproc.core.transition import Transition

MAX_NODE_LOSSES = 10
SPEC = KindSpec("work", max_attempts=5, max_timeouts=2, max_crashes=3, base=2.0, cap=300.0)
FRESH = Claim(7, UUID(int=7), 3, "work", 1, 5, attempt=1, max_attempts=5, crashes=0, timeouts=0, node_losses=0)

USES_NO_ATTEMPT = {ErrorClass.LEASE_EXPIRED, ErrorClass.STORAGE_UNAVAILABLE}
# Class, the counter of its budget, that budget, the code that a job given up on for it ends with.
RETRIED = [
    (ErrorClass.TRANSIENT, None, 5, "own_code"),
    (ErrorClass.TIMEOUT, "timeouts", 2, "timeout"),
    (ErrorClass.STALLED, "timeouts", 2, "stalled"),
    (ErrorClass.CRASHED, "crashes", 3, "poison"),
    (ErrorClass.OUT_OF_MEMORY, "crashes", 3, "out_of_memory"),
    (ErrorClass.LEASE_EXPIRED, "node_losses", 10, "poison"),
]


def decide(claim: Claim, outcome: Outcome, spec: KindSpec = SPEC, jitter: float = 0.5) -> Transition:
    return settle(claim, outcome, spec, max_node_losses=MAX_NODE_LOSSES, jitter=jitter)


def failed(error_class: ErrorClass) -> Failed:
    return Failed(error_class, "own_code", "ValueError at scan.py:12", "a safe detail")


def claimed_again(claim: Claim, moved: Transition) -> Claim:
    """The claim that follows, as the claiming statement makes it."""
    counters = moved.counters
    return claim._replace(
        attempt=counters.attempt + 1,
        crashes=counters.crashes,
        timeouts=counters.timeouts,
        node_losses=counters.node_losses,
    )


# -- the table


@pytest.mark.parametrize(("error_class", "counter", "budget", "final_code"), RETRIED)
def test_a_failure_is_tried_again_until_its_budget_is_used_up(
    error_class: ErrorClass, counter: str | None, budget: int, final_code: str
) -> None:
    claim = FRESH
    for round_ in range(1, budget + 1):
        moved = decide(claim, failed(error_class))
        assert moved.outcome == "failed"
        assert moved.error_class == error_class
        assert (moved.error_type, moved.detail) == ("ValueError at scan.py:12", "a safe detail")
        if counter is not None:
            assert getattr(moved.counters, counter) == round_
        assert moved.counters.attempt == (0 if error_class in USES_NO_ATTEMPT else round_)
        if round_ < budget:
            assert moved.state in (JobState.SCHEDULED, JobState.AVAILABLE)
            assert moved.failure_code == "own_code"
            claim = claimed_again(claim, moved)
    assert moved.state is JobState.DISCARDED
    assert moved.failure_code == final_code


@pytest.mark.parametrize("error_class", [row[0] for row in RETRIED if row[0] not in USES_NO_ATTEMPT])
def test_a_failure_waits_for_its_backoff(error_class: ErrorClass) -> None:
    claim = FRESH._replace(attempt=1, max_attempts=100)
    spec = replace(SPEC, max_attempts=100, max_crashes=100, max_timeouts=100)
    delays = []
    for _ in range(9):
        moved = decide(claim, failed(error_class), spec, jitter=0.0)
        assert moved.state is JobState.SCHEDULED
        delays.append(moved.delay)
        claim = claimed_again(claim, moved)
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 150]


def test_an_expired_lease_makes_the_job_available_at_once_and_uses_no_attempt() -> None:
    moved = decide(FRESH._replace(attempt=3), failed(ErrorClass.LEASE_EXPIRED))
    assert (moved.state, moved.delay) == (JobState.AVAILABLE, 0.0)
    assert (moved.counters.attempt, moved.counters.node_losses) == (2, 1)


@pytest.mark.parametrize("error_class", [ErrorClass.PERMANENT, ErrorClass.INVALID])
def test_a_permanent_failure_is_discarded_under_its_own_code(error_class: ErrorClass) -> None:
    moved = decide(FRESH, failed(error_class))
    assert (moved.state, moved.failure_code, moved.outcome) == (JobState.DISCARDED, "own_code", "failed")
    assert moved.counters.attempt == 1
    assert moved.delay is None


def test_unavailable_storage_snoozes_without_an_attempt_however_often() -> None:
    claim = FRESH
    for _ in range(100):
        moved = decide(claim, failed(ErrorClass.STORAGE_UNAVAILABLE))
        assert (moved.state, moved.outcome, moved.delay) == (JobState.SCHEDULED, "snoozed", STORAGE_SNOOZE)
        assert (moved.failure_code, moved.error_class) == ("own_code", ErrorClass.STORAGE_UNAVAILABLE)
        assert moved.counters.attempt == 0
        claim = claimed_again(claim, moved)
    assert claim == FRESH


def test_an_interruption_leaves_the_job_as_if_it_had_not_been_claimed() -> None:
    claim = FRESH._replace(attempt=4, crashes=2, timeouts=1, node_losses=3)
    moved = decide(claim, Interrupted("shutdown"))
    assert (moved.state, moved.outcome, moved.detail) == (JobState.AVAILABLE, "interrupted", "shutdown")
    assert moved.delay is None  # it keeps its place
    assert moved.failure_code is None
    assert claimed_again(claim, moved) == claim


def test_a_snooze_waits_and_uses_no_attempt() -> None:
    claim = FRESH._replace(attempt=5)
    moved = decide(claim, Snoozed(90.0))
    assert (moved.state, moved.outcome, moved.delay) == (JobState.SCHEDULED, "snoozed", 90.0)
    assert (moved.failure_code, moved.error_class) == (None, None)
    assert claimed_again(claim, moved) == claim


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, -math.inf])
def test_a_snooze_for_no_time_waits_the_least_there_is(seconds: float) -> None:
    moved = decide(FRESH, Snoozed(seconds))
    assert (moved.state, moved.delay) == (JobState.SCHEDULED, LEAST_SNOOZE)


@pytest.mark.parametrize("seconds", [math.inf, 1e300, 1e12])
def test_a_snooze_for_ever_ends_within_the_times_of_a_database(seconds: float) -> None:
    moved = decide(FRESH, Snoozed(seconds))
    assert (moved.state, moved.delay) == (JobState.SCHEDULED, LONGEST_DELAY)


def test_a_cancelled_job_stays_cancelled_and_its_attempt_counts() -> None:
    moved = decide(FRESH._replace(attempt=2), Cancelled())
    assert (moved.state, moved.outcome, moved.counters.attempt) == (JobState.CANCELLED, "cancelled", 2)


def test_a_completed_job_keeps_what_its_handler_returned() -> None:
    follow_ups = (FollowUp("classify", {"document_id": 1}),)
    moved = decide(FRESH, Completed('{"pages": 3}', follow_ups, partial=True))
    assert (moved.state, moved.outcome) == (JobState.COMPLETED, "completed")
    assert (moved.result, moved.follow_ups, moved.partial) == ('{"pages": 3}', follow_ups, True)
    assert moved.failure_code is None


def test_the_sum_of_attempts_ends_a_job_before_the_budgets_of_single_classes() -> None:
    endings = [ErrorClass.TIMEOUT, ErrorClass.CRASHED, ErrorClass.CRASHED, ErrorClass.TRANSIENT, ErrorClass.STALLED]
    claim = FRESH._replace(max_attempts=4)
    states = []
    for error_class in endings[:4]:
        moved = decide(claim, failed(error_class))
        states.append(moved.state)
        claim = claimed_again(claim, moved)
    assert states == [JobState.SCHEDULED] * 3 + [JobState.DISCARDED]
    assert moved.failure_code == "own_code"


def test_timeouts_and_stalls_share_a_budget_and_so_do_crashes_and_memory() -> None:
    assert decide(FRESH._replace(timeouts=1), failed(ErrorClass.STALLED)).failure_code == "stalled"
    assert decide(FRESH._replace(crashes=2), failed(ErrorClass.OUT_OF_MEMORY)).failure_code == "out_of_memory"
    assert decide(FRESH._replace(crashes=2), failed(ErrorClass.TIMEOUT)).state is JobState.SCHEDULED


@pytest.mark.parametrize("fails_document", [True, False])
def test_only_a_job_given_up_on_fails_its_document_and_only_where_its_kind_says_so(fails_document: bool) -> None:
    spec = replace(SPEC, fails_document=fails_document)
    assert decide(FRESH, failed(ErrorClass.PERMANENT), spec).fails_document is fails_document
    for outcome in (failed(ErrorClass.TRANSIENT), Completed(), Cancelled(), Snoozed(1), Interrupted("")):
        assert not decide(FRESH, outcome, spec).fails_document


@pytest.mark.parametrize("error_class", [ErrorClass.STALLED, ErrorClass.CRASHED])
def test_a_failure_that_fails_a_page_is_a_checkpoint(error_class: ErrorClass) -> None:
    claim = FRESH._replace(attempt=4, crashes=2, timeouts=1, node_losses=3)
    moved = settle(claim, failed(error_class), SPEC, max_node_losses=MAX_NODE_LOSSES, jitter=0.5, page_failed=True)
    counters = moved.counters
    assert (moved.state, moved.failure_code) == (JobState.SCHEDULED, "own_code")
    assert (counters.attempt, counters.crashes, counters.timeouts, counters.node_losses) == (1, 1, 1, 3)
    assert moved.delay is not None
    assert moved.delay <= 2.0


def test_a_budget_of_one_is_used_up_by_a_failed_page_too() -> None:
    spec = replace(SPEC, max_crashes=1)
    moved = settle(
        FRESH, failed(ErrorClass.CRASHED), spec, max_node_losses=MAX_NODE_LOSSES, jitter=0.5, page_failed=True
    )
    assert (moved.state, moved.failure_code) == (JobState.DISCARDED, "poison")


# -- whatever the counters

COUNTS = st.integers(0, 1000)
CLAIMS = st.builds(
    FRESH._replace,
    attempt=st.integers(1, 1001),
    max_attempts=st.integers(1, 1000),
    crashes=COUNTS,
    timeouts=COUNTS,
    node_losses=COUNTS,
)
BUDGETS = st.integers(1, 1000)
SPECS = st.builds(
    KindSpec,
    st.just("work"),
    max_timeouts=BUDGETS,
    max_crashes=BUDGETS,
    base=st.floats(0.001, 1e6),
    cap=st.floats(0.001, 1e7),
    fails_document=st.booleans(),
)
FAILURES = st.builds(
    Failed, st.sampled_from(ErrorClass), st.just("own_code"), st.none() | st.text(), st.none() | st.text()
)
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    FAILURES,
    st.builds(Completed, st.none() | st.just("{}"), st.just(()), st.booleans()),
    st.builds(Snoozed, st.floats()),
    st.builds(Interrupted, st.text()),
    st.builds(Cancelled),
)
JITTER = st.floats(0, 1, exclude_max=True)


@given(CLAIMS, OUTCOMES, SPECS, BUDGETS, JITTER)
def test_every_outcome_has_a_transition_that_can_be_stored(
    claim: Claim, outcome: Outcome, spec: KindSpec, losses: int, jitter: float
) -> None:
    moved = settle(claim, outcome, spec, max_node_losses=losses, jitter=jitter)
    assert (moved.job_id, moved.claim_id) == (claim.job_id, claim.claim_id)
    assert moved.state not in (JobState.RUNNING, JobState.HELD)
    assert moved.delay is None or 0 <= moved.delay <= LONGEST_DELAY
    assert (moved.state is JobState.SCHEDULED) == bool(moved.delay)
    if moved.state is JobState.DISCARDED:
        assert moved.failure_code
    if moved.state in (JobState.COMPLETED, JobState.DISCARDED, JobState.CANCELLED):
        assert moved.delay is None


@given(CLAIMS, OUTCOMES, SPECS, JITTER)
def test_counters_move_by_one_at_most_and_never_below_zero(
    claim: Claim, outcome: Outcome, spec: KindSpec, jitter: float
) -> None:
    counters = settle(claim, outcome, spec, max_node_losses=MAX_NODE_LOSSES, jitter=jitter).counters
    given_back = isinstance(outcome, Snoozed | Interrupted) or (
        isinstance(outcome, Failed) and outcome.error_class in USES_NO_ATTEMPT
    )
    assert counters.attempt == claim.attempt - given_back >= 0
    grown = [
        counters.crashes - claim.crashes,
        counters.timeouts - claim.timeouts,
        counters.node_losses - claim.node_losses,
    ]
    assert set(grown) <= {0, 1}
    assert sum(grown) <= 1


@given(CLAIMS, FAILURES, SPECS, BUDGETS, JITTER)
def test_a_failed_job_is_discarded_exactly_when_nothing_is_left(
    claim: Claim, failure: Failed, spec: KindSpec, losses: int, jitter: float
) -> None:
    moved = settle(claim, failure, spec, max_node_losses=losses, jitter=jitter)
    after = moved.counters
    match failure.error_class:
        case ErrorClass.PERMANENT | ErrorClass.INVALID:
            over = True
        case ErrorClass.STORAGE_UNAVAILABLE:
            over = False
        case ErrorClass.LEASE_EXPIRED:
            over = after.node_losses >= losses
        case ErrorClass.TIMEOUT | ErrorClass.STALLED:
            over = after.attempt >= claim.max_attempts or after.timeouts >= spec.max_timeouts
        case ErrorClass.CRASHED | ErrorClass.OUT_OF_MEMORY:
            over = after.attempt >= claim.max_attempts or after.crashes >= spec.max_crashes
        case ErrorClass.TRANSIENT:
            over = after.attempt >= claim.max_attempts
    assert (moved.state is JobState.DISCARDED) == over


@given(CLAIMS, OUTCOMES, SPECS, JITTER, JITTER)
def test_chance_decides_how_long_and_nothing_else(
    claim: Claim, outcome: Outcome, spec: KindSpec, one: float, other: float
) -> None:
    first = settle(claim, outcome, spec, max_node_losses=MAX_NODE_LOSSES, jitter=one)
    second = settle(claim, outcome, spec, max_node_losses=MAX_NODE_LOSSES, jitter=other)
    assert first._replace(delay=None) == second._replace(delay=None)


@given(st.lists(st.sampled_from(ErrorClass), min_size=20, max_size=60), st.integers(1, 8))
def test_no_sequence_of_failures_keeps_a_job_for_ever(classes: list[ErrorClass], max_attempts: int) -> None:
    classes = [error_class for error_class in classes if error_class is not ErrorClass.STORAGE_UNAVAILABLE]
    assume(len(classes) >= max_attempts + MAX_NODE_LOSSES)
    claim = FRESH._replace(max_attempts=max_attempts)
    tried = 0
    for error_class in classes:
        tried += 1
        moved = decide(claim, failed(error_class))
        assert moved.counters.attempt <= max_attempts
        if moved.state is JobState.DISCARDED:
            break
        claim = claimed_again(claim, moved)
    assert moved.state is JobState.DISCARDED
    assert tried <= max_attempts + MAX_NODE_LOSSES - 1
