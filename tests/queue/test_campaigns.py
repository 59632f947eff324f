"""Campaigns as they are made and looked at: what is done, left, failed and cancelled, and how fast it goes."""

from __future__ import annotations

import pytest

from batchproc.core.errors import UsageError
from batchproc.core.job import JobState, NewJob
from batchproc.queue import campaigns
from batchproc.queue.campaign_listing import Campaign, CampaignListing, LeftJobs, Pace
from batchproc.queue.changing import Changing
from tests.queue.helpers import (
    CAMPAIGNS,
    STORE,
    Conn,
    add_document,
    add_tenant,
    ended,
    enqueue,
    failed,
    join,
    one,
    running,
    state,
)

LISTING = CampaignListing("batchproc")


def begin(connection: Conn, documents: int = 0, tenant: str | None = None) -> int:
    scope = {} if tenant is None else {"tenant": tenant}
    made = CAMPAIGNS.begin(connection, "reprocess --all", kind="work", scope=scope)
    CAMPAIGNS.grow(connection, made, documents)
    return made


def look(connection: Conn, campaign_id: int) -> Campaign:
    return LISTING.one(connection, campaign_id)


def test_a_campaign_grows_until_it_is_cancelled(connection: Conn) -> None:
    made = begin(connection, 3)
    CAMPAIGNS.grow(connection, made, 4)
    found = look(connection, made)
    assert (found.documents, found.kind, found.tenant, found.filled_at) == (7, "work", None, None)
    CAMPAIGNS.fill(connection, made)
    assert look(connection, made).filled_at is not None
    CAMPAIGNS.mark_cancelled(connection, made, cancelled=True)
    with pytest.raises(UsageError, match=f"campaign {made} was cancelled while this command still added to it"):
        CAMPAIGNS.grow(connection, made, 1)
    CAMPAIGNS.mark_cancelled(connection, made, cancelled=False)
    CAMPAIGNS.grow(connection, made, 1)
    assert look(connection, made).documents == 8


def test_cancelling_ends_a_pause_and_is_remembered_from_the_first_time(connection: Conn) -> None:
    made = begin(connection)
    STORE.hold(connection, made)
    CAMPAIGNS.mark_cancelled(connection, made, cancelled=True)
    first = look(connection, made)
    assert (first.paused, first.state) == (False, "cancelled")
    CAMPAIGNS.mark_cancelled(connection, made, cancelled=True)
    assert look(connection, made).cancelled_at == first.cancelled_at
    with pytest.raises(UsageError, match="there is no campaign 4711: see: batchproc campaigns list"):
        CAMPAIGNS.mark_cancelled(connection, 4711, cancelled=True)


def test_a_document_is_left_while_any_job_of_it_is(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    documents = [add_document(connection, tenant) for _ in range(4)]
    made = begin(connection, 4)
    completed = running(connection, node, tenant, document_id=documents[0], campaign_id=made)
    given_up = running(connection, node, tenant, document_id=documents[1], campaign_id=made, max_attempts=1)
    node.settle(connection, [ended(completed), ended(given_up, failed())])
    enqueue(connection, tenant, "other", document_id=documents[0], campaign_id=made)  # what follows it
    running(connection, node, tenant, document_id=documents[2], campaign_id=made)
    [cancelled] = [enqueue(connection, tenant, document_id=documents[3], campaign_id=made)]
    STORE.cancel(connection, [cancelled])

    found = look(connection, made)

    assert (found.documents_left, found.documents_cancelled, found.documents_done) == (2, 1, 1)
    assert (found.failed, found.jobs_left, found.progress) == (1, 2, 0.25)
    assert found.state == "running"
    counts = {JobState.COMPLETED: 1, JobState.DISCARDED: 1, JobState.AVAILABLE: 1, JobState.RUNNING: 1}
    assert dict(found.jobs) == counts | {JobState.CANCELLED: 1}
    [failure] = LISTING.failures(connection, made)
    assert (failure.tenant, failure.kind, failure.failure_code, failure.jobs) == ("acme", "work", "own_code", 1)


def test_of_what_completed_before_it_was_stopped_nothing_is_cancelled(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    made = begin(connection, 1)
    claim = running(connection, node, tenant, campaign_id=made)
    CAMPAIGNS.fill(connection, made)
    CAMPAIGNS.mark_cancelled(connection, made, cancelled=True)
    assert look(connection, made).state == "cancelling"
    node.settle(connection, [ended(claim)])
    node.put_right(connection)
    found = look(connection, made)
    assert (found.state, found.cancelled_at, found.cancelling) == ("done", None, False)


def test_what_gave_way_to_another_job_is_neither_cancelled_nor_left(connection: Conn) -> None:
    tenant = add_tenant(connection)
    made = begin(connection, 1)
    enqueue(connection, tenant, document_id=add_document(connection, tenant), campaign_id=made)
    connection.execute(
        "update batchproc.processing_jobs set state = 'cancelled', failure_code = 'superseded', finished_at = now()"
    )
    found = look(connection, made)
    assert (found.documents_cancelled, found.documents_done, found.state) == (0, 1, "done")


@pytest.mark.parametrize(("then", "told"), [("hold", "paused"), ("release", "waiting")])
def test_the_state_tells_of_a_pause(connection: Conn, then: str, told: str) -> None:
    tenant = add_tenant(connection)
    made = begin(connection, 1)
    enqueue(connection, tenant, document_id=add_document(connection, tenant), campaign_id=made)
    STORE.hold(connection, made)
    if then == "release":
        STORE.release(connection, made)
    assert look(connection, made).state == told


def test_what_a_prune_deletes_stays_done(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    made = begin(connection, 1)
    done = running(connection, node, tenant, document_id=add_document(connection, tenant), campaign_id=made)
    node.settle(connection, [ended(done)])
    connection.execute("delete from batchproc.processing_jobs")
    found = look(connection, made)
    assert (found.documents, found.documents_done, found.progress, found.state) == (1, 1, 1.0, "done")


def test_a_campaign_of_an_older_release_counts_the_documents_of_its_jobs(connection: Conn) -> None:
    tenant = add_tenant(connection)
    made = int(one(connection, "insert into batchproc.campaigns (command) values ('old') returning campaign_id"))
    document = add_document(connection, tenant)
    for kind in ("work", "other"):
        enqueue(connection, tenant, kind, document_id=document, campaign_id=made)
    found = look(connection, made)
    assert (found.documents, found.documents_left, found.kind) == (1, 1, None)


def test_they_are_listed_page_by_page_the_newest_first(connection: Conn) -> None:
    first, second, third = begin(connection), begin(connection, tenant="acme"), begin(connection, tenant="beta")
    listed = [found.campaign_id for found in LISTING.page(connection)]
    assert listed == [third, second, first]
    assert [found.campaign_id for found in LISTING.page(connection, before=third, limit=1)] == [second]
    assert [found.campaign_id for found in LISTING.page(connection, tenant="acme")] == [second]
    with pytest.raises(UsageError, match="there is no campaign 4711"):
        LISTING.one(connection, 4711)


def test_what_is_left_is_told_in_jobs_and_pages(connection: Conn) -> None:
    tenant = add_tenant(connection)
    made = begin(connection, 3)
    known, partial, unknown = (add_document(connection, tenant) for _ in range(3))
    connection.execute("update batchproc.documents set page_count = 12 where document_id <> %s", [unknown])
    revision = one(
        connection,
        """
        insert into batchproc.ocr_revisions (tenant_id, document_id, state, engine, engine_version, data_hash, profile,
                                             languages, source_sha256, page_count, failed_pages)
        values (%s, %s, 'complete', 'given', '1', '', '{}', '{}', '', 12, 2) returning revision_id
        """,
        [tenant, partial],
    )
    connection.execute(
        "update batchproc.documents set current_revision = %s where document_id = %s", [revision, partial]
    )
    enqueue(connection, tenant, document_id=known, campaign_id=made)
    enqueue(connection, tenant, document_id=partial, campaign_id=made, args={"pages": "failed"})
    enqueue(connection, tenant, document_id=unknown, campaign_id=made)
    enqueue(connection, tenant, "other", document_id=known, campaign_id=made, args={"range": [5, 9]})
    enqueue(connection, tenant, "once", document_id=known, campaign_id=made, args={"range": "join"})
    enqueue(connection, tenant, "forced", document_id=known, campaign_id=made, args={"mode": "force"})
    left = {part.kind: part for part in LISTING.left(connection, made)}
    assert left["work"] == LeftJobs(tenant, "work", 3, 12 + 2, 1, None)
    assert left["forced"] == LeftJobs(tenant, "forced", 1, 12, 0, "force")
    assert left["other"].pages == 5
    assert left["once"].pages == 0


def test_the_rate_is_that_of_its_own_documents_lately(connection: Conn) -> None:
    tenant = add_tenant(connection)
    made, other = begin(connection, 9), begin(connection, 9)
    for campaign, count in ((made, 7), (other, 6)):
        STORE.enqueue_many(
            connection,
            [
                NewJob(tenant, "work", document_id=add_document(connection, tenant), campaign_id=campaign)
                for _ in range(count)
            ],
        )
    assert LISTING.pace(connection, made) is None
    connection.execute(
        """
        update batchproc.processing_jobs j
        set state = 'completed', finished_at = clock_timestamp() - (interval '10 s' * (j.job_id - first.job_id))
        from (select campaign_id, min(job_id) as job_id from batchproc.processing_jobs group by 1) first
        where j.campaign_id = first.campaign_id and j.campaign_id = %s
        """,
        [made],
    )
    # The first of seven came to its end a minute ago.
    assert LISTING.pace(connection, made) == pytest.approx(Pace(6, 60.0), rel=0.1)
    assert LISTING.pace(connection, other) is None
    connection.execute("update batchproc.processing_jobs set finished_at = finished_at - interval '15 min'")
    assert LISTING.pace(connection, made) is None, "that was long ago"


def test_what_was_cancelled_is_no_progress(connection: Conn) -> None:
    """Nor is what was done of a document before the rest of it was cancelled; a superseded job cancels nothing."""
    tenant = add_tenant(connection)
    made = begin(connection, 30)
    documents = [add_document(connection, tenant) for _ in range(30)]
    for _ in range(2):
        jobs = [NewJob(tenant, "work", document_id=document, campaign_id=made) for document in documents]
        STORE.enqueue_many(connection, jobs)
    connection.execute(
        """
        update batchproc.processing_jobs j
        set finished_at = clock_timestamp() - interval '10 s' * case when place <= 6 then place else 0 end,
            state = case when place > 6 and not is_first or place = 1 and is_first
                    then 'cancelled' else 'completed' end,
            failure_code = case when place = 1 and is_first then 'superseded' end
        from (select job_id, dense_rank() over (order by document_id) as place,
                     row_number() over (partition by document_id order by job_id) = 1 as is_first
              from batchproc.processing_jobs) placed
        where j.job_id = placed.job_id
        """
    )
    assert LISTING.pace(connection, made) == pytest.approx(Pace(5, 60.0), rel=0.1)


def test_usage_of_the_last_days_is_summed_by_tenant_and_kind(connection: Conn) -> None:
    tenant = add_tenant(connection)
    connection.execute(
        """
        insert into batchproc.usage_daily (tenant_id, day, kind, worker_seconds, attempts, completed, discarded,
                                           pages_text, pages_ocr, pages_blank, pages_failed, pages_timed, seconds_ocr)
        select %s, (clock_timestamp() at time zone 'UTC')::date - age, 'work', 10, 9, 4, 1, 3, 5, 2, 1, 4, 7.5
        from unnest(array[0, 29, 30]) age
        """,
        [tenant],
    )
    [used] = LISTING.past(connection, 30)
    assert used == (tenant, "work", 20.0, 8, 10, 6, 4, 12, 8, 15.0)
    assert LISTING.slots(connection) == 0
    join(connection)
    assert LISTING.slots(connection) == one(connection, "select slots from batchproc.nodes")


def test_jobs_that_are_given_up_on_by_hand_make_no_average_smaller(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    for code in (None, "own_code"):
        job = running(connection, node, tenant, max_attempts=1)
        node.settle(connection, [ended(job, None if code is None else failed(code=code))])
    waiting = [enqueue(connection, tenant) for _ in range(9)]
    Changing("batchproc").discard(connection, waiting, failing_kinds=(), told={})
    assert one(connection, "select sum(discarded) from batchproc.usage_daily") == 10, "they count as given up on"
    [used] = LISTING.past(connection, 30)
    assert (used.completed, used.jobs) == (1, 2)


def test_failed_jobs_come_in_batches_and_by_code(connection: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "_BATCH", 2)
    tenant, node = add_tenant(connection), join(connection)
    made = begin(connection, 5)
    claimed = [running(connection, node, tenant, campaign_id=made, max_attempts=1) for _ in range(4)]
    codes = ("own_code", "own_code", "other_code", "other_code")
    node.settle(connection, [ended(job, failed(code=code)) for job, code in zip(claimed, codes, strict=True)])
    waiting = enqueue(connection, tenant, campaign_id=made)
    STORE.cancel(connection, [waiting])
    assert state(connection, claimed[0].job_id) is JobState.DISCARDED

    both = (JobState.DISCARDED, JobState.CANCELLED)
    batches = list(CAMPAIGNS.failed(connection, made, states=both))
    assert [[job.job_id for job in batch] for batch in batches] == [
        [job.job_id for job in claimed[:2]],
        [job.job_id for job in claimed[2:]],
        [waiting],
    ]
    [named] = CAMPAIGNS.failed(connection, made, states=both, failure_codes=["other_code"])
    assert {job.job_id for job in named} == {job.job_id for job in claimed[2:]}
    connection.execute("update batchproc.processing_jobs set failure_code = 'superseded' where state = 'cancelled'")
    assert list(CAMPAIGNS.failed(connection, made, states=[JobState.CANCELLED])) == []
    assert list(CAMPAIGNS.unfinished(connection, made)) == []
