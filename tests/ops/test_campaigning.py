"""Campaigns as a whole: made with their first job, cancelled to the last one, and retried but for what is hopeless."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from batchproc.core.errors import UsageError
from batchproc.core.job import JobState, Lane
from batchproc.core.outcome import Completed, FollowUp
from batchproc.database import connect
from batchproc.documents.selection import Filter
from batchproc.engine.node import RunOptions
from batchproc.handlers import registry
from batchproc.ops import reprocessing
from batchproc.ops.campaign_progress import look_at
from batchproc.ops.campaigning import CampaignCancelled, Campaigning, CampaignMaking
from batchproc.ops.reprocessing import Reprocessed, Reprocessing, Wish
from batchproc.queue import campaigns
from batchproc.queue.campaign_listing import CampaignListing
from batchproc.queue.store import JobStore
from tests.engine.running import Bench, bench_on
from tests.faults.meanwhile import meanwhile
from tests.handlers.running_job import Conn, add_document, add_tenant
from tests.queue.helpers import add_tenant as queue_tenant
from tests.queue.helpers import ended, enqueue, failed, join, one, retry, running, state
from tests.waiting import wait_until

JOBS = JobStore("batchproc")
WORK = Campaigning(JOBS)
LISTING = CampaignListing("batchproc")
KINDS = registry.load()


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


def making(command: str = "reprocess --all") -> CampaignMaking:
    return CampaignMaking("batchproc", command, "ocr", "acme")


def begun(connection: Conn, documents: int = 0) -> int:
    made = making()
    with made.transaction(connection):
        campaign_id = made.begun(connection)
        made.grow(connection, documents)
    assert campaign_id is not None
    return campaign_id


def grow_in_vain(connection: Conn, made: CampaignMaking) -> None:
    with suppress(RuntimeError), made.transaction(connection):
        made.grow(connection, 3)
        raise RuntimeError


def reprocess() -> Reprocessing:
    return Reprocessing(JOBS, KINDS["ocr"], Wish("ocr", {}, Lane.BULK), "reprocess --all")


# -- making one


def test_without_jobs_there_is_no_campaign(connection: Conn) -> None:
    made = making()
    made.grow(connection, 0)
    made.finish(connection)
    assert (made.campaign_id, LISTING.page(connection)) == (None, [])


def test_without_a_command_there_is_none_either(connection: Conn) -> None:
    made = CampaignMaking("batchproc", None, "ocr", "acme")
    with made.transaction(connection):
        assert made.begun(connection) is None
        made.grow(connection, 3)
    made.finish(connection)
    assert made.campaign_id is None
    assert one(connection, "select count(*) from batchproc.campaigns") == 0


def test_one_that_was_begun_in_a_transaction_that_failed_is_begun_again(connection: Conn) -> None:
    made = making()
    grow_in_vain(connection, made)
    assert LISTING.page(connection) == []
    with made.transaction(connection):
        made.grow(connection, 2)
    grow_in_vain(connection, made)
    made.finish(connection)
    [found] = LISTING.page(connection)
    assert (found.campaign_id, found.documents, found.tenant) == (made.campaign_id, 2, "acme")
    assert found.filled_at is not None


def test_a_reprocess_counts_its_documents_and_tells_when_it_has_seen_all(
    connection: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reprocessing, "_BATCH", 2)
    tenant = add_tenant(connection)
    for number in range(5):
        add_document(connection, tenant, content=bytes([number]))
    told: list[int] = []
    done = reprocess().run(connection, Filter(), told=lambda now: told.append(now.enqueued))
    assert told == [2, 4, 5]
    assert done.campaign_id is not None
    found = LISTING.one(connection, done.campaign_id)
    assert (found.documents, found.documents_left, found.kind) == (5, 5, "ocr")
    assert found.filled_at is not None


def test_a_reprocess_ends_when_somebody_cancels_its_campaign(connection: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reprocessing, "_BATCH", 2)
    tenant = add_tenant(connection)
    for number in range(5):
        add_document(connection, tenant, content=bytes([number]))

    def cancel(done: Reprocessed) -> None:
        assert done.campaign_id is not None
        WORK.cancel(connection, done.campaign_id)

    with pytest.raises(UsageError, match="was cancelled while this command still added to it"):
        reprocess().run(connection, Filter(), told=cancel)

    [found] = LISTING.page(connection)
    assert (found.documents, found.documents_cancelled, found.jobs_left) == (2, 2, 0)
    assert found.filled_at is None
    assert one(connection, "select count(*) from batchproc.processing_jobs") == 2


# -- cancelling and retrying


def test_all_that_waits_is_cancelled_batch_by_batch_and_nothing_else(
    connection: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaigns, "_BATCH", 3)
    tenant = queue_tenant(connection)
    mine, other = begun(connection, 4), begun(connection, 1)
    jobs = [enqueue(connection, tenant, campaign_id=mine) for _ in range(3)]
    held = enqueue(connection, tenant, campaign_id=mine)
    JOBS.hold(connection, mine)
    elsewhere = enqueue(connection, tenant, campaign_id=other)
    assert WORK.cancel(connection, mine) == CampaignCancelled(4, 0, 0)
    assert {state(connection, job) for job in [*jobs, held]} == {JobState.CANCELLED}
    assert state(connection, elsewhere) is JobState.AVAILABLE
    assert WORK.cancel(connection, mine) == CampaignCancelled(0, 0, 0)


@pytest.mark.parametrize("paused", [False, True])
def test_a_cancel_that_is_killed_is_finished_by_whichever_node_runs(
    connection: Conn, monkeypatch: pytest.MonkeyPatch, paused: bool
) -> None:
    """Of a paused campaign above all: the cancel ends the pause, and what it held must not begin."""
    tenant, node = queue_tenant(connection), join(connection)
    mine, other = begun(connection, 6), begun(connection, 1)
    at_work = running(connection, node, tenant, campaign_id=mine)
    jobs = [enqueue(connection, tenant, campaign_id=mine) for _ in range(5)]
    elsewhere = enqueue(connection, tenant, campaign_id=other)
    if paused:
        JOBS.hold(connection, mine)
        JOBS.hold(connection, other)
    work = Campaigning(JOBS)
    monkeypatch.setattr(work._campaigns, "unfinished", lambda *_: _killed_after(jobs[0]))
    with pytest.raises(_KilledError):
        work.cancel(connection, mine)
    assert state(connection, jobs[1]) is (JobState.HELD if paused else JobState.AVAILABLE)
    assert LISTING.one(connection, mine).state == "cancelling"

    assert node.put_right(connection) == []

    assert {state(connection, job) for job in jobs} == {JobState.CANCELLED}
    assert node.cancel_requested(connection) == [at_work]
    assert state(connection, elsewhere) is (JobState.HELD if paused else JobState.AVAILABLE)
    assert LISTING.one(connection, mine).state == "cancelling", "one still runs"
    node.settle(connection, [ended(at_work, Completed(follow_ups=(FollowUp("other"),)))])
    for _ in range(2):
        node.put_right(connection)
    found = LISTING.one(connection, mine)
    assert (found.state, found.jobs_left, found.cancelling) == ("cancelled", 0, False)
    # It is over: what somebody retries then by itself is his, and runs.
    retry(connection, [jobs[0]])
    assert node.put_right(connection) == []
    assert state(connection, jobs[0]) is JobState.AVAILABLE


def test_what_a_settle_holds_of_a_cancelled_campaign_is_cancelled(connection: Conn) -> None:
    """Its snapshot was older than the cancel, which had ended the pause."""
    tenant, node = queue_tenant(connection), join(connection)
    mine = begun(connection, 1)
    WORK.cancel(connection, mine)
    job = enqueue(connection, tenant, campaign_id=mine)
    connection.execute("update batchproc.processing_jobs set state = 'held' where job_id = %s", [job])
    assert node.put_right(connection) == []
    assert state(connection, job) is JobState.CANCELLED


def test_a_retry_before_the_cancel_was_finished_takes_all_of_it_back(
    connection: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, node = queue_tenant(connection), join(connection)
    mine = begun(connection, 3)
    jobs = [enqueue(connection, tenant, campaign_id=mine) for _ in range(3)]
    JOBS.hold(connection, mine)
    work = Campaigning(JOBS)
    monkeypatch.setattr(work._campaigns, "unfinished", lambda *_: _killed_after(jobs[0]))
    with pytest.raises(_KilledError):
        work.cancel(connection, mine)
    assert WORK.retry(connection, mine).retried == 1
    node.put_right(connection)
    assert {state(connection, job) for job in jobs} == {JobState.AVAILABLE}


class _KilledError(BaseException):
    """The end of a process, as its kill would be."""


def _killed_after(job_id: int) -> Iterator[list[int]]:
    yield [job_id]
    raise _KilledError


def test_a_job_whose_node_does_not_stop_it_is_told_of(connection: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchproc.ops.changing_jobs.KILLED_WITHIN", 0.1)
    tenant, node = queue_tenant(connection), join(connection)
    mine = begun(connection, 1)
    claimed = running(connection, node, tenant, campaign_id=mine)
    assert WORK.cancel(connection, mine) == CampaignCancelled(0, 1, 0)
    assert state(connection, claimed.job_id) is JobState.RUNNING


def test_what_is_hopeless_is_left_alone_unless_it_is_named(connection: Conn) -> None:
    tenant, node = queue_tenant(connection), join(connection)
    mine = begun(connection, 3)
    codes = ("encrypted", "crashed_badly", "encrypted")
    claimed = [running(connection, node, tenant, campaign_id=mine, max_attempts=1) for _ in codes]
    node.settle(connection, [ended(job, failed(code=code)) for job, code in zip(claimed, codes, strict=True)])
    planned = WORK.retry(connection, mine, dry=True)
    assert (planned.retried, planned.left_alone) == (1, {"encrypted": 2})
    assert state(connection, claimed[1].job_id) is JobState.DISCARDED
    assert WORK.retry(connection, mine) == planned
    assert [str(state(connection, job.job_id)) for job in claimed] == ["discarded", "available", "discarded"]
    named = WORK.retry(connection, mine, failure_codes=["encrypted"])
    assert (named.retried, named.left_alone) == (2, {})


def test_a_retry_takes_a_cancel_back(connection: Conn) -> None:
    tenant = queue_tenant(connection)
    mine = begun(connection, 2)
    jobs = [enqueue(connection, tenant, campaign_id=mine) for _ in range(2)]
    WORK.cancel(connection, mine)
    assert LISTING.one(connection, mine).state == "cancelled"
    assert WORK.retry(connection, mine).retried == 2
    assert {state(connection, job) for job in jobs} == {JobState.AVAILABLE}
    found = LISTING.one(connection, mine)
    assert (found.state, found.cancelled_at, found.documents_left) == ("waiting", None, 2)


def test_a_retry_leaves_alone_what_another_job_does(connection: Conn) -> None:
    tenant = queue_tenant(connection)
    mine = begun(connection, 1)
    job = enqueue(connection, tenant, campaign_id=mine, unique_key="same")
    WORK.cancel(connection, mine)
    enqueue(connection, tenant, unique_key="same")
    done = WORK.retry(connection, mine)
    assert (done.retried, done.superseded) == (0, 1)
    assert state(connection, job) is JobState.CANCELLED


def test_a_campaign_that_does_not_exist_is_named(connection: Conn) -> None:
    for change in (WORK.cancel, WORK.retry):
        with pytest.raises(UsageError, match="there is no campaign 4711"):
            change(connection, 4711)
    with pytest.raises(UsageError, match="there is no campaign 4711"):
        look_at(connection, "batchproc", 4711, workers=1)


# -- with a node


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    made = bench_on(database_url)
    yield made
    made.connection.close()


def test_what_runs_is_killed_and_what_follows_never_begins(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    mine = begun(bench.connection, 9)
    pids = tmp_path / "pids"
    jobs = [bench.enqueue(tenant, "b_tree", {"file": str(pids)}, priority=1, campaign_id=mine)]
    jobs += [bench.enqueue(tenant, "t_echo", {"word": "one"}, priority=2, campaign_id=mine) for _ in range(5)]
    waiting = [bench.enqueue(tenant, "b_waits", {"file": "/nowhere"}, priority=9, campaign_id=mine) for _ in range(3)]
    found: list[CampaignCancelled] = []
    seconds: list[float] = []

    def cancel() -> None:
        wait_until(lambda: bench.job(jobs[0])["state"] == "running" and pids.exists() and pids.read_text(), 60)
        begun_at = time.monotonic()
        found.append(WORK.cancel(bench.connection, mine))
        seconds.append(time.monotonic() - begun_at)

    with meanwhile(cancel):
        bench.run(RunOptions(workers=2), handlers=["tests.engine.job_handlers", "tests.faults.budget_handlers"])

    assert bench.job(jobs[0])["state"] == "cancelled"
    assert {bench.job(job)["state"] for job in waiting} == {"cancelled"}
    assert found[0].requested == found[0].unwritten == 0
    assert seconds[0] < 3.0, "a second to kill, and some looks"
    counted = LISTING.one(bench.connection, mine)
    assert (counted.jobs_left, counted.state) == (0, "cancelled")
    assert counted.jobs[JobState.CANCELLED] == found[0].cancelled
