"""The endings of attempts on their way to the database: what is written of each, and what when that cannot be."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.fairness import Queue
from batchproc.core.job import MAX_ATTEMPTS, JobState, KindSpec
from batchproc.core.languages import asked_for
from batchproc.core.limits import CODE, DETAIL_CHARACTERS, ERROR_TYPE_CHARACTERS, LONGEST_DELAY, bounded_text
from batchproc.core.outcome import FollowUp
from batchproc.core.transition import Transition

_STATES = {state.value: state for state in JobState}
_JSON = json.JSONEncoder(allow_nan=False)
_COMPLETED = (
    '{"job_id":%d,"claim_id":"%s","state":"completed","outcome":"completed","attempt":%d,"crashes":%d,"timeouts":%d,'
    '"node_losses":%d,"worker_pid":%s,"seconds":%r,"result":%s}'
)


class Ended(NamedTuple):
    """An ending to write: the transition and what the node measured of the attempt.

    ``also`` is written in the same transaction, after it, and only if its claim was still held. An ending that has one
    is settled by ``NodeStore.settle_one_by_one``. ``as_json`` is what ``ending_json`` makes of it, where that was made
    before.
    """

    transition: Transition
    worker_pid: int | None = None
    seconds: float = 0.0
    also: Callable[[Connection[TupleRow]], None] | None = None
    as_json: str | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """What a settle wrote: the state of every claim's job that it found, and the queues that follow-ups came into.

    By claims, not by jobs: a batch may hold a lost claim of a job beside the one that holds the job now.

    ``unwritten``: claims whose ending met an error that passes (a deadlock, a lock timeout, a full disk): they are
    still held and have to be settled again. A claim that is neither there nor in ``states`` was lost.
    """

    states: dict[UUID, JobState]
    followed: list[Queue]
    unwritten: frozenset[UUID] = frozenset()


def settled_of(rows: Iterable[TupleRow]) -> Settled:
    """What settle.sql gave: a row for each claim that it found, and one without a claim for each queue."""
    states: dict[UUID, JobState] = {}
    followed: list[Queue] = []
    for claim_id, state, lane, tenant_id, kind in rows:
        if claim_id is not None:
            states[claim_id] = _STATES[state]
        else:
            followed.append(Queue(lane, tenant_id, kind))
    return Settled(states, followed)


class Recorded(NamedTuple):
    """How an attempt ended by its row in ``job_attempts``, whoever wrote that."""

    outcome: str
    error_class: str | None
    failure_code: str | None
    worker_pid: int | None


def recognised(ending: Ended, recorded: Recorded) -> Transition | None:
    """What of this ending was recorded: all of it, or it without its content; None when another node wrote that row."""
    for written in (ending, without_content(ending)):
        moved = written.transition
        if recorded == (moved.outcome, moved.error_class, moved.failure_code, written.worker_pid):
            return moved
    return None


def endings_json(endings: Iterable[Ended], specs: Mapping[str, KindSpec]) -> str:
    """The endings as settle.sql reads them: one JSON array."""
    return f"[{','.join(ending_json(ending, specs) for ending in endings)}]"


def ending_json(ending: Ended, specs: Mapping[str, KindSpec]) -> str:
    """An ending as settle.sql reads it; without its content when that is no JSON."""
    if ending.as_json is not None:
        return ending.as_json
    try:
        return _ending_json(ending, specs)
    except (TypeError, ValueError, RecursionError):
        return _ending_json(without_content(ending), specs)


def without_content(ending: Ended) -> Ended:
    """The ending with nothing in it that a handler wrote; a completed job whose result is lost is discarded."""
    moved = ending.transition
    lost = moved.state is JobState.COMPLETED
    code = moved.failure_code
    bare = moved._replace(
        state=JobState.DISCARDED if lost else moved.state,
        outcome="failed" if lost else moved.outcome,
        delay=None if moved.delay is None else _finite(moved.delay, LONGEST_DELAY),
        result=None,
        failure_code="internal_error" if lost or (code is not None and not CODE.match(code)) else code,
        error_class="permanent" if lost else moved.error_class,
        error_type="the outcome could not be stored",
        detail=None,
        follow_ups=(),
        partial=False,
    )
    return Ended(bare, ending.worker_pid, _finite(ending.seconds, LONGEST_DELAY))


def _ending_json(ending: Ended, specs: Mapping[str, KindSpec]) -> str:
    moved = ending.transition
    counters = moved.counters
    if moved.outcome == "completed" and not (moved.follow_ups or moved.detail) and math.isfinite(ending.seconds):
        # Most endings of quick jobs, at a third of the cost.
        return _COMPLETED % (
            moved.job_id,
            moved.claim_id,
            *counters,
            "null" if ending.worker_pid is None else ending.worker_pid,
            ending.seconds,
            "null" if moved.result is None else _JSON.encode(_ascii(moved.result)),
        )
    fields: dict[str, Any] = {
        "job_id": moved.job_id,
        "claim_id": str(moved.claim_id),
        "state": moved.state,
        "attempt": counters.attempt,
        "crashes": counters.crashes,
        "timeouts": counters.timeouts,
        "node_losses": counters.node_losses,
        "outcome": moved.outcome,
        "delay": moved.delay,
        # As a text: parsing it only to write it again would cost the hot path, and so it cannot be taken for more.
        "result": None if moved.result is None else _ascii(moved.result),
        "failure_code": moved.failure_code,
        "error_class": moved.error_class,
        "error_type": bounded_text(moved.error_type, ERROR_TYPE_CHARACTERS),
        "detail": bounded_text(moved.detail, DETAIL_CHARACTERS),
        "worker_pid": ending.worker_pid,
        "seconds": ending.seconds,
        "fails_document": moved.fails_document or None,
        "follow_ups": [_follow_up(follow_up, specs) for follow_up in moved.follow_ups] or None,
    }
    # What is left out is null: of most endings that is half, and the hot path is short.
    return _JSON.encode({name: value for name, value in fields.items() if value is not None})


def _ascii(result: str) -> str:
    if not result.isascii():
        raise ValueError("a result is JSON in ASCII")
    return result


def _follow_up(follow_up: FollowUp, specs: Mapping[str, KindSpec]) -> dict[str, Any]:
    spec = specs.get(follow_up.kind)
    return {
        "kind": follow_up.kind,
        "args": follow_up.args,
        "document_id": follow_up.document_id,
        "unique_key": follow_up.unique_key,
        "unique_while_running": bool(spec and spec.unique_while_running),
        "max_attempts": spec.max_attempts if spec else MAX_ATTEMPTS,
        "languages": asked_for(follow_up.args),
        "by_language": spec is None or spec.needs_languages,
        "range_of": follow_up.range_of,
    }


def _finite(seconds: float, most: float) -> float:
    return max(0.0, min(seconds, most)) if math.isfinite(seconds) else 0.0
