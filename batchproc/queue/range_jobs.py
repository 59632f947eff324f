"""What the job table knows of the ranges of a revision: the jobs that read its pages, and the one that joins them."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.ranges import PageRange
from batchproc.database import SqlFolder


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A range whose job was discarded, and the failure code of that."""

    job_id: int
    pages: PageRange
    code: str


class RangeJobs:
    """Looks up the jobs of one tenant's revisions."""

    def __init__(self, schema: str, *, tenant_id: int) -> None:
        self._tenant_id = tenant_id
        self._sql = SqlFolder("batchproc.queue", schema)

    def revision_of(self, connection: Connection[TupleRow], job_id: int, claim_id: UUID) -> int | None:
        """The revision that a claimed job is a part of; None of one that reads a document alone."""
        row = connection.execute(self._sql["range_of_job"], [job_id, claim_id]).fetchone()
        return None if row is None else row[0]

    def are_living(self, connection: Connection[TupleRow], revision_id: int) -> bool:
        """Whether a job of the revision has not come to a final state; the joining job, too."""
        return self._states(connection, revision_id)[0]

    def are_known(self, connection: Connection[TupleRow], revision_id: int) -> bool:
        """Whether there is any job of the revision, in whatever state: one that is over may be retried."""
        return self._states(connection, revision_id)[1]

    def given_up(self, connection: Connection[TupleRow], revision_id: int) -> list[GivenUp]:
        """The ranges of the revision whose jobs were discarded."""
        values = {"revision_id": revision_id, "tenant_id": self._tenant_id}
        rows = connection.execute(self._sql["discarded_ranges"], values).fetchall()
        return [GivenUp(job_id, PageRange(first, last), code) for job_id, first, last, code in rows]

    def was_retried(self, connection: Connection[TupleRow], job_id: int) -> bool:
        """Whether the job had ended by a failure or a cancel in an attempt, and somebody wanted it done after all."""
        values = {"job_id": job_id, "tenant_id": self._tenant_id}
        row = connection.execute(self._sql["was_retried"], values).fetchone()
        return row is not None and bool(row[0])

    def can_be_read(self, connection: Connection[TupleRow], kind: str) -> bool:
        """Whether every live node that knows the kind knows ranges: one of an older release would discard them."""
        row = connection.execute(self._sql["nodes_without_ranges"], {"kind": kind}).fetchone()
        return row is None

    def _states(self, connection: Connection[TupleRow], revision_id: int) -> tuple[bool, bool]:
        values = {"revision_id": revision_id, "tenant_id": self._tenant_id}
        row = connection.execute(self._sql["range_states"], values).fetchone()
        assert row is not None
        return row[0], row[1]
