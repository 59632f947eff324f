"""Whether the nights go well: the last runs, and how long something waits."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from batchproc.database import SqlFolder
from batchproc.queue.nights import Kept, NightStore

OF_LATE = 26 * 3600.0
"""A day, and what a night may begin or end later than the last one."""


@dataclass(frozen=True, slots=True)
class Nights:
    """Times by the database's clock.

    Attributes:
        good_run, good_at, good_code: the last run that ended with 0 or 1; None when none did.
        last_run, last_started, last_at, last_code: the last run that is over; without ``last_at`` its node was lost.
        going: runs that go on, on nodes that live.
        waiting: due jobs that neither a pause nor a limit of 0 of their tenant or kind keeps.
        waiting_since: since when the oldest of those waits that no ``reprocess`` enqueued.
        braked: kinds that a brake has paused, each with its code.
        without_handler: of ``waiting`` those of kinds that no run of late had a handler of, by kind; only kinds of
            which one was due already while a night looked for jobs.
        kept: what keeps jobs, due or not, until a person changes it, of ``MOST_KEPT`` and more those with most jobs;
            ``kept_more``: how many there are besides; ``kept_jobs``: how many jobs all of them keep.
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
    without_handler: dict[str, int] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()
    kept_more: int = 0
    kept_jobs: int = 0

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
    of_late: float = OF_LATE,
) -> Nights:
    """How the nights go that were for all of these, and what of these waits; empty collections mean all.

    So without any a run for some tenants, kinds or a lane alone does not count. Runs of one job alone, and those of a
    pilot, never do. It reads the jobs that wait once, and the due ones once more.

    Args:
        of_late: seconds within which a run that ended still tells what there are handlers of. The last one does in any
            case, and what goes on.
    """
    asked = {"tenant_ids": list(tenant_ids), "kinds": list(kinds), "lanes": list(lanes)}
    with connection.cursor(row_factory=class_row(Nights)) as cursor:
        values = {**asked, "asked": json.dumps(asked), "of_late": of_late}
        night = cursor.execute(SqlFolder("batchproc.queue", schema)["night"], values).fetchone()
    assert night is not None
    kept = NightStore(schema).kept(connection, tenant_ids=tenant_ids, kinds=kinds, lanes=lanes)
    return replace(night, kept=kept.most, kept_more=kept.more, kept_jobs=kept.jobs)
