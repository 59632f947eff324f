"""A prune leaves the counts of campaigns as they were: also where documents have jobs that wait, and others prune."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from batchproc.core.outcome import Cancelled, Completed
from batchproc.database import SqlFolder
from batchproc.queue.campaign_listing import CampaignListing
from tests.queue.helpers import (
    CAMPAIGNS,
    Conn,
    add_document,
    add_tenant,
    claim_job,
    ended,
    enqueue,
    join,
    one,
    prune,
    state,
    wait_for_blocked,
)

Opened = Callable[[], Conn]
DAY = timedelta(days=1)
PATIENCE = 20.0
SQL = SqlFolder("batchproc.queue", "batchproc")
LISTING = CampaignListing("batchproc")


class Documents:
    """One document of each of some campaigns."""

    def __init__(self, connection: Conn, campaigns: int = 1) -> None:
        self.connection, self.node, self.tenant = connection, join(connection), add_tenant(connection)
        self.campaigns = [CAMPAIGNS.begin(connection, "reprocess", kind="work", scope={}) for _ in range(campaigns)]
        self.document = add_document(connection, self.tenant)

    def job(self, campaign: int | None = None) -> int:
        campaign_id = self.campaigns[0] if campaign is None else campaign
        return enqueue(self.connection, self.tenant, document_id=self.document, campaign_id=campaign_id)

    def cancelled(self, campaign: int | None = None) -> int:
        """A job that was cancelled long ago."""
        job_id = self.job(campaign)
        self.node.settle(self.connection, [ended(claim_job(self.connection, self.node, job_id), Cancelled())])
        self.connection.execute(
            "update batchproc.processing_jobs set finished_at = clock_timestamp() - interval '2 d' where job_id = %s",
            [job_id],
        )
        return job_id

    def counts(self) -> tuple[int, int]:
        """Documents that the first campaign has left, and those of it that were cancelled."""
        found = LISTING.one(self.connection, self.campaigns[0])
        return found.documents_left, found.documents_cancelled


@pytest.mark.parametrize("other_is", ["available", "scheduled", "held", "running"])
def test_a_document_that_is_left_is_not_counted_as_cancelled_too(connection: Conn, other_is: str) -> None:
    of = Documents(connection)
    cancelled, other = of.cancelled(), of.job()
    if other_is != "running":
        connection.execute("update batchproc.processing_jobs set state = %s where job_id = %s", [other_is, other])
    claim = claim_job(connection, of.node, other) if other_is == "running" else None
    before = of.counts()
    assert (before, str(state(connection, other))) == ((1, 0), other_is)
    raced = connection.execute(
        SQL["prune_jobs"], {"job_ids": [cancelled], "until": one(connection, "select clock_timestamp()")}
    )
    assert raced.fetchall() == [], "judged anew when it is locked"
    assert (prune(connection, DAY), of.counts()) == (0, before)
    if claim is None:
        return
    of.node.settle(connection, [ended(claim, Completed())])
    assert of.counts() == (0, 1)
    assert (prune(connection, DAY), of.counts()) == (1, (0, 1))


def test_what_was_cancelled_of_no_document_goes(connection: Conn) -> None:
    of = Documents(connection)
    of.cancelled()
    connection.execute("update batchproc.processing_jobs set document_id = null")
    of.job()
    assert (prune(connection, DAY), of.counts()) == (1, (1, 1))


def test_of_two_prunes_at_once_one_counts_the_document(connection: Conn, opened: Opened) -> None:
    of, other, third = Documents(connection), opened(), opened()
    first, _ = of.cancelled(), of.cancelled()
    values = {"job_ids": [first], "until": one(connection, "select clock_timestamp()")}
    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            other.execute(SQL["lock_campaigns"], values)
            other.execute(SQL["prune_jobs"], values)
            pruned = pool.submit(prune, third, DAY)
            wait_for_blocked(connection)
        assert pruned.result(PATIENCE) == 1
    assert of.counts() == (0, 1)


def test_campaigns_are_locked_in_one_order(connection: Conn, opened: Opened) -> None:
    """Else two prunes wait for each other. Also where a plan reads them as they lie in their table."""
    of, other, third = Documents(connection, campaigns=2), opened(), opened()
    first, second = of.campaigns
    for campaign in (second, first):
        of.cancelled(campaign)
    # Behind the second in the table.
    connection.execute("update batchproc.campaigns set command = command where campaign_id = %s", [first])
    for way in ("nestloop", "mergejoin", "indexscan", "bitmapscan", "indexonlyscan"):
        third.execute(f"set enable_{way} = off")
    lock = "select from batchproc.campaigns where campaign_id = %s for no key update nowait"
    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            other.execute(lock, [first])
            pruned = pool.submit(prune, third, DAY)
            wait_for_blocked(connection)
            connection.execute(lock, [second])
        assert pruned.result(PATIENCE) == 2
