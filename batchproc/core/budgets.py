"""How often an attempt may fail in which way before the job is given up."""

from __future__ import annotations

from typing import NamedTuple

from batchproc.core.job import Claim, KindSpec
from batchproc.core.outcome import ErrorClass


class Counters(NamedTuple):
    """The counters of a job as they are stored when its attempt has ended."""

    attempt: int
    crashes: int
    timeouts: int
    node_losses: int


# Endings that are not the job's fault give its attempt back.
_UNCHARGED = frozenset({ErrorClass.LEASE_EXPIRED, ErrorClass.STORAGE_UNAVAILABLE})
_CRASHES = frozenset({ErrorClass.CRASHED, ErrorClass.OUT_OF_MEMORY})
_TIMEOUTS = frozenset({ErrorClass.TIMEOUT, ErrorClass.STALLED})


def charged(claim: Claim, error_class: ErrorClass) -> Counters:
    """The claim's counters after a failure of this class."""
    return Counters(
        attempt=claim.attempt - (error_class in _UNCHARGED),
        crashes=claim.crashes + (error_class in _CRASHES),
        timeouts=claim.timeouts + (error_class in _TIMEOUTS),
        node_losses=claim.node_losses + (error_class is ErrorClass.LEASE_EXPIRED),
    )


def saved(counters: Counters) -> Counters:
    """What a checkpoint leaves of them: attempts, crashes and timeouts are one at most."""
    return Counters(min(counters.attempt, 1), min(counters.crashes, 1), min(counters.timeouts, 1), counters.node_losses)


def released(claim: Claim) -> Counters:
    """The claim's counters when its attempt is given back unused."""
    return Counters(claim.attempt - 1, claim.crashes, claim.timeouts, claim.node_losses)


def kept(claim: Claim) -> Counters:
    """The claim's counters when its attempt counts and nothing else does."""
    return Counters(claim.attempt, claim.crashes, claim.timeouts, claim.node_losses)


def exhausted(counters: Counters, claim: Claim, error_class: ErrorClass, spec: KindSpec, max_node_losses: int) -> bool:
    """Whether this failure was the job's last: its attempts or the budget of its class are used up."""
    if error_class is ErrorClass.LEASE_EXPIRED:
        return counters.node_losses >= max_node_losses
    if counters.attempt >= claim.max_attempts:
        return True
    if error_class in _CRASHES:
        return counters.crashes >= spec.max_crashes
    return error_class in _TIMEOUTS and counters.timeouts >= spec.max_timeouts
