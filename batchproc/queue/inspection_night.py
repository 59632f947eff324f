"""Whether the nights go well: the last runs, and how long something waits."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from batchproc.database import SqlFolder


@dataclass(frozen=True, slots=True)
class Nights:
    """Times by the database's clock.

    Attributes:
        good_run, good_at, good_code: the last run that ended with 0 or 1; None when none did.
        last_run, last_started, last_at, last_code: the last run that is over; without ``last_at`` its node was lost.
        going: runs that go on, on nodes that live.
        waiting: due jobs that neither their tenant's nor their kind's pause keeps.
        waiting_since: since when the oldest of those waits that no ``reprocess`` enqueued.
        braked: kinds that a brake has paused, each with its code.
    """

    now: datetime
    good_run: int | None
    good_at: datetime | None
    good_code: int | None
    last_run: int | None
    last_started: datetime | None
    last_at: datetime | None
    last_code: int | None
    going: int
    waiting: int
    waiting_since: datetime | None
    braked: list[str]

    @property
    def good_age(self) -> float | None:
        """Seconds since a run ended well; None when none ever did."""
        return None if self.good_at is None else max(0.0, (self.now - self.good_at).total_seconds())

    @property
    def longest_wait(self) -> float:
        """Seconds."""
        return 0.0 if self.waiting_since is None else max(0.0, (self.now - self.waiting_since).total_seconds())


def look_at_night(
    connection: Connection[TupleRow],
    schema: str,
    *,
    tenant_ids: Collection[int] = (),
    kinds: Collection[str] = (),
    lanes: Collection[int] = (),
) -> Nights:
    """How the nights go that were for all of these, and what of these waits; empty collections mean all.

    So without any a run for some tenants, kinds or a lane alone does not count. Runs of one job alone, and those of a
    pilot, never do. It reads the due jobs once.
    """
    asked = {"tenant_ids": list(tenant_ids), "kinds": list(kinds), "lanes": list(lanes)}
    with connection.cursor(row_factory=class_row(Nights)) as cursor:
        values = {**asked, "asked": json.dumps(asked)}
        night = cursor.execute(SqlFolder("batchproc.queue", schema)["night"], values).fetchone()
    assert night is not None
    return night
