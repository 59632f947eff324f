"""Changing the jobs that somebody named or chose, slice by slice, and telling what became of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Event

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import JobState
from batchproc.queue.cancelling import CANCELLED, ENDED, REQUESTED
from batchproc.queue.inspection import Inspection
from batchproc.queue.pruning import FINISHED
from batchproc.queue.store import JobStore

Change = Callable[[Sequence[int]], dict[int, str]]
"""Changes some hundreds of jobs by their ids, commits, and says of each what became of it."""

KILLED_WITHIN = 5.0
"""Seconds that a cancel waits to see its running jobs end: a node kills one within a second of the request."""

_LOOK_SECONDS = 0.05


@dataclass
class Changed:
    """``outcomes`` counts jobs by what became of them; ``jobs`` names it for each, where that was asked for."""

    outcomes: Counter[str] = field(default_factory=Counter)
    jobs: dict[int, str] = field(default_factory=dict)


def change(
    slices: Iterable[list[int]],
    apply: Change,
    *,
    named: bool,
    stop: Event,
    tell: Callable[[int], None] = lambda _: None,
) -> Changed:
    """Applies the change to one slice after the other, until ``stop``.

    Args:
        named: each job was asked for by its id: its outcome is kept.
        tell: is told after each slice how many jobs were looked at.
    """
    changed = Changed()
    for job_ids in slices:
        if stop.is_set():
            break
        outcomes = apply(job_ids)
        changed.outcomes.update(outcomes.values())
        if named:
            changed.jobs |= dict(sorted(outcomes.items()))
        tell(changed.outcomes.total())
    return changed


ALREADY = "cancelled_already"
"""The outcome of a cancel of what was cancelled before."""


class Cancel:
    """A ``Change`` that cancels, and waits a moment for what runs to be killed.

    The outcomes are those of ``JobStore.cancel``, where ``requested`` is left of those alone that still ran after
    ``KILLED_WITHIN``: their node is cut off, or older than this command. What had ended is told by its state.
    """

    def __init__(self, store: JobStore, connection: Connection[TupleRow]) -> None:
        self._store = store
        self._connection = connection
        self._inspection = Inspection(store.schema)

    def __call__(self, job_ids: Sequence[int]) -> dict[int, str]:
        outcomes = dict(self._store.cancel(self._connection, job_ids))
        states = self._awaited([job_id for job_id, outcome in outcomes.items() if outcome == REQUESTED])
        over = [job_id for job_id, outcome in outcomes.items() if outcome == ENDED]
        states |= self._inspection.states(self._connection, over) if over else {}
        return {job_id: _told(outcome, states.get(job_id)) for job_id, outcome in outcomes.items()}

    def _awaited(self, job_ids: list[int]) -> dict[int, JobState]:
        give_up = time.monotonic() + KILLED_WITHIN
        states: dict[int, JobState] = {}
        while job_ids:
            states |= self._inspection.states(self._connection, job_ids)
            job_ids = [job_id for job_id in job_ids if states.get(job_id) not in FINISHED]
            if time.monotonic() > give_up:
                break
            if job_ids:
                time.sleep(_LOOK_SECONDS)
        return states


def _told(outcome: str, state: JobState | None) -> str:
    if outcome == REQUESTED and state is JobState.CANCELLED:
        return CANCELLED
    if outcome == ENDED and state is JobState.CANCELLED:
        return ALREADY
    # Completed wins.
    return str(state) if outcome in (REQUESTED, ENDED) and state in FINISHED else outcome
