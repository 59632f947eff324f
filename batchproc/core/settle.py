"""The one decision of how an attempt's ending moves its job: the outcome table.

| ending              | the job becomes                    | attempt | budget besides attempts    | final code    |
|---------------------|------------------------------------|---------|----------------------------|---------------|
| completed           | completed                          | used    |                            |               |
| snoozed             | scheduled, after what was asked    | back    |                            |               |
| interrupted         | available                          | back    |                            |               |
| cancelled           | cancelled                          | used    |                            |               |
| transient           | scheduled after a backoff          | used    |                            | its own       |
| timeout, stalled    | scheduled after a backoff          | used    | max_timeouts, both as one  | that name     |
| crashed             | scheduled after a backoff          | used    | max_crashes                | poison        |
| out_of_memory       | scheduled after a backoff          | used    | max_crashes, as one        | out_of_memory |
| lease_expired       | available                          | back    | max_node_losses, this only | poison        |
| storage_unavailable | scheduled, for the next run        | back    | none at all                |               |
| permanent, invalid  | discarded                          | used    |                            | its own       |

``lease_expired`` is also what takes all workers of a node at once: the death of its forkserver, which one of the jobs
that ran may have caused.

A failure that uses up ``max_attempts`` or its other budget discards the job with the final code. One that fails a page
of its document is a checkpoint, too: it sets attempts, crashes and timeouts back to one.
"""

from __future__ import annotations

from typing import assert_never

from batchproc.core import budgets, transition
from batchproc.core.backoff import backoff
from batchproc.core.job import Claim, KindSpec
from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Failed, Interrupted, Outcome, Snoozed
from batchproc.core.transition import Transition

# How long a job waits for a storage that is gone, in seconds, when no run takes it up before: longer than it takes to
# find that out of a whole archive, or a run that has to end would meet its first jobs again and again.
STORAGE_SNOOZE = 3600.0
_FINAL = frozenset({ErrorClass.PERMANENT, ErrorClass.INVALID})
_FINAL_CODES = {
    ErrorClass.TIMEOUT: "timeout",
    ErrorClass.STALLED: "stalled",
    ErrorClass.CRASHED: "poison",
    ErrorClass.OUT_OF_MEMORY: "out_of_memory",
    ErrorClass.LEASE_EXPIRED: "poison",
}


def final_code(failed: Failed) -> str:
    """What is given up on for this failure has this code: its class's, where that has one, else the failure's own."""
    return _FINAL_CODES.get(failed.error_class, failed.code)


def settle(
    claim: Claim, outcome: Outcome, spec: KindSpec, *, max_node_losses: int, jitter: float, page_failed: bool = False
) -> Transition:
    """How ``claim`` moves on after ``outcome``.

    Args:
        claim: the job's counters as they were when it was claimed.
        spec: the kind's budgets and backoff.
        max_node_losses: how many nodes may die under one job.
        jitter: a random number in [0, 1).
        page_failed: a failure is recorded in the same settle as that of the page it met.
    """
    match outcome:
        case Completed():
            return transition.completed(claim, outcome)
        case Snoozed():
            return transition.snoozed(claim, outcome)
        case Interrupted():
            return transition.interrupted(claim, outcome)
        case Cancelled():
            return transition.cancelled(claim, outcome)
        case Failed():
            return _failed(claim, outcome, spec, max_node_losses, jitter, page_failed)
        case _:
            assert_never(outcome)


def _failed(
    claim: Claim, failed: Failed, spec: KindSpec, max_node_losses: int, jitter: float, page_failed: bool
) -> Transition:
    error_class = failed.error_class
    counters = budgets.charged(claim, error_class)
    if page_failed:
        counters = budgets.saved(counters)
    if error_class is ErrorClass.STORAGE_UNAVAILABLE:
        return transition.postponed(claim, STORAGE_SNOOZE, failed)
    if error_class in _FINAL or budgets.exhausted(counters, claim, error_class, spec, max_node_losses):
        return transition.discarded(claim, counters, failed, final_code(failed), fails_document=spec.fails_document)
    if error_class is ErrorClass.LEASE_EXPIRED:
        return transition.retried(claim, counters, failed, 0.0)
    delay = backoff(max(0, counters.attempt - 1), base=spec.base, cap=spec.cap, jitter=jitter)
    return transition.retried(claim, counters, failed, delay)
