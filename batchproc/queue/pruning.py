"""Deleting jobs that ended long ago, with their attempts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.limits import LONGEST_DELAY
from batchproc.database import SqlFolder
from batchproc.queue.apart import require_own_transactions, write_apart

# Small: each job takes its attempts with it, and whoever waits for one of the rows waits for the batch.
_BATCH = 500


class Pruning:
    """The statements behind ``JobStore.prune``."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def prune(self, connection: Connection[TupleRow], older_than: timedelta) -> int:
        """See ``JobStore.prune``."""
        require_own_transactions(connection, "a prune")
        until = self._until(connection, older_than)
        after_time, after_id = datetime(1, 1, 1, tzinfo=UTC), 0
        pruned = 0
        while rows := connection.execute(
            self._sql["prunable"],
            {"until": until, "after_time": after_time, "after_id": after_id, "limit": _BATCH},
        ).fetchall():
            after_id, after_time = rows[-1]
            # Whatever is passed over, or cannot be deleted, is left to the next prune.
            written, _ = write_apart(
                connection, sorted(row[0] for row in rows), lambda ids: self._delete(connection, ids, until)
            )
            pruned += len(written)
        return pruned

    def _until(self, connection: Connection[TupleRow], older_than: timedelta) -> datetime:
        if older_than < timedelta():
            raise ValueError("a job cannot have ended in the future")
        seconds = min(older_than.total_seconds(), LONGEST_DELAY)
        row = connection.execute(self._sql["prune_until"], {"seconds": seconds}).fetchone()
        assert row is not None
        until: datetime = row[0]
        return until

    def _delete(self, connection: Connection[TupleRow], job_ids: list[int], until: datetime) -> list[int]:
        rows = connection.execute(self._sql["prune_jobs"], {"job_ids": job_ids, "until": until}).fetchall()
        return [row[0] for row in rows]
