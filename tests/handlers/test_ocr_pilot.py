"""An ``ocr`` job that only tries: whatever comes of it, its document stays as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from batchproc.database import connect
from batchproc.documents.history import RevisionHistory
from batchproc.handlers.errors import Failure
from batchproc.handlers.ocr import OcrResult, SplitResult
from batchproc.queue.document_jobs import DocumentJobs
from tests.handlers.running_job import Conn, add_tenant, add_text
from tests.handlers.splitting import LargeDocument, settings, tiff
from tests.handlers.test_ocr import before_each_page, page
from tests.queue.helpers import one

WHOLE = settings(split_pages=25)


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def two_pages(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("drawn")
    return tiff(folder, [page(f"This is {word}", 460) for word in ("one", "two")]).read_bytes()


@pytest.fixture
def file(tmp_path: Path, two_pages: bytes) -> Path:
    written = tmp_path / "large.tif"
    written.write_bytes(two_pages)
    return written


@pytest.fixture
def document(connection: Conn, file: Path, tmp_path: Path) -> LargeDocument:
    large = LargeDocument(connection, add_tenant(connection), file, tmp_path)
    large.settings = WHOLE
    return large


def row(connection: Conn, document: LargeDocument) -> Any:
    """All of the document but when its original was last found unchanged, which a pilot tells as well."""
    query = "select to_jsonb(d) - 'verified_at' from batchproc.documents d where document_id = %s"
    return one(connection, query, [document.document_id])


def verdicts(document: LargeDocument) -> list[tuple[str, str | None]]:
    history = RevisionHistory("batchproc", tenant_id=document.tenant_id)
    return [(past.state, past.verdict) for past in history.revisions(document.connection, document.document_id)]


def test_its_text_is_kept_beside_the_current_one_and_nothing_follows(connection: Conn, document: LargeDocument) -> None:
    add_text(connection, document.tenant_id, document.document_id, ["This is one", "of old"])
    before = row(connection, document)
    result = document.run(document.enqueue(pilot=True))
    assert isinstance(result, OcrResult)
    assert (result.pages, result.partial) == (2, False)
    assert row(connection, document) == before
    assert document.text() == ["This is one", "of old"]
    assert verdicts(document) == [("complete", None), ("complete", "pilot")]
    assert document.follow_ups == []


def test_a_document_that_was_never_read_stays_pending(connection: Conn, document: LargeDocument) -> None:
    document.run(document.enqueue(pilot=True))
    assert document.document() == ("pending", None)
    document.run(document.enqueue())
    assert (document.document(), document.text()) == (("completed", None), ["This is one", "This is two"])


@pytest.mark.parametrize(("content", "code"), [(None, "source_missing"), (b"another", "source_changed")])
def test_a_pilot_that_fails_fails_no_document(
    connection: Conn, document: LargeDocument, file: Path, content: bytes | None, code: str
) -> None:
    document.run(document.enqueue(pilot=True))  # the storage is known from now on
    file.unlink() if content is None else file.write_bytes(content)
    before = row(connection, document)
    job_id = document.enqueue(pilot=True)
    with pytest.raises(Failure, match=code):
        document.run(job_id)
    assert document.state(job_id) == "discarded"
    assert row(connection, document) == before
    assert document.document() == ("pending", None)


def test_a_pilot_that_nobody_has_the_languages_for_fails_no_document(connection: Conn, document: LargeDocument) -> None:
    before = row(connection, document)
    jobs = [document.enqueue(pilot=True, languages=["fin"])]
    assert give_up(document) == jobs
    assert row(connection, document) == before
    jobs = [document.enqueue(languages=["fin"])]
    assert give_up(document) == jobs
    assert document.document() == ("failed", "missing_language"), "as one that is no pilot does"


def give_up(document: LargeDocument) -> list[int]:
    """The jobs that are discarded because no node has their languages."""
    scope: dict[str, list[Any]] = {"tenant_ids": [], "kinds": [], "lanes": []}
    run_id = document.node.runs.start(document.connection, document.node.node_id, {})
    return [
        job.job_id
        for gap in document.node.gaps(document.connection, scope)
        for job in document.node.give_up_unserved(document.connection, gap, run_id=run_id, limit=10)
    ]


def test_a_pilot_leaves_the_pages_of_another_job_alone(document: LargeDocument) -> None:
    real = document.enqueue()
    with pytest.raises(RuntimeError, match="killed"), stopped_after(1):
        document.killed(real)
    job_id = document.enqueue(pilot=True)
    with pytest.raises(Failure, match="being_read"):
        document.run(job_id)
    assert (document.document(), verdicts(document)) == (("pending", None), [("open", None)])
    with pages_read() as read:
        document.run(real)
    assert (read, document.text()) == ([2], ["This is one", "This is two"])


def test_a_job_that_is_none_goes_on_with_the_pages_of_a_pilot(connection: Conn, document: LargeDocument) -> None:
    pilot = document.enqueue(pilot=True)
    with pytest.raises(RuntimeError, match="killed"), stopped_after(1):
        document.killed(pilot)
    with pages_read() as read:
        document.run(document.enqueue())
    assert (read, verdicts(document)) == ([2], [("complete", "first")])
    assert one(connection, "select pilot from batchproc.ocr_revisions") is False
    document.run(pilot)
    assert verdicts(document) == [("complete", "first"), ("complete", "pilot")]


def test_a_pilot_goes_on_with_its_own_pages(document: LargeDocument) -> None:
    pilot = document.enqueue(pilot=True)
    with pytest.raises(RuntimeError, match="killed"), stopped_after(1):
        document.killed(pilot)
    with pages_read() as read:
        document.run(pilot)
    assert (read, verdicts(document)) == ([2], [("complete", "pilot")])


def test_a_large_document_is_a_pilot_in_all_its_ranges(connection: Conn, document: LargeDocument) -> None:
    document.settings = settings(split_pages=1)
    before = row(connection, document)
    result = document.run(document.enqueue(pilot=True))
    assert isinstance(result, SplitResult)
    for job_id in document.ranges():
        document.run(job_id)
    assert document.join().pages == 2
    assert verdicts(document) == [("complete", "pilot")]
    assert (row(connection, document), document.follow_ups) == (before, ["ocr", "ocr"])


def test_a_range_of_a_pilot_that_is_given_up_on_fails_no_document(connection: Conn, document: LargeDocument) -> None:
    document.settings = settings(split_pages=1)
    document.run(document.enqueue(pilot=True))
    before = row(connection, document)
    for job_id in document.ranges():
        document.discard(job_id)
    [joining] = document.joins()
    with pytest.raises(Failure, match="unreadable_file"):
        document.run(joining)
    assert (document.state(joining), row(connection, document)) == ("discarded", before)


def test_a_pilot_that_waits_is_no_job_that_reads_the_document(connection: Conn, document: LargeDocument) -> None:
    known = DocumentJobs("batchproc")
    pilot = document.enqueue(pilot=True)
    ids = [document.document_id]
    assert known.waiting(connection, "ocr", ids) == {}
    assert known.waiting(connection, "ocr", ids, pilots=True) == {document.document_id: [{"pilot": True}]}
    assert known.latest_of(connection, document.tenant_id, ids, "ocr") == {}
    real = document.enqueue()
    assert real != pilot, "both wait, whichever was first"
    assert known.waiting(connection, "ocr", ids) == {document.document_id: [{}]}
    assert known.latest_of(connection, document.tenant_id, ids, "ocr") == {document.document_id: real}


@contextmanager
def stopped_after(pages: int) -> Iterator[None]:
    """The worker dies when it has read so many pages."""
    with pytest.MonkeyPatch.context() as patch:
        begun: list[int] = []

        def before(number: int) -> None:
            begun.append(number)
            if len(begun) > pages:
                raise RuntimeError("killed")

        before_each_page(patch, before)
        yield


@contextmanager
def pages_read() -> Iterator[list[int]]:
    """The numbers of the pages that are really read meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        numbers: list[int] = []
        before_each_page(patch, numbers.append)
        yield numbers
