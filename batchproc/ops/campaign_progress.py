"""How far a campaign is, what failed, and how long the rest of it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.ops.campaign_result import CampaignResult, of_campaign
from batchproc.ops.estimates import Estimates, work_left
from batchproc.queue.campaign_listing import Campaign, CampaignListing, FailedJobs
from batchproc.queue.nights import PAST_DAYS


@dataclass(frozen=True, slots=True)
class CampaignView:
    """A campaign as a person looks at it.

    ``pages_left``: those of documents nobody has read yet are guessed. ``worker_seconds``: what is left, of one worker;
    None where nothing tells. ``rate``: documents that were done a second, lately; None where too few were.
    ``seconds_left``: until it is done, as it goes or, by ``left_by``, as estimated for ``slots`` of the nodes that run
    and with nothing else to do; None where neither tells, or while it is paused.
    """

    campaign: Campaign
    failures: list[FailedJobs]
    pages_left: int
    worker_seconds: float | None
    slots: int
    rate: float | None
    seconds_left: float | None
    left_by: Literal["rate", "estimate"] | None
    result: CampaignResult


def look_at(connection: Connection[TupleRow], schema: str, campaign_id: int) -> CampaignView:
    """Reads all of it; raises UsageError when there is no such campaign."""
    listing = CampaignListing(schema)
    campaign = listing.one(connection, campaign_id)
    estimates = Estimates(listing.past(connection, PAST_DAYS) if campaign.documents_left else ())
    work = work_left(listing.left(connection, campaign_id)) if campaign.documents_left else []
    worker_seconds = estimates.seconds(work)
    slots, rate = listing.slots(connection), listing.rate(connection, campaign_id)
    seconds_left, left_by = _time_left(campaign, worker_seconds, slots, rate)
    return CampaignView(
        campaign=campaign,
        failures=listing.failures(connection, campaign_id),
        pages_left=round(sum(estimates.pages(part) for part in work if part.kind == "ocr")),
        worker_seconds=worker_seconds,
        slots=slots,
        rate=rate,
        seconds_left=seconds_left,
        left_by=left_by,
        result=of_campaign(connection, schema, campaign_id),
    )


def _time_left(
    campaign: Campaign, worker_seconds: float | None, slots: int, rate: float | None
) -> tuple[float | None, Literal["rate", "estimate"] | None]:
    if campaign.paused or not campaign.documents_left:
        return None, None
    if rate and slots:
        return campaign.documents_left / rate, "rate"
    if worker_seconds is not None and slots:
        return worker_seconds / min(slots, campaign.jobs_left), "estimate"
    return None, None
