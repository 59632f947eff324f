"""The row of a run, written by its node; ``run_history`` reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.database import SqlFolder


class RunStore:
    """Statements on a connection that the caller passes."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def start(self, connection: Connection[TupleRow], node_id: UUID, scope: Mapping[str, Any]) -> int:
        """A new run of that node; gives its id."""
        row = connection.execute(self._sql["start_run"], [node_id, json.dumps(scope)]).fetchone()
        assert row is not None
        return int(row[0])

    def finish(self, connection: Connection[TupleRow], run_id: int, exit_code: int, counts: Mapping[str, Any]) -> None:
        """The run is over, and came to that."""
        values = {"run_id": run_id, "exit_code": exit_code, "counts": json.dumps(counts)}
        connection.execute(self._sql["finish_run"], values)

    def ranges_told_otherwise(self, connection: Connection[TupleRow], run_id: int) -> dict[str, int]:
        """Discarded jobs of page ranges, by code, whose documents the run counts by another job already."""
        rows = connection.execute(self._sql["ranges_told_otherwise"], {"run_id": run_id}).fetchall()
        return dict(rows)
