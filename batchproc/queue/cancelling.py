"""Cancelling jobs: what waits ends at once, what runs is asked for from the node that runs it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import JobState
from batchproc.database import SqlFolder
from batchproc.queue import hints
from batchproc.queue.apart import require_own_transactions, write_apart
from batchproc.queue.job_states import PAUSES, UNKNOWN, UNWRITTEN, states_of

CANCELLED = "cancelled"
REQUESTED = "requested"
ENDED = "ended"

_BATCH = 500
_ENDED = frozenset({JobState.COMPLETED, JobState.DISCARDED, JobState.CANCELLED})


class Cancelling:
    """The statements behind ``JobStore.cancel``."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._sql = SqlFolder("batchproc.queue", schema)
        self._channel = hints.channel(schema)

    def cancel(self, connection: Connection[TupleRow], job_ids: Iterable[int]) -> list[tuple[int, str]]:
        """See ``JobStore.cancel``."""
        require_own_transactions(connection, "a cancel")
        found: dict[int, str] = {}
        for batch in _batches(sorted(set(job_ids))):
            found |= self._cancel_batch(connection, batch)
        return sorted(found.items())

    def cancel_waiting(self, connection: Connection[TupleRow], job_ids: list[int]) -> list[int]:
        """Cancels those of these jobs that wait and that nobody holds; returns their ids."""
        return self._ids(connection, "cancel_waiting", job_ids)

    def forget_requests(self, connection: Connection[TupleRow], job_ids: list[int]) -> list[int]:
        """Forgets what was asked of those of these jobs that are over; returns their ids."""
        return self._ids(connection, "forget_requests", job_ids)

    def request(self, connection: Connection[TupleRow], job_ids: Sequence[int]) -> list[int]:
        """Asks the nodes of those of these jobs that run to stop them; returns their ids."""
        requested, _ = write_apart(connection, job_ids, lambda ids: self._ids(connection, "request_cancel", ids))
        if requested:
            connection.execute(self._sql["notify"], [self._channel, hints.CANCEL])
        return requested

    def _cancel_batch(self, connection: Connection[TupleRow], job_ids: list[int]) -> dict[int, str]:
        found: dict[int, str] = {}
        left = job_ids
        requested: set[int] = set()
        for pause in PAUSES:
            time.sleep(pause)
            cancelled, _ = write_apart(connection, left, lambda ids: self.cancel_waiting(connection, ids))
            found |= dict.fromkeys(cancelled, CANCELLED)
            left = [job_id for job_id in left if job_id not in found]
            requested.update(self.request(connection, left))
            # A look of its own, after the request is committed: a settle that did not see the request may have put
            # the job back into waiting, or ended it, in between.
            found |= self._looked_again(connection, left, requested)
            left = [job_id for job_id in left if job_id not in found]
            if not left:
                break
        return found | dict.fromkeys(left, UNWRITTEN)

    def _looked_again(
        self, connection: Connection[TupleRow], job_ids: Sequence[int], requested: set[int]
    ) -> dict[int, str]:
        """What is known of jobs for good; what waits, or runs without a request, is missing."""
        states = states_of(connection, self._schema, job_ids)
        found = {}
        for job_id in job_ids:
            state = states.get(job_id)
            if state is None:
                found[job_id] = UNKNOWN
            elif state is JobState.CANCELLED and job_id in requested:
                found[job_id] = CANCELLED
            elif state in _ENDED:
                found[job_id] = ENDED
            elif state is JobState.RUNNING and job_id in requested:
                found[job_id] = REQUESTED
        return found

    def _ids(self, connection: Connection[TupleRow], name: str, job_ids: list[int]) -> list[int]:
        return [row[0] for row in connection.execute(self._sql[name], {"job_ids": job_ids}).fetchall()]


def _batches(job_ids: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, len(job_ids), _BATCH):
        yield list(job_ids[start : start + _BATCH])
