"""What a report tells, as plain values: the text, the JSON and the page all show these and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from batchproc.ops import campaign_result
from batchproc.ops.campaign_result import CampaignResult


@dataclass(frozen=True)
class Subject:
    """What is reported on: a run or a campaign.

    Attributes:
        name: ``run 12`` or ``campaign 3``.
        command: what made the campaign, None of a run.
        finished_at: None while it goes on, or when nobody noted its end; ``goes_on`` tells these apart.
        seconds: from its start to its end, or to now; to the end of the last attempt of a run whose end nobody noted.
        slots: how many jobs a run could work on at a time; None of a campaign, and of a run of an older release.
        counts: jobs by what became of them; of a run also attempts, as its summary has them.
        left: jobs that still wait or run; None of a run that has not said so yet.
        pruned: attempts that the run had, or jobs of the campaign, which are no longer there to be counted.
    """

    name: str
    id: int
    command: str | None
    started_at: datetime
    finished_at: datetime | None
    goes_on: bool
    seconds: float
    exit_code: int | None
    slots: int | None
    counts: Mapping[str, int]
    left: int | None
    pruned: int = 0

    @property
    def clock_set_back(self) -> bool:
        """Whether it ended, by the clock, before it began, or before something of it did."""
        return self.finished_at is not None and (self.finished_at - self.started_at).total_seconds() < self.seconds


@dataclass(frozen=True)
class KindWork:
    """What was done of one kind. ``attempts`` of ``jobs``; ``seconds`` of workers.

    ``retried``: jobs of the ``discarded`` that somebody has retried since: what came of that is not in the report.
    """

    kind: str
    jobs: int
    attempts: int
    completed: int
    discarded: int
    pages: int
    failed_pages: int
    seconds: float
    retried: int = 0


@dataclass(frozen=True)
class TenantWork:
    """What one tenant got in one lane, and how long its jobs waited, in seconds: half of them, 19 of 20, all."""

    tenant: str
    lane: str
    jobs: int
    completed: int
    discarded: int
    pages: int
    failed_pages: int
    seconds: float
    wait_median: float
    wait_95: float
    wait_longest: float


@dataclass(frozen=True)
class Stretch:
    """A stretch of time, beginning ``at`` seconds after the start, by kind: what ended, and seconds of busy workers."""

    at: float
    completed: Mapping[str, int]
    discarded: int
    pages: int
    busy: Mapping[str, float]


@dataclass(frozen=True)
class FailureExample:
    """One of the jobs of a group of failures. ``path``: as JSON shows paths. ``now``: what the job is if somebody has
    retried it since, its state and code."""

    job_id: int
    kind: str
    document_id: int | None
    path: str | None
    detail: str | None
    now: str | None = None


@dataclass(frozen=True)
class FailureGroup:
    """Failures of one tenant with one code; ``partial``: documents whose first failed page has that code."""

    tenant: str
    failure_code: str
    partial: bool
    jobs: int
    failed_pages: int
    advice: str
    examples: tuple[FailureExample, ...]


@dataclass(frozen=True)
class Retried:
    """Attempts that failed, and whose jobs were tried again."""

    kind: str
    failure_code: str
    attempts: int
    seconds: float


@dataclass(frozen=True)
class SlowDocument:
    """A document, and what all of its jobs took of the workers' time."""

    tenant: str
    document_id: int
    path: str
    status: str
    failure_code: str | None
    attempts: int
    pages: int | None
    seconds: float


@dataclass(frozen=True)
class Report:
    """A report on a run or a campaign.

    Attributes:
        width: seconds of a stretch.
        failure_groups: how many there are, with those that are left out here.
        result: what became of the texts that the documents had before.
    """

    subject: Subject
    kinds: tuple[KindWork, ...]
    tenants: tuple[TenantWork, ...]
    width: float
    stretches: tuple[Stretch, ...]
    failures: tuple[FailureGroup, ...]
    failure_groups: int
    retried: tuple[Retried, ...]
    slowest: tuple[SlowDocument, ...]
    result: CampaignResult

    @property
    def pages(self) -> int:
        return sum(kind.pages for kind in self.kinds)

    @property
    def failed_pages(self) -> int:
        return sum(kind.failed_pages for kind in self.kinds)

    @property
    def retried_since(self) -> int:
        """Jobs that were given up on and that somebody has retried since."""
        return sum(kind.retried for kind in self.kinds)

    @property
    def busy(self) -> float:
        """Seconds of workers that were spent on jobs."""
        return sum(kind.seconds for kind in self.kinds)

    @property
    def slot_use(self) -> float | None:
        """The share of its workers' time that a run spent on jobs, 0 to 1."""
        subject = self.subject
        if not subject.slots or subject.seconds <= 0:
            return None
        return min(1.0, self.busy / (subject.slots * subject.seconds))

    def plain(self) -> dict[str, Any]:
        """Everything under its stable keys, ready for JSON but for times."""
        own = replace(self, result=CampaignResult())
        return asdict(own) | {
            "result": campaign_result.plain(self.result),
            "pages": self.pages,
            "failed_pages": self.failed_pages,
            "retried_since": self.retried_since,
            "worker_seconds": self.busy,
            "slot_use": self.slot_use,
        }
