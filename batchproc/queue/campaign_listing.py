"""Campaigns as people look at them: what they were, how far they are, what is left of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow, class_row, dict_row

from batchproc.core.job import JobState
from batchproc.database import SqlFolder
from batchproc.queue.campaigns import unknown_campaign

State = Literal["cancelling", "cancelled", "paused", "running", "waiting", "done"]

_UNFINISHED = (JobState.SCHEDULED, JobState.AVAILABLE, JobState.RUNNING, JobState.HELD)
_WINDOW = 15 * 60.0
_MOST_LOOKED_AT = 20_000
# Of fewer the rate is chance.
_FEWEST = 5


@dataclass(frozen=True, slots=True)
class Campaign:
    """A campaign and how far it is.

    ``tenant``: its slug, if only that tenant's documents were chosen. ``documents`` got a job when it was made; one
    is left while a job of it waits, is held or runs, and cancelled if somebody cancelled one and none is left.
    ``jobs`` by their state, or the one that they ended in before a prune deleted them; ``pruned`` of them.
    ``filled_at``: when the command that made it had gone through everything; None while it goes on, or when it was
    cut short. ``cancelling``: it was cancelled, and some of its jobs had not come to an end when somebody looked
    last.
    """

    campaign_id: int
    command: str
    kind: str | None
    tenant: str | None
    paused: bool
    created_at: datetime
    filled_at: datetime | None
    cancelled_at: datetime | None
    cancelling: bool
    documents: int
    documents_left: int
    documents_cancelled: int
    jobs: Counter[JobState]
    pruned: int

    @property
    def documents_done(self) -> int:
        """Of how many documents no job waits or runs any more, nor was cancelled; some may have failed."""
        return max(0, self.documents - self.documents_left - self.documents_cancelled)

    @property
    def failed(self) -> int:
        """Jobs that were given up on."""
        return self.jobs[JobState.DISCARDED]

    @property
    def jobs_left(self) -> int:
        """Jobs that wait, are held or run."""
        return sum(self.jobs[state] for state in _UNFINISHED)

    @property
    def has_ended(self) -> bool:
        """All that was enqueued has come to its end, and no more will be: there is nothing to cancel."""
        return self.filled_at is not None and not self.cancelling and not self.jobs_left

    @property
    def progress(self) -> float:
        """The share of its documents that is done, 0 to 1; of none it is 1."""
        return self.documents_done / self.documents if self.documents else 1.0

    @property
    def state(self) -> State:
        if self.cancelled_at is not None and not self.documents_left:
            return "cancelled"
        if self.cancelling:
            return "cancelling"
        if self.paused and self.documents_left:
            return "paused"
        if self.jobs[JobState.RUNNING]:
            return "running"
        return "waiting" if self.documents_left else "done"


@dataclass(frozen=True, slots=True)
class FailedJobs:
    """Jobs of a tenant and kind that were given up on with one code."""

    tenant: str
    kind: str
    failure_code: str
    jobs: int


@dataclass(frozen=True, slots=True)
class LeftJobs:
    """Jobs of a tenant and kind that have not come to an end, and that name one mode, or none.

    ``pages`` are those of the documents whose pages are known; ``pages_unknown`` counts the other documents.
    """

    tenant_id: int
    kind: str
    jobs: int
    pages: int
    pages_unknown: int
    mode: str | None


class Pace(NamedTuple):
    """So many documents came to an end in so many seconds."""

    documents: int
    seconds: float


class Used(NamedTuple):
    """What the attempts of a tenant and kind took lately, in worker seconds, and the pages they read.

    ``jobs`` ended after an attempt at least, ``completed`` of them well. Of ``pages_ocr``, which has failed pages too,
    ``pages_timed`` are pages that were recognised, and took ``seconds_ocr`` of all the seconds.
    """

    tenant_id: int
    kind: str
    seconds: float
    completed: int
    jobs: int
    pages_text: int
    pages_blank: int
    pages_ocr: int
    pages_timed: int
    seconds_ocr: float


class CampaignListing:
    """Statements that only read."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def page(
        self,
        connection: Connection[TupleRow],
        *,
        tenant: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Campaign]:
        """At most ``limit`` campaigns, the newest first, with ids below ``before``.

        Args:
            tenant: only campaigns that chose this tenant's documents alone, by its slug.
        """
        return self._campaigns(connection, {"campaign_id": None, "tenant": tenant, "before": before, "limit": limit})

    def one(self, connection: Connection[TupleRow], campaign_id: int) -> Campaign:
        """The campaign; raises UsageError when there is none."""
        values = {"campaign_id": campaign_id, "tenant": None, "before": None, "limit": 1}
        found = self._campaigns(connection, values)
        if not found:
            raise unknown_campaign(campaign_id)
        return found[0]

    def failures(self, connection: Connection[TupleRow], campaign_id: int) -> list[FailedJobs]:
        """What was given up on, the most frequent first."""
        cursor = connection.cursor(row_factory=class_row(FailedJobs))
        return cursor.execute(self._sql["campaign_failures"], {"campaign_id": campaign_id}).fetchall()

    def left(self, connection: Connection[TupleRow], campaign_id: int) -> list[LeftJobs]:
        """What waits, is held or runs."""
        cursor = connection.cursor(row_factory=class_row(LeftJobs))
        return cursor.execute(self._sql["campaign_left"], {"campaign_id": campaign_id}).fetchall()

    def pace(self, connection: Connection[TupleRow], campaign_id: int) -> Pace | None:
        """Documents of it that were done lately, over the last quarter of an hour; None of fewer than 5.

        Those that somebody cancelled were not.
        """
        values = {"campaign_id": campaign_id, "window": _WINDOW, "most": _MOST_LOOKED_AT}
        row = connection.execute(self._sql["campaign_pace"], values).fetchone()
        assert row is not None
        documents, seconds = row
        # The time begins with the end of the first of them.
        return Pace(documents - 1, seconds) if documents >= _FEWEST and seconds > 0 else None

    def past(self, connection: Connection[TupleRow], days: int) -> list[Used]:
        """What attempts took on the last ``days`` days, today's among them, by tenant and kind."""
        rows = connection.execute(self._sql["past_usage"], {"days": days}).fetchall()
        return [Used(*row) for row in rows]

    def slots(self, connection: Connection[TupleRow]) -> int:
        """The slots of all nodes that live."""
        row = connection.execute(self._sql["live_slots"]).fetchone()
        assert row is not None
        return int(row[0])

    def _campaigns(self, connection: Connection[TupleRow], values: Mapping[str, object]) -> list[Campaign]:
        cursor = connection.cursor(row_factory=dict_row)
        rows = cursor.execute(self._sql["list_campaigns"], values).fetchall()
        return [
            Campaign(**row | {"jobs": Counter({JobState(state): jobs for state, jobs in row["jobs"].items()})})
            for row in rows
        ]
