"""An outcome in words, for a person who ran one job."""

from __future__ import annotations

import json

from batchproc.core.durations import duration
from batchproc.core.job import Claim
from batchproc.core.outcome import Completed, Failed, Outcome, Snoozed
from batchproc.core.shown_text import one_line


def outcome_line(claim: Claim, outcome: Outcome, seconds: float) -> str:
    """``job 7 ocr: completed {...} after 1.2 s``, on one line and safe on a terminal. Of a failure, whose text may be
    long, the time comes before that."""
    return f"job {claim.job_id} {claim.kind}: {_described(outcome, f'after {duration(seconds)}')}"


def _readable(result: str) -> str:
    """The JSON with its letters as they are read, on one line."""
    try:
        return one_line(json.dumps(json.loads(result), ensure_ascii=False))
    except (ValueError, RecursionError):  # a number of thousands of digits, or very deep
        return one_line(result)


def _described(outcome: Outcome, after: str) -> str:
    match outcome:
        case Completed(result=result):
            return f"completed {_readable(result)} {after}" if result else f"completed {after}"
        case Failed():
            about = "; ".join(one_line(part) for part in (outcome.error_type, outcome.detail) if part)
            return f"failed ({outcome.error_class}) {outcome.code} {after}" + (f": {about}" if about else "")
        case Snoozed():
            return f"snoozed for {duration(outcome.seconds)} {after}"
        case _:
            return f"{type(outcome).__name__.lower()} {after}"
