"""How far a campaign is, what failed, and how long the rest of it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.throughput import LEAST_SECONDS
from batchproc.ops.campaign_result import CampaignResult, of_campaign
from batchproc.ops.estimates import Estimate, estimated, work_left
from batchproc.queue.campaign_listing import Campaign, CampaignListing, FailedJobs, Pace


@dataclass(frozen=True, slots=True)
class CampaignView:
    """A campaign as a person looks at it.

    ``left``: what is left of it. ``slots`` of the nodes that run. ``pace``: documents that were done lately; None where
    too few were. ``seconds_left``: until it is done, by ``left_by`` as it goes while a node runs, or as estimated; None
    where neither tells, or while it is paused.
    """

    campaign: Campaign
    failures: list[FailedJobs]
    left: Estimate
    slots: int
    pace: Pace | None
    seconds_left: float | None
    left_by: Literal["rate", "estimate"] | None
    result: CampaignResult


def look_at(connection: Connection[TupleRow], schema: str, campaign_id: int, *, workers: int) -> CampaignView:
    """Reads all of it; raises UsageError when there is no such campaign.

    Args:
        workers: as of ``estimated``.
    """
    listing = CampaignListing(schema)
    campaign = listing.one(connection, campaign_id)
    work = work_left(listing.left(connection, campaign_id)) if campaign.documents_left else []
    left = estimated(connection, schema, work, workers=workers)
    slots, pace = listing.slots(connection), listing.pace(connection, campaign_id)
    seconds_left, left_by = _time_left(campaign, left, pace if slots else None)
    return CampaignView(
        campaign=campaign,
        failures=listing.failures(connection, campaign_id),
        left=left,
        slots=slots,
        pace=pace,
        seconds_left=seconds_left,
        left_by=left_by,
        result=of_campaign(connection, schema, campaign_id),
    )


def _time_left(
    campaign: Campaign, left: Estimate, pace: Pace | None
) -> tuple[float | None, Literal["rate", "estimate"] | None]:
    if campaign.paused or not campaign.documents_left:
        return None, None
    if pace is not None and pace.seconds >= LEAST_SECONDS:
        return campaign.documents_left * pace.seconds / pace.documents, "rate"
    return left.seconds, None if left.seconds is None else "estimate"
