"""What the slots of a node are at, in the database: for those who look from anywhere, at any time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.database import SqlFolder


class SlotNote(NamedTuple):
    """One slot that has a job: since how many seconds, in which process, and how many bytes its tree holds resident."""

    slot: int
    job_id: int
    claim_id: UUID
    worker_pid: int | None
    seconds: float
    resident_bytes: int


class SlotStore:
    """Writes the notes of one node, in one statement, on a connection that the caller passes."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def write(
        self,
        connection: Connection[TupleRow],
        node_id: UUID,
        notes: Sequence[SlotNote],
        *,
        run_id: int,
        ended: int,
        jobs_per_minute: float | None,
    ) -> None:
        """The slots that have a job now; all others are idle.

        Args:
            ended: attempts of the run that have ended.
            jobs_per_minute: of the last minute; None before that is known.

        Raises:
            psycopg.errors.ForeignKeyViolation: the node is not known (any more).
        """
        slots, job_ids, claim_ids, pids, seconds, resident = (
            [list(column) for column in zip(*notes, strict=True)] if notes else [[] for _ in SlotNote._fields]
        )
        values = {
            "node_id": node_id,
            "run_id": run_id,
            "ended": ended,
            "jobs_per_minute": jobs_per_minute,
            "slots": slots,
            "job_ids": job_ids,
            "claim_ids": claim_ids,
            "worker_pids": pids,
            "seconds": seconds,
            "resident_bytes": resident,
        }
        connection.execute(self._sql["write_slots"], values)
