"""Revisions for tests: begun, read page by page and completed, as a handler does it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

from batchproc.core.keep import Verdict
from batchproc.documents.current_revision import Findings, Origin, Retention
from batchproc.documents.revisions import Attempt, PageRecord, RevisionSpec, RevisionStore
from tests.handlers.running_job import Conn

SPEC = RevisionSpec("tesseract", "5.5", "hash", {"mode": "skip", "dpi": 300}, ("eng", "deu"), b"s" * 32, 3)
FAILED = PageRecord("failed", failure_code="stalled")


def page(text: str, confidence: float = 90.0, seconds: float = 1.0) -> PageRecord:
    return PageRecord("ocr", text, confidence, len(text.split()), 0, 300, seconds)


def without_sums(connection: Conn) -> None:
    """Makes all revisions as they were completed before there were sums, or by a node of that time."""
    connection.execute(
        """
        update batchproc.ocr_revisions
        set seconds = null, confidence = null, words = null, characters = null, failed_pages = null, verdict = null
        """
    )


class Revising:
    """One document, and short ways to read it again."""

    def __init__(self, connection: Conn, tenant_id: int, document_id: int) -> None:
        self.connection = connection
        self.document_id = document_id
        self.store = RevisionStore("batchproc", tenant_id=tenant_id)

    def begin(self, pages: int, spec: RevisionSpec = SPEC, job_id: int = 1) -> int:
        spec = replace(spec, page_count=pages)
        revision_id = self.store.begin(self.connection, self.document_id, spec, Attempt(job_id, uuid4(), 1))
        assert revision_id is not None
        return revision_id

    def write(self, revision_id: int, number: int, record: PageRecord) -> None:
        self.store.start_page(self.connection, revision_id, number, Attempt(1, uuid4(), 1))
        self.store.finish_page(self.connection, revision_id, number, record)

    def complete(
        self,
        revision_id: int,
        retention: Retention | None = None,
        node_id: UUID | None = None,
        origin: Origin | None = None,
    ) -> Verdict:
        done = self.store.pages(self.connection, revision_id)
        failed = any(progress.state == "failed" for progress in done.values())
        findings = Findings("partial" if failed else "completed", "image/tiff", len(done), (), None)
        with self.connection.transaction():
            return self.store.complete(
                self.connection,
                self.document_id,
                revision_id,
                findings,
                retention=retention,
                origin=origin or Origin(node_id),
            )

    def read(
        self,
        *records: PageRecord,
        spec: RevisionSpec = SPEC,
        retention: Retention | None = None,
        job_id: int = 1,
        origin: Origin | None = None,
    ) -> tuple[int, Verdict]:
        """A revision of these pages, completed: its id and verdict."""
        revision_id = self.begin(len(records), spec, job_id)
        for number, record in enumerate(records, start=1):
            self.write(revision_id, number, record)
        return revision_id, self.complete(revision_id, retention, origin=origin)

    def abandon(self) -> int:
        revision_id = self.begin(1)
        self.write(revision_id, 1, page("half"))
        found = self.store.open_revision(self.connection, self.document_id)
        assert found is not None
        assert self.store.abandon(self.connection, found)
        return revision_id

    def left(self) -> list[int]:
        rows = self.connection.execute(
            "select revision_id from batchproc.ocr_revisions where document_id = %s order by revision_id",
            [self.document_id],
        )
        return [row[0] for row in rows]

    def row(self) -> tuple[int | None, str, int | None, str | None]:
        """What the document's row says: current revision, status, pages, failure code."""
        row = self.connection.execute(
            "select current_revision, status, page_count, failure_code from batchproc.documents where document_id = %s",
            [self.document_id],
        ).fetchone()
        assert row is not None
        return row[0], row[1], row[2], row[3]
