"""What a run with a window asks of the past, and of what it leaves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.expectations import Usual
from batchproc.database import SqlFolder

PAST_DAYS = 30
"""Days of ``usage_daily`` that say how long jobs and pages take, wherever that is estimated: long enough for kinds that
run once a month."""
MOST_KEPT = 20
"""So many of what keeps jobs are told: thousands of tenants may be paused, and what is told is one line of JSON."""


class LeftOfKind(NamedTuple):
    """Jobs of a kind that wait; of them those that are not held, and whose tenant and kind are not paused."""

    jobs: int
    claimable: int


class Kept(NamedTuple):
    """A tenant, a kind or a campaign (the others are None) of which nothing is claimed before a person changes that,
    and how many jobs wait for it.

    ``by``: somebody has paused it, or it has a limit of 0. ``reason``: what was said to the pause of a kind.
    """

    by: Literal["paused", "limit"]
    tenant: str | None
    kind: str | None
    campaign_id: int | None
    reason: str | None
    jobs: int


class KeptBack(NamedTuple):
    """What keeps jobs, that with most jobs first and no more than ``MOST_KEPT``; ``more``: how many there are besides.

    ``jobs``: how many all of these keep, each counted once.
    """

    most: tuple[Kept, ...]
    more: int
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

    def kept(
        self,
        connection: Connection[TupleRow],
        *,
        tenant_ids: Collection[int],
        kinds: Collection[str],
        lanes: Collection[int],
    ) -> KeptBack:
        """What keeps jobs of that scope waiting until a person changes it.

        Kinds that a brake has paused are not among them. A job whose tenant and kind are paused counts for both.
        """
        values = {**_scope(tenant_ids, kinds, lanes), "most": MOST_KEPT}
        rows = connection.execute(self._sql["kept_back"], values).fetchall()
        if not rows:
            return KeptBack((), 0, 0)
        *_, keepers, jobs = rows[0]
        return KeptBack(tuple(Kept(*row[:-2]) for row in rows), keepers - len(rows), jobs)


def _scope(tenant_ids: Collection[int], kinds: Collection[str], lanes: Collection[int]) -> dict[str, list[Any]]:
    return {"tenant_ids": list(tenant_ids), "kinds": list(kinds), "lanes": list(lanes)}
