"""What a run with a window asks of the past, and of what it leaves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

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


class Paused(NamedTuple):
    """A tenant or a kind that a person has paused, and how many jobs wait for the end of that. One is None.

    ``reason``: what that person said; of a tenant nothing is kept.
    """

    tenant: str | None
    kind: str | None
    reason: str | None
    jobs: int


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
        rows = connection.execute(self._sql["left_by_kind"], _scope(tenant_ids, kinds, lanes)).fetchall()
        return {kind: LeftOfKind(jobs, claimable) for kind, jobs, claimable in rows}

    def paused(
        self,
        connection: Connection[TupleRow],
        *,
        tenant_ids: Collection[int],
        kinds: Collection[str],
        lanes: Collection[int],
    ) -> tuple[Paused, ...]:
        """What keeps jobs of that scope waiting because a person has paused it, that with most jobs first.

        Kinds that a brake has paused are not among them. A job whose tenant and kind are paused counts for both.
        """
        rows = connection.execute(self._sql["left_paused"], _scope(tenant_ids, kinds, lanes)).fetchall()
        return tuple(Paused(*row) for row in rows)


def _scope(tenant_ids: Collection[int], kinds: Collection[str], lanes: Collection[int]) -> dict[str, list[Any]]:
    return {"tenant_ids": list(tenant_ids), "kinds": list(kinds), "lanes": list(lanes)}
