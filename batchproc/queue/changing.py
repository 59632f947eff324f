"""Changing jobs that wait or are over: retried, given up on, moved in their queue; batch by batch, fenced by state."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.fairness import Queue
from batchproc.core.job import JobState, Lane
from batchproc.database import SqlFolder
from batchproc.queue import hints
from batchproc.queue.apart import require_own_transactions, write_apart
from batchproc.queue.job_states import PAUSES, UNKNOWN, UNWRITTEN, states_of

RETRIED = "retried"
RETRIED_HELD = "retried_held"
"""Of a retried job that is held, since its campaign is paused."""
RETRIED_ALREADY = "retried_already"
"""Of a job that is not over: it waits, is held or runs."""
DISCARDED = "discarded"
DISCARDED_ALREADY = "discarded_already"
PRIORITISED = "prioritised"
PRIORITISED_ALREADY = "prioritised_already"
"""Of a job that had the priority and lane that were asked for."""

GIVEN_UP = "given_up"
"""The failure code of what a person gave up on."""

_WAITING = frozenset({JobState.SCHEDULED, JobState.AVAILABLE, JobState.HELD})
_NOT_OVER = _WAITING | {JobState.RUNNING}


class Changing:
    """Each call takes some hundreds of jobs, commits by itself, and says of each id what became of it.

    That is the name of the change, with ``_already`` where it was so before, else the state that kept the job from it,
    ``unknown``, or ``unwritten`` of one whose row somebody held all the while, or that the database refused to change:
    ask again.
    """

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._sql = SqlFolder("batchproc.queue", schema)
        self._channel = hints.channel(schema)

    def retry(self, connection: Connection[TupleRow], job_ids: Sequence[int]) -> dict[int, str]:
        """Makes discarded and cancelled jobs available again with fresh budgets, or holds them with their campaign.

        They are ``retried``, ``retried_held``, or ``superseded`` when a job with their unique key does their work
        already. What is not over is ``retried_already``. Of jobs with one unique key that cannot wait both, one is
        ``unwritten``. A campaign that was cancelled is so no longer once the last of its cancelled jobs is retried.
        """
        require_own_transactions(connection, "a retry of many jobs")
        found: list[tuple[int, str, bool, int | None]]
        found, refused = write_apart(
            connection, sorted(job_ids), lambda ids: connection.execute(self._sql["retry_jobs"], [ids]).fetchall()
        )
        outcomes = {
            job_id: RETRIED_HELD if is_held else RETRIED_ALREADY if outcome in _NOT_OVER else outcome
            for job_id, outcome, is_held, _ in found
        }
        outcomes |= dict.fromkeys(refused, UNWRITTEN)
        # With what is committed: of two retries at once the later one sees that nothing is left. One that was killed
        # before this is given again, and finds the campaigns of its jobs as they were.
        if campaign_ids := sorted({campaign_id for *_, campaign_id in found if campaign_id is not None}):
            connection.execute(self._sql["take_back_cancel"], {"campaign_ids": campaign_ids})
        if RETRIED in outcomes.values():
            connection.execute(self._sql["notify"], [self._channel, hints.REFRESH])
        return {job_id: outcomes.get(job_id, UNKNOWN) for job_id in job_ids}

    def discard(
        self,
        connection: Connection[TupleRow],
        job_ids: Sequence[int],
        *,
        failing_kinds: Collection[str],
        told: dict[str, Any],
    ) -> dict[int, str]:
        """Gives up on those of these jobs that wait, with the code ``given_up``.

        Args:
            failing_kinds: kinds whose jobs fail their document with them.
            told: becomes the result of each.
        """
        failing, result = {"failing_kinds": sorted(failing_kinds)}, json.dumps(told)

        def write(ids: list[int]) -> list[tuple[int, str]]:
            with connection.transaction():
                locked = connection.execute(self._sql["lock_waiting"], failing | {"job_ids": ids}).fetchall()
                values = {
                    "job_ids": [job_id for job_id, _ in locked],
                    "tenant_ids": [tenant_id for _, tenant_id in locked],
                    "results": [result] * len(locked),
                    "failure_code": GIVEN_UP,
                    "run_id": None,  # none has done it, and so none is to tell of it
                }
                rows = connection.execute(self._sql["discard_jobs"], failing | values).fetchall()
            return [(row[0], DISCARDED) for row in rows]

        return self._of_waiting(connection, job_ids, write, over_already={JobState.DISCARDED: DISCARDED_ALREADY})

    def prioritise(
        self, connection: Connection[TupleRow], job_ids: Sequence[int], *, priority: int | None, lane: Lane | None
    ) -> dict[int, str]:
        """Gives those of these jobs that wait another priority (1 to 9, lower goes first), another lane, or both."""
        values = {"priority": priority, "lane": None if lane is None else int(lane)}

        def write(ids: list[int]) -> list[tuple[int, str]]:
            rows = connection.execute(self._sql["prioritise_jobs"], values | {"job_ids": ids}).fetchall()
            self._tell_of_places(connection, rows)
            return [(row[0], PRIORITISED_ALREADY if row[1] is None else PRIORITISED) for row in rows]

        return self._of_waiting(connection, job_ids, write)

    def _tell_of_places(self, connection: Connection[TupleRow], rows: Sequence[TupleRow]) -> None:
        """Nodes read a queue from the place of their last claim on: what comes before it has to be told."""
        priorities: dict[Queue, int] = {}
        for _, state, lane, tenant_id, kind, priority in rows:
            if state == JobState.AVAILABLE:  # not of what had its place already
                queue = Queue(lane, tenant_id, kind)
                priorities[queue] = min(priority, priorities.get(queue, priority))
        if told := hints.of_batch(priorities):
            connection.execute(self._sql["notify_all"], [self._channel, told])

    def _of_waiting(
        self,
        connection: Connection[TupleRow],
        job_ids: Sequence[int],
        write: Callable[[list[int]], list[tuple[int, str]]],
        over_already: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[int, str]:
        require_own_transactions(connection, "a change of many jobs")
        found: dict[int, str] = {}
        left = sorted(job_ids)
        for pause in PAUSES:
            time.sleep(pause)
            written, _ = write_apart(connection, left, write)
            found |= dict(written)
            kept = self._not_waiting(connection, [job_id for job_id in left if job_id not in found])
            found |= {job_id: over_already.get(state, state) for job_id, state in kept.items()}
            left = [job_id for job_id in left if job_id not in found]
            if not left:
                break
        return found | dict.fromkeys(left, UNWRITTEN)

    def _not_waiting(self, connection: Connection[TupleRow], job_ids: list[int]) -> dict[int, str]:
        """What keeps jobs from a change of those that wait; what waits is missing: somebody held it a moment ago."""
        states = states_of(connection, self._schema, job_ids)
        kept = {job_id: str(states.get(job_id, UNKNOWN)) for job_id in job_ids}
        return {job_id: state for job_id, state in kept.items() if state not in _WAITING}
