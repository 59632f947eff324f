"""What a handler may write of its own job's row, always fenced by the claim."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.limits import bounded_json
from batchproc.database import SqlFolder


@dataclass(frozen=True, slots=True)
class Belonging:
    """The node and the run that claimed a job, and the campaign that the job is of."""

    node_id: UUID | None = None
    campaign_id: int | None = None
    run_id: int | None = None


class ClaimFence:
    """Locks and writes a running job's row by its claim, in a transaction of the caller."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def lock(self, connection: Connection[TupleRow], job_id: int, claim_id: UUID) -> bool:
        """True when the job is still held by this claim; its row then stays locked to the transaction's end."""
        return connection.execute(self._sql["lock_claim"], [job_id, claim_id]).fetchone() is not None

    def call(self, connection: Connection[TupleRow], name: str) -> None:
        """Names this transaction in ``pg_stat_activity``; at most 63 characters."""
        connection.execute(self._sql["name_transaction"], [name])

    def is_claimed(self, connection: Connection[TupleRow], job_id: int, claim_id: UUID) -> bool:
        """True when the job is held by this claim at this moment; nothing is locked, and no lock waited for."""
        return connection.execute(self._sql["is_claimed"], [job_id, claim_id]).fetchone() is not None

    def belonging(self, connection: Connection[TupleRow], job_id: int, claim_id: UUID) -> Belonging:
        """What the claim belongs to; nothing of a job that is no longer held by it."""
        row = connection.execute(self._sql["claim_belonging"], [job_id, claim_id]).fetchone()
        return Belonging() if row is None else Belonging(*row)

    def reset_budgets(self, connection: Connection[TupleRow], job_id: int, claim_id: UUID) -> None:
        """Sets attempts, crashes and timeouts back to one at most."""
        connection.execute(self._sql["reset_budgets"], [job_id, claim_id])

    def publish(self, connection: Connection[TupleRow], job_id: int, claim_id: UUID, result: str) -> None:
        """Stores a partial result, a JSON object as text of at most 64 kB."""
        connection.execute(self._sql["publish_result"], [bounded_json(result), job_id, claim_id])
