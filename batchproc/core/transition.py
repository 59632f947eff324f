"""One constructor per way in which a running job leaves that state."""

from __future__ import annotations

from typing import Literal, NamedTuple
from uuid import UUID

from batchproc.core import budgets
from batchproc.core.budgets import Counters
from batchproc.core.job import Claim, JobState
from batchproc.core.limits import LEAST_SNOOZE, LONGEST_DELAY
from batchproc.core.outcome import Cancelled, Completed, Failed, FollowUp, Interrupted, Snoozed

AttemptOutcome = Literal["completed", "snoozed", "cancelled", "failed", "interrupted"]


class Transition(NamedTuple):
    """What ``queue.store.settle`` writes. ``delay`` is in seconds from the database's now, None keeps run_at.

    ``failure_code`` goes to the job and to its attempt; a job that will be tried again shows that of its last one.
    """

    job_id: int
    claim_id: UUID
    state: JobState
    counters: Counters
    outcome: AttemptOutcome
    delay: float | None = None
    result: str | None = None
    failure_code: str | None = None
    error_class: str | None = None
    error_type: str | None = None
    detail: str | None = None
    follow_ups: tuple[FollowUp, ...] = ()
    partial: bool = False
    fails_document: bool = False


def completed(claim: Claim, outcome: Completed) -> Transition:
    """Done, with its result and the jobs that follow; the counters stay as they are."""
    return Transition(
        claim.job_id,
        claim.claim_id,
        JobState.COMPLETED,
        budgets.kept(claim),
        "completed",
        result=outcome.result,
        detail=f"{outcome.stripped} characters that cannot be stored were stripped" if outcome.stripped else None,
        follow_ups=outcome.follow_ups,
        partial=outcome.partial,
    )


def retried(claim: Claim, counters: Counters, failed: Failed, delay: float) -> Transition:
    """Back to waiting: ``available`` without a delay, else ``scheduled``."""
    return Transition(
        claim.job_id,
        claim.claim_id,
        JobState.SCHEDULED if delay > 0 else JobState.AVAILABLE,
        counters,
        "failed",
        delay=delay,
        failure_code=failed.code,
        error_class=failed.error_class,
        error_type=failed.error_type,
        detail=failed.detail,
    )


def discarded(claim: Claim, counters: Counters, failed: Failed, code: str, *, fails_document: bool) -> Transition:
    """Given up on, with ``code``."""
    return Transition(
        claim.job_id,
        claim.claim_id,
        JobState.DISCARDED,
        counters,
        "failed",
        failure_code=code,
        error_class=failed.error_class,
        error_type=failed.error_type,
        detail=failed.detail,
        fails_document=fails_document,
    )


def postponed(claim: Claim, seconds: float, failed: Failed | None = None) -> Transition:
    """Snoozed: no attempt is used. ``failed`` tells why when it was not the handler's wish.

    What is no time to wait (NaN, negative, next to nothing) is ``limits.LEAST_SNOOZE``, and nothing waits longer than
    ``limits.LONGEST_DELAY``.
    """
    delay = min(max(seconds, LEAST_SNOOZE), LONGEST_DELAY) if seconds > 0 else LEAST_SNOOZE
    return Transition(
        claim.job_id,
        claim.claim_id,
        JobState.SCHEDULED,
        budgets.released(claim),
        "snoozed",
        delay=delay,
        failure_code=failed.code if failed else None,
        error_class=failed.error_class if failed else None,
        error_type=failed.error_type if failed else None,
        detail=failed.detail if failed else None,
    )


def snoozed(claim: Claim, outcome: Snoozed) -> Transition:
    """Waits as its handler wished, see ``postponed``."""
    return postponed(claim, outcome.seconds)


def interrupted(claim: Claim, outcome: Interrupted) -> Transition:
    """Back to ``available`` at once, as if it had not been claimed."""
    return Transition(
        claim.job_id,
        claim.claim_id,
        JobState.AVAILABLE,
        budgets.released(claim),
        "interrupted",
        detail=outcome.reason,
    )


def cancelled(claim: Claim, _: Cancelled) -> Transition:
    """Ended at somebody's wish; the counters stay as they are."""
    return Transition(claim.job_id, claim.claim_id, JobState.CANCELLED, budgets.kept(claim), "cancelled")
