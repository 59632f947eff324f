"""An outcome in words, for a person who ran one job."""

from __future__ import annotations

from batchproc.core.job import Claim
from batchproc.core.outcome import Completed, Failed, Outcome, Snoozed
from batchproc.log import one_line


def outcome_line(claim: Claim, outcome: Outcome, seconds: float) -> str:
    """``job 7 ocr: completed {...} after 1.20 s``, on one line and safe on a terminal."""
    return f"job {claim.job_id} {claim.kind}: {_described(outcome)} after {seconds:.2f} s"


def _described(outcome: Outcome) -> str:
    match outcome:
        case Completed(result=result):
            return f"completed {one_line(result)}" if result else "completed"
        case Failed():
            about = "; ".join(one_line(part) for part in (outcome.error_type, outcome.detail) if part)
            return f"failed ({outcome.error_class}) {outcome.code}" + (f": {about}" if about else "")
        case Snoozed():
            return f"snoozed for {outcome.seconds:g} s"
        case _:
            return type(outcome).__name__.lower()
