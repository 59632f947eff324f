"""Reading what tenants have used: sums by day and kind, which stay when jobs are pruned."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, dict_row

from batchproc.database import SqlFolder

GROUPS = ("day", "tenant", "kind")


class Usage:
    """Sums of ``usage_daily``. A day is one of UTC, as the settle writes it."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def rows(
        self,
        connection: Connection[TupleRow],
        *,
        by: Sequence[str] = GROUPS,
        since: date = date.min,
        until: date = date.max,
        tenant_id: int | None = None,
        kinds: Collection[str] = (),
        after: int = 0,
        limit: int = 100,
    ) -> list[dict[str, Any]]:
        """Sums from the newest day to the oldest, after the first ``after`` of them.

        Args:
            by: which of ``GROUPS`` have rows of their own; what is left out is None in all rows.
            since, until: the first and the last day.
            kinds: these alone; none means all.
        """
        values = {
            "by": list(by),
            "since": since,
            "until": until,
            "tenant_id": tenant_id,
            "kinds": list(kinds),
            "after": after,
            "limit": limit,
        }
        with connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(self._sql["usage"], values).fetchall()
