"""A campaign is reverted: who gets which text back, and whose stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from batchproc.core.errors import UsageError
from batchproc.core.job import NewJob
from batchproc.database import connect
from batchproc.documents.current_revision import CurrentRevision, Origin, Retention
from batchproc.ops.reverting import Reverted, Reverting
from batchproc.queue.campaigns import Campaigns
from batchproc.queue.store import JobStore
from tests.documents.revising import FAILED, Revising, page, without_sums
from tests.handlers.running_job import Conn, add_document, add_tenant
from tests.queue.helpers import CAMPAIGNS

STORE = JobStore("batchproc")


@pytest.fixture
def opened(database_url: str) -> Iterator[Callable[[], Conn]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(connect(database_url))


@pytest.fixture
def archive(opened: Callable[[], Conn]) -> Archive:
    return Archive(opened())


class Archive:
    """Documents that a campaign has read."""

    def __init__(self, connection: Conn) -> None:
        self.connection = connection
        self.tenant = add_tenant(connection)
        self.campaign = CAMPAIGNS.begin(connection, "reprocess --all")
        self.read = Origin(campaign_id=self.campaign)
        self._documents = 0

    def document(self, tenant: int | None = None) -> Revising:
        self._documents += 1
        tenant = self.tenant if tenant is None else tenant
        content = self._documents.to_bytes(4, "big")
        return Revising(self.connection, tenant, add_document(self.connection, tenant, content=content))

    def read_again(self, tenant: int | None = None) -> tuple[Revising, int, int]:
        """A document, its revision from before, and the campaign's."""
        document = self.document(tenant)
        before, _ = document.read(page("old"))
        after, _ = document.read(page("new"), page("more"), origin=self.read)
        return document, before, after

    def reverting(self, campaign: int | None = None) -> Reverting:
        return Reverting(STORE, self.campaign if campaign is None else campaign, "ada", None)

    def revert(self, campaign: int | None = None) -> Reverted:
        return self.reverting(campaign).run(self.connection)

    def restore(self, document: Revising, revision_id: int, tenant: int | None = None) -> None:
        current = CurrentRevision("batchproc", tenant_id=self.tenant if tenant is None else tenant)
        current.restore(self.connection, document.document_id, revision_id, restored_by="bob")

    def verdict(self, revision_id: int) -> tuple[str, str | None]:
        query = "select verdict, restored_by from batchproc.ocr_revisions where revision_id = %s"
        return self.connection.execute(query, [revision_id]).fetchall()[0]

    def jobs(self) -> list[Any]:
        query = "select kind, document_id, tenant_id, lane, campaign_id from batchproc.processing_jobs order by job_id"
        return self.connection.execute(query).fetchall()


def test_documents_get_back_the_revision_before_and_titles_follow(archive: Archive) -> None:
    beta = add_tenant(archive.connection, "beta")
    document, before, after = archive.read_again()
    other, other_before, _ = archive.read_again(beta)
    untouched = archive.document()
    untouched.read(page("not of the campaign"))
    assert archive.reverting().count(archive.connection) == Reverted(reverted=2)
    assert document.row()[0] == after, "a count changes nothing"
    done = archive.revert()
    assert (done.reverted, dict(done.stays)) == (2, {})
    assert document.row() == (before, "completed", 1, None)
    assert other.row() == (other_before, "completed", 1, None)
    assert archive.verdict(before) == ("reverted", "ada")
    assert archive.verdict(after) == ("newest", None)
    follow = done.campaign_id
    assert archive.jobs() == [
        ("classify", document.document_id, archive.tenant, 1, follow),
        ("classify", other.document_id, beta, 1, follow),
    ]
    again = archive.revert()
    assert (again.reverted, again.campaign_id, len(archive.jobs())) == (0, None, 2)


def test_what_was_changed_since_stays(archive: Archive) -> None:
    later, _, _ = archive.read_again()
    newest, _ = later.read(page("read by a later campaign"), origin=Origin(campaign_id=archive.campaign + 1))
    chosen, _, of_campaign = archive.read_again()
    archive.restore(chosen, chosen.left()[0])
    archive.restore(chosen, of_campaign)
    typed, _, _ = archive.read_again()
    typed_id = (
        CurrentRevision("batchproc", tenant_id=archive.tenant)
        .type(archive.connection, typed.document_id, ["typed"], source_sha256=b"s" * 32, typed_by="bob")
        .revision_id
    )
    done = archive.revert()
    assert (done.reverted, dict(done.stays)) == (0, {"person": 1})
    assert (later.row()[0], chosen.row()[0], typed.row()[0]) == (newest, of_campaign, typed_id)
    assert archive.jobs() == []


def test_a_first_text_stays_and_so_does_one_whose_revision_before_is_gone(archive: Archive) -> None:
    first = archive.document()
    only, _ = first.read(page("first"), origin=archive.read)
    gone, before, after = archive.read_again()
    archive.connection.execute("delete from batchproc.ocr_revisions where revision_id = %s", [before])
    done = archive.revert()
    assert (done.reverted, dict(done.stays)) == (0, {"first": 1, "gone": 1})
    assert (first.row()[0], gone.row()[0]) == (only, after)


def test_a_document_that_the_campaign_read_more_than_once_goes_back_to_what_was_before_it(archive: Archive) -> None:
    document = archive.document()
    before, _ = document.read(page("old"))
    for text in ("first try", "second try", "third try"):
        document.read(page(text), origin=archive.read)
    between = archive.document()
    between.read(page("old"))
    between.read(page("of the campaign"), origin=archive.read)
    elsewhere, _ = between.read(page("of nobody"))
    between.read(page("of the campaign again"), origin=archive.read)
    done = archive.revert()
    assert done.reverted == 2
    assert (document.row()[0], between.row()[0]) == (before, elsewhere)


def test_status_and_pages_are_those_of_the_revision_before(archive: Archive) -> None:
    partial = archive.document()
    partial.read(page("one"), FAILED)
    without_sums(archive.connection)  # as an older release had read it
    partial.read(page("one"), page("two"), page("three"), origin=archive.read)
    whole = archive.document()
    whole.read(page("one"))
    whole.read(FAILED, page("two"), origin=archive.read)
    failed, before, _ = archive.read_again()
    archive.connection.execute(
        "update batchproc.documents set status = 'failed', failure_code = 'source_changed' where document_id = %s",
        [failed.document_id],
    )
    assert archive.revert().reverted == 3
    assert partial.row()[1:] == ("partial", 2, None)
    assert whole.row()[1:] == ("completed", 1, None)
    assert failed.row() == (before, "failed", 1, "source_changed"), "no other text mends an original"


def test_a_text_that_a_person_had_chosen_before_stays_chosen(archive: Archive) -> None:
    document, before, _ = archive.read_again()
    archive.restore(document, before)
    later = CAMPAIGNS.begin(archive.connection, "reprocess --all")
    document.read(page("later"), origin=Origin(campaign_id=later))
    assert archive.revert(later).reverted == 1
    assert document.row()[0] == before
    assert archive.verdict(before) == ("restored", "bob")


def test_one_campaign_after_the_other_can_be_reverted(archive: Archive) -> None:
    document, before, after = archive.read_again()
    later = CAMPAIGNS.begin(archive.connection, "reprocess --all")
    document.read(page("later"), origin=Origin(campaign_id=later))
    assert archive.revert().reverted == 0, "its text is not the current one"
    assert archive.revert(later).reverted == 1
    assert document.row()[0] == after
    assert archive.revert().reverted == 1
    assert document.row()[0] == before


def test_a_pilot_has_nothing_to_revert(archive: Archive) -> None:
    document = archive.document()
    before, _ = document.read(page("old"))
    document.read(page("new"), origin=Origin(campaign_id=archive.campaign, pilot=True))
    assert archive.revert() == Reverted()
    assert document.row()[0] == before


def test_many_documents_go_back_in_small_batches(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchproc.ops.reverting._LOOKED_AT", 5)
    monkeypatch.setattr("batchproc.ops.reverting.BATCH", 2)
    read = [archive.read_again() for _ in range(12)]
    told: list[int] = []
    done = archive.reverting().run(archive.connection, told=lambda now: told.append(now.reverted))
    assert told == [2, 4, 5, 7, 9, 10, 12]
    assert done.reverted == 12
    assert [document.row()[0] for document, _, _ in read] == [before for _, before, _ in read]
    query = "select documents, filled_at is not null from batchproc.campaigns where campaign_id = %s"
    assert archive.connection.execute(query, [done.campaign_id]).fetchall() == [(12, True)]


def test_a_document_that_somebody_holds_is_passed_over_and_named(archive: Archive, opened: Callable[[], Conn]) -> None:
    held, _, after = archive.read_again()
    free, before, _ = archive.read_again()
    lock = "select 1 from batchproc.documents where document_id = %s for update"
    with opened() as other, other.transaction():
        other.execute(lock, [held.document_id])
        done = archive.revert()
    assert (done.reverted, dict(done.stays)) == (1, {"busy": 1})
    assert (held.row()[0], free.row()[0]) == (after, before)
    assert archive.revert().reverted == 1


def test_cut_short_it_goes_on_where_it_was(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchproc.ops.reverting.BATCH", 2)
    read = [archive.read_again() for _ in range(5)]

    def stop(now: Reverted) -> None:
        if now.reverted == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archive.reverting().run(archive.connection, told=stop)
    assert archive.revert().reverted == 1
    assert [document.row()[0] for document, _, _ in read] == [before for _, before, _ in read]
    assert [job[1] for job in archive.jobs()] == [document.document_id for document, _, _ in read]


def test_a_campaign_that_still_reads_is_not_reverted(archive: Archive) -> None:
    document, _, after = archive.read_again()
    new = NewJob(archive.tenant, "ocr", document_id=document.document_id, campaign_id=archive.campaign)
    job_id = STORE.enqueue(archive.connection, new).job_id
    for work in (archive.reverting().count, archive.reverting().run):
        with pytest.raises(UsageError, match=f"1 job of campaign {archive.campaign} is not over yet"):
            work(archive.connection)
    Campaigns("batchproc").hold(archive.connection, archive.campaign)
    with pytest.raises(UsageError, match="campaigns cancel"):
        archive.revert()
    assert document.row()[0] == after
    STORE.cancel(archive.connection, [job_id])
    assert archive.revert().reverted == 1


def test_there_is_no_such_campaign(archive: Archive) -> None:
    with pytest.raises(UsageError, match="no campaign 99"):
        archive.revert(99)


def test_retention_leaves_the_way_back(archive: Archive) -> None:
    document = archive.document()
    before, _ = document.read(page("old"))
    document.read(page("new"), origin=archive.read, retention=Retention(revisions=1))
    assert archive.revert().reverted == 1
    assert document.row()[0] == before
