"""What a run with a window asks of the past, and of what it leaves."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.expectations import Usual
from batchproc.database import SqlFolder

PAST_DAYS = 30
"""Days of ``usage_daily`` that say how long jobs and pages take, wherever that is estimated: long enough for kinds that
run once a month."""


class LeftOfKind(NamedTuple):
    """Jobs of a kind that wait; of them those that are not held, and whose tenant and kind are not paused."""

    jobs: int
    claimable: int


class NightStore:
    """Reads only."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def usual(self, connection: Connection[TupleRow]) -> dict[str, Usual]:
        """What the last ``PAST_DAYS`` days saw of each kind, of all tenants together."""
        rows = connection.execute(self._sql["usual_seconds"], {"days": PAST_DAYS}).fetchall()
        return {kind: Usual(attempts, seconds) for kind, attempts, seconds in rows}

    def left(
        self,
        connection: Connection[TupleRow],
        *,
        tenant_ids: Collection[int],
        kinds: Collection[str],
        lanes: Collection[int],
    ) -> dict[str, LeftOfKind]:
        """Jobs of that scope that still wait, by kind, whether due or not; empty collections mean all."""
        values = {"tenant_ids": list(tenant_ids), "kinds": list(kinds), "lanes": list(lanes)}
        rows = connection.execute(self._sql["left_by_kind"], values).fetchall()
        return {kind: LeftOfKind(jobs, claimable) for kind, jobs, claimable in rows}
