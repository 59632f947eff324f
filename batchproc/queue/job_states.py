"""The states of jobs that are to be changed, and the words for those that were not."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import JobState
from batchproc.database import SqlFolder

UNKNOWN = "unknown"
"""There is no such job."""

UNWRITTEN = "unwritten"
"""Somebody held its row all the while, or the database refused to change it: ask again."""

PAUSES = (0.0, 0.01, 0.05, 0.2, 0.5)
"""Seconds between the looks at jobs that somebody holds, or that change under our eyes."""


def states_of(connection: Connection[TupleRow], schema: str, job_ids: Sequence[int]) -> dict[int, JobState]:
    """The states of these jobs; unknown ones are missing."""
    if not job_ids:
        return {}
    statement = SqlFolder("batchproc.queue", schema)["job_states"]
    rows = connection.execute(statement, {"job_ids": list(job_ids)}).fetchall()
    return {job_id: JobState(state) for job_id, state in rows}
