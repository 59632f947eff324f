"""What goes on at this moment, for ``status`` and those who watch: slots, nodes, and how much has been done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, dict_row

from batchproc.database import SqlFolder


@dataclass(frozen=True, slots=True)
class Done:
    """What all nodes have done since the beginning of some day, at a time of the database's clock."""

    at: datetime
    attempts: int
    completed: int
    discarded: int
    pages: int


class LiveInspection:
    """Statements that only read, and cost next to nothing beside the queues': none looks at what waits."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def slots(self, connection: Connection[TupleRow]) -> list[dict[str, Any]]:
        """The slots of live nodes that have a job, as their nodes wrote them a few seconds ago at most.

        ``seconds`` since the job began, ``done`` of ``total`` in its handler's unit, often pages, and
        ``resident_bytes`` of its worker's whole tree. ``slot`` is None of a node that does not write such notes.
        """
        with connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(self._sql["status_slots"]).fetchall()
        for row in rows:
            done, total = row.pop("done"), row.pop("total")
            row["progress"] = None if total is None else {"done": done, "total": total}
        return rows

    def done(self, connection: Connection[TupleRow], since: date) -> Done:
        """Counted from the beginning of that day, UTC, on."""
        row = connection.execute(self._sql["status_usage"], {"since": since}).fetchone()
        assert row is not None
        return Done(*row)
