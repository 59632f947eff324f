"""Revisions: page by page, one open at a time, one current."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from batchproc.core.keep import Verdict
from batchproc.database import connect
from batchproc.documents.current_revision import Findings
from batchproc.documents.listing import DocumentListing
from batchproc.documents.revisions import Attempt, PageProgress, PageRecord, RevisionSpec, RevisionStore
from batchproc.documents.store import DocumentStore
from tests.handlers.running_job import Conn, add_document, add_tenant, add_text, running_job

SPEC = RevisionSpec("tesseract", "5.5", "hash", {"mode": "skip", "dpi": 300}, ("eng", "deu"), b"s" * 32, 3)
FINDINGS = Findings("partial", "image/tiff", 3, ("signed",), "A title")


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def tenant(connection: Conn) -> int:
    return add_tenant(connection)


@pytest.fixture
def document(connection: Conn, tenant: int) -> int:
    return add_document(connection, tenant)


@pytest.fixture
def revisions(tenant: int) -> RevisionStore:
    return RevisionStore("batchproc", tenant_id=tenant)


def attempt(job_id: int = 1, number: int = 1) -> Attempt:
    return Attempt(job_id, uuid4(), number)


def test_a_revision_is_found_again_as_it_was_begun(connection: Conn, revisions: RevisionStore, document: int) -> None:
    first = attempt()
    revision_id = revisions.begin(connection, document, SPEC, first)
    found = revisions.open_revision(connection, document)
    assert found is not None
    assert (found.revision_id, found.spec, found.job_id, found.claim_id) == (revision_id, SPEC, 1, first.claim_id)
    assert revisions.current_revision(connection, document) is None


def test_there_is_one_open_revision(connection: Conn, revisions: RevisionStore, document: int) -> None:
    assert revisions.begin(connection, document, SPEC, attempt()) is not None
    assert revisions.begin(connection, document, SPEC, attempt()) is None


def test_only_the_quickest_takes_over_or_abandons(connection: Conn, revisions: RevisionStore, document: int) -> None:
    revisions.begin(connection, document, SPEC, attempt())
    seen = revisions.open_revision(connection, document)
    assert seen is not None
    assert revisions.take_over(connection, seen, attempt(2))
    assert not revisions.take_over(connection, seen, attempt(3))
    assert not revisions.abandon(connection, seen)
    seen = revisions.open_revision(connection, document)
    assert seen is not None
    assert seen.job_id == 2
    assert revisions.abandon(connection, seen)
    assert revisions.open_revision(connection, document) is None


def test_a_page_counts_the_attempts_that_started_it(connection: Conn, revisions: RevisionStore, document: int) -> None:
    revision_id = revisions.begin(connection, document, SPEC, attempt())
    assert revision_id is not None
    for again in (attempt(1, 1), attempt(1, 1), attempt(1, 2), attempt(2, 2)):
        revisions.start_page(connection, revision_id, 1, again)
    assert revisions.pages(connection, revision_id) == {1: PageProgress("started", 3, 0, 0.0, None)}


@pytest.mark.parametrize("code", ["database_lost", "no_space", "storage_unavailable"])
def test_what_the_environment_ended_was_no_start(
    connection: Conn, revisions: RevisionStore, tenant: int, document: int, tmp_path: Path, code: str
) -> None:
    job = running_job(connection, tmp_path, kind="ocr", tenant_id=tenant, document_id=document).job_id
    revision_id = revisions.begin(connection, document, SPEC, attempt(job))
    assert revision_id is not None
    starts = []
    for number, ended_by in enumerate([code, code, "poison", code, "internal_error", code], start=1):
        begun = attempt(job, number)
        starts.append(revisions.start_page(connection, revision_id, 1, begun))
        connection.execute(
            """
            insert into batchproc.job_attempts (claim_id, job_id, tenant_id, number, node_id, started_at, ended_at,
                                                seconds, outcome, failure_code)
            values (%s, %s, %s, %s, gen_random_uuid(), now(), now(), 0, 'failed', %s)
            """,
            [begun.claim_id, job, tenant, number, ended_by],
        )
    assert starts == [1, 1, 1, 2, 2, 3]


def test_a_page_is_done_once(connection: Conn, revisions: RevisionStore, document: int) -> None:
    revision_id = revisions.begin(connection, document, SPEC, attempt())
    assert revision_id is not None
    with pytest.raises(RuntimeError, match="not started"):
        revisions.finish_page(connection, revision_id, 1, PageRecord("ocr"))
    revisions.start_page(connection, revision_id, 1, attempt())
    revisions.finish_page(connection, revision_id, 1, PageRecord("ocr", "te\x00xt", 93.5, 1, 180, 300, 1.25))
    with pytest.raises(RuntimeError, match="done already"):
        revisions.finish_page(connection, revision_id, 1, PageRecord("ocr"))
    with pytest.raises(RuntimeError, match="done already"):
        revisions.start_page(connection, revision_id, 1, attempt(1, 2))
    assert revisions.pages(connection, revision_id) == {1: PageProgress("ocr", 1, 1, 1.25, None)}


def test_a_page_of_another_tenant_is_not_written(connection: Conn, revisions: RevisionStore, document: int) -> None:
    revision_id = revisions.begin(connection, document, SPEC, attempt())
    assert revision_id is not None
    revisions.start_page(connection, revision_id, 1, attempt())
    other = RevisionStore("batchproc", tenant_id=add_tenant(connection, "other"))
    with pytest.raises(RuntimeError):
        other.finish_page(connection, revision_id, 1, PageRecord("ocr", "mine now"))
    assert other.open_revision(connection, document) is None


def test_pages_are_counted_in_the_usage_of_the_day(connection: Conn, revisions: RevisionStore, document: int) -> None:
    revision_id = revisions.begin(connection, document, SPEC, attempt())
    assert revision_id is not None
    records = (
        PageRecord("ocr", seconds=2.0),
        PageRecord("blank", seconds=1.0),
        PageRecord("ocr", seconds=3.0),
        PageRecord("text", seconds=0.5),
    )
    for page, record in enumerate(records, start=1):
        revisions.start_page(connection, revision_id, page, attempt())
        revisions.finish_page(connection, revision_id, page, record)
    used = connection.execute(
        "select kind, pages_text, pages_ocr, pages_blank, pages_failed, pages_timed, seconds_ocr"
        " from batchproc.usage_daily"
    ).fetchall()
    assert used == [("ocr", 1, 2, 1, 0, 2, 5.0)]


def test_the_completed_revision_becomes_current_and_says_what_the_document_is(
    connection: Conn, revisions: RevisionStore, tenant: int, document: int
) -> None:
    old = add_text(connection, tenant, document, ["old text"])
    revision_id = revisions.begin(connection, document, SPEC, attempt())
    assert revision_id is not None
    revisions.start_page(connection, revision_id, 1, attempt())
    revisions.finish_page(connection, revision_id, 1, PageRecord("ocr", "new text", words=2))
    store = DocumentStore("batchproc", tenant_id=tenant)
    assert store.text(connection, document) == ["old text"]

    assert revisions.complete(connection, document, revision_id, FINDINGS) is Verdict.NEWEST
    found = store.load(connection, document)
    assert store.text(connection, document) == ["new text"]
    assert (found.status, found.media_type, found.page_count, found.flags) == ("partial", "image/tiff", 3, ("signed",))
    assert found.fields == {"pdf_title": "A title"}
    assert found.verified_at is not None
    states = connection.execute("select revision_id, state from batchproc.ocr_revisions order by revision_id")
    assert states.fetchall() == [(old, "complete"), (revision_id, "complete")]
    with pytest.raises(RuntimeError, match="not open"):
        revisions.complete(connection, document, revision_id, replace(FINDINGS, pdf_title=None))


def test_a_revision_made_by_a_person_stays_current(
    connection: Conn, revisions: RevisionStore, tenant: int, document: int
) -> None:
    by_hand = add_text(connection, tenant, document, ["typed"], source="person")
    revision_id = revisions.begin(connection, document, SPEC, attempt())
    assert revision_id is not None
    assert revisions.complete(connection, document, revision_id, FINDINGS) is Verdict.PERSON
    assert DocumentStore("batchproc", tenant_id=tenant).load(connection, document).current_revision == by_hand


def test_showing_takes_the_current_revision_else_the_newest(
    connection: Conn, revisions: RevisionStore, tenant: int, document: int
) -> None:
    listing = DocumentListing("batchproc")
    assert listing.revision(connection, document) is None
    first = revisions.begin(connection, document, SPEC, attempt())
    assert first is not None
    revisions.start_page(connection, first, 1, attempt())
    shown = listing.revision(connection, document)
    assert shown is not None
    assert (shown.revision_id, shown.state, shown.current) == (first, "open", False)
    assert [page.state for page in listing.pages(connection, first)] == ["started"]
    revisions.complete(connection, document, first, FINDINGS)
    revisions.begin(connection, document, SPEC, attempt())
    shown = listing.revision(connection, document)
    assert shown is not None
    assert (shown.revision_id, shown.current, shown.languages) == (first, True, ("eng", "deu"))
