"""An outcome on its way from the worker to the node: JSON, because the node imports no handler.

What a handler returns may hold values of its own classes, which only its own module could read again; JSON either
makes plain ones of them or refuses them where they were made, in the worker.
"""

from __future__ import annotations

import json
from typing import Any

from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Failed, FollowUp, Interrupted, Outcome, Snoozed

MAX_REPLY_BYTES = 4 << 20
"""An outcome above this fails as ``result_too_large``: what is big goes through the database."""

LOST = b""
"""In the place of a reply that should have come: it cannot be read."""

_COMPLETED = b'["completed", null, [], false, 0]'
_PLAIN = Completed()


def encode(outcome: object) -> bytes:
    """The outcome as JSON. Raises TypeError or ValueError when it is none, or holds what JSON cannot."""
    if outcome == _PLAIN and type(outcome) is Completed:
        return _COMPLETED  # most outcomes of quick jobs
    reply = json.dumps(_fields(outcome), allow_nan=False).encode()
    if len(reply) > MAX_REPLY_BYTES:
        size = f"the outcome has {len(reply)} bytes, more than {MAX_REPLY_BYTES}"
        return encode(Failed(ErrorClass.PERMANENT, "result_too_large", detail=size))
    return reply


def decode(reply: bytes) -> Outcome:
    """The outcome in a reply; one that cannot be read is a failure of its job, never of the node."""
    if reply == _COMPLETED:
        return _PLAIN
    try:
        return _outcome(*json.loads(reply))
    except Exception as error:  # noqa: BLE001 - whatever a broken worker sends
        return Failed(ErrorClass.TRANSIENT, "internal_error", f"{type(error).__name__} in the worker's reply")


def _fields(outcome: object) -> list[Any]:
    match outcome:
        case Completed(result, follow_ups, partial, stripped):
            if not isinstance(result, str | None):
                raise TypeError(f"a result is JSON as text or None, not {type(result).__name__}")
            jobs = [[f.kind, f.args, f.document_id, f.unique_key, f.range_of] for f in follow_ups]
            return ["completed", result, jobs, partial, stripped]
        case Failed(error_class, code, error_type, detail):
            return ["failed", error_class, code, error_type, detail]
        case Snoozed(seconds):
            return ["snoozed", seconds]
        case Interrupted(reason):
            return ["interrupted", reason]
        case Cancelled():
            return ["cancelled"]
    raise TypeError(f"{type(outcome).__name__} is not an outcome")


def _outcome(kind: str, *fields: Any) -> Outcome:
    match kind:
        case "completed":
            result, follow_ups, partial, stripped = fields
            return Completed(result, tuple(FollowUp(*follow_up) for follow_up in follow_ups), partial, stripped)
        case "failed":
            error_class, *rest = fields
            return Failed(ErrorClass(error_class), *rest)
        case "snoozed":
            return Snoozed(*fields)
        case "interrupted":
            return Interrupted(*fields)
        case "cancelled":
            return Cancelled()
    raise ValueError(f"{kind} is no kind of outcome")
