"""Reading one document: verify its original, open or continue a revision, go through the pages."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.documents.originals import Original
from batchproc.documents.revisions import (
    Attempt,
    Findings,
    PageProgress,
    PageRecord,
    Revision,
    RevisionSpec,
    RevisionStore,
)
from batchproc.documents.store import Document
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Snooze
from batchproc.handlers.verified_originals import VerifiedOriginals
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.engine import require_languages
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.page_text import PageOptions, read_page
from batchproc.ocr.source import Source, open_source
from batchproc.ocr.tesseract import TesseractEngine
from batchproc.queue.claims import ClaimFence

# A page that this many attempts began and none finished is given up.
STARTS_PER_PAGE = 2
# How long to leave a document alone that another job is reading.
BUSY_SECONDS = 60.0


@dataclass(slots=True)
class PageCounts:
    """What became of a revision's pages; ``failed`` are (page, code) in order."""

    revision_id: int
    pages: int
    text: int = 0
    ocr: int = 0
    blank: int = 0
    failed: list[tuple[int, str]] = field(default_factory=list)
    words: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, revision_id: int, pages: dict[int, PageProgress]) -> PageCounts:
        """Counts pages that are all done."""
        counts = cls(revision_id, len(pages))
        for number, page in sorted(pages.items()):
            counts.text += page.state == "text"
            counts.ocr += page.state == "ocr"
            counts.blank += page.state == "blank"
            if page.state == "failed":
                counts.failed.append((number, page.failure_code or "page_failed"))
            counts.words += page.words
            counts.seconds += page.seconds
        return counts


class Reading:
    """One attempt's work on one document."""

    def __init__(self, ctx: Context, document: Document, options: PageOptions) -> None:
        self.ctx = ctx
        self.document = document
        self.options = options
        self._revisions = RevisionStore(ctx.settings.database.schema_name, tenant_id=ctx.tenant_id)
        self._attempt = Attempt(ctx.job_id, ctx.claim_id, ctx.attempt)
        self._originals = VerifiedOriginals(ctx, document)
        self._details: dict[int, str] = {}

    def run(self) -> PageCounts:
        """Reads what is left to read and makes the revision current.

        Raises:
            OcrFailure, OriginalError, UnreadableDocument: the document cannot be read.
            StorageGone, OSError: the storage does not answer.
            Snooze: the node stops, or another job reads the document.
        """
        require_languages(self._engine, self.options.languages)
        with self._originals.open() as original, closing(self._opened(original)) as source:
            spec = self._spec(source)
            if (done := self._done_before(spec)) is not None:
                return done
            revision_id = self._own_revision(spec)
            self._read_pages(source, revision_id)
            if original.touched():
                self._originals.verify(original)
            return self._finish(source, revision_id)

    def give_up(self, connection: Connection[TupleRow]) -> None:
        """Abandons the open revision if it is this attempt's."""
        found = self._revisions.open_revision(connection, self.document.document_id)
        if found is not None and found.claim_id == self.ctx.claim_id:
            self._revisions.abandon(connection, found)

    def _opened(self, original: Original) -> Source:
        bounds = self.ctx.settings.ocr.bounds
        limits = Bounds(max_bytes=bounds.max_bytes, max_pages=bounds.max_pages, max_pixels=bounds.max_pixels)
        return open_source(original.descriptor, bounds=limits)

    def _spec(self, source: Source) -> RevisionSpec:
        options = self.options
        return RevisionSpec(
            engine=self._engine.name,
            engine_version=self._engine.version,
            data_hash=self._engine.data_hash_of(options.languages),
            profile={"mode": options.mode, "dpi": options.dpi, "orientation": options.orientation},
            languages=options.languages,
            source_sha256=self.document.sha256,
            page_count=source.page_count,
        )

    def _done_before(self, spec: RevisionSpec) -> PageCounts | None:
        """What this job did when only its ending was lost: the same text would come of reading it all again."""
        connection = self.ctx.connection
        current = self._revisions.current_revision(connection, self._id)
        if current is None or current.job_id != self.ctx.job_id or current.spec != spec:
            return None
        counts = PageCounts.of(current.revision_id, self._revisions.pages(connection, current.revision_id))
        return None if counts.failed else counts

    def _own_revision(self, spec: RevisionSpec) -> int:
        """The id of a revision to work on: the open one if it would give the same text, else a new one."""
        found = self._revisions.open_revision(self.ctx.connection, self._id)
        if found is not None and self._is_read_by_another(found):
            raise Snooze(BUSY_SECONDS)
        with self.ctx.transaction() as connection:
            if found is not None and found.spec == spec:
                if self._revisions.take_over(connection, found, self._attempt):
                    return found.revision_id
            elif found is None or self._revisions.abandon(connection, found):
                begun = self._revisions.begin(connection, self._id, spec, self._attempt)
                if begun is not None:
                    return begun
        raise Snooze(BUSY_SECONDS)  # another job was quicker

    def _is_read_by_another(self, revision: Revision) -> bool:
        if revision.job_id is None or revision.claim_id in (None, self.ctx.claim_id):
            return False
        assert revision.claim_id is not None
        fence = ClaimFence(self.ctx.settings.database.schema_name)
        return fence.is_claimed(self.ctx.connection, revision.job_id, revision.claim_id)

    def _read_pages(self, source: Source, revision_id: int) -> None:
        known = self._revisions.pages(self.ctx.connection, revision_id)
        done = sum(page.done for page in known.values())
        self.ctx.progress(done, source.page_count)
        for number in range(1, source.page_count + 1):
            page = known.get(number)
            if page is not None and page.done:
                continue
            if self.ctx.stopping:
                raise Snooze(0)
            record = self._given_up(number) if _is_hopeless(page) else self._read_page(source, revision_id, number)
            with self.ctx.transaction() as connection:
                self._revisions.finish_page(connection, revision_id, number, record)
                self.ctx.checkpoint(connection)
            done += 1
            self.ctx.progress(done, source.page_count)

    def _read_page(self, source: Source, revision_id: int, number: int) -> PageRecord:
        with self.ctx.transaction() as connection:
            self._revisions.start_page(connection, revision_id, number, self._attempt)
        started = time.monotonic()
        try:
            found = read_page(source.page(number - 1), self._engine, self.options)
        except OcrFailure as failure:
            if failure.code == "missing_language":
                raise
            self.ctx.log.warning("page {} of document {}: {}", number, self._id, failure)
            self._details[number] = failure.detail
            return PageRecord("failed", seconds=time.monotonic() - started, failure_code=failure.code)
        return PageRecord(**asdict(found))

    def _given_up(self, number: int) -> PageRecord:
        self.ctx.log.error("page {} of document {} is given up: it ended two attempts", number, self._id)
        self._details[number] = f"page {number} was begun twice and never finished; see the job's attempts"
        return PageRecord("failed", failure_code="page_failed")

    def _finish(self, source: Source, revision_id: int) -> PageCounts:
        counts = PageCounts.of(revision_id, self._revisions.pages(self.ctx.connection, revision_id))
        if len(counts.failed) == counts.pages:
            number, code = counts.failed[0]
            raise UnreadableDocument(code, self._details.get(number, f"none of {counts.pages} pages could be read"))
        findings = Findings(
            status="partial" if counts.failed else "completed",
            media_type=source.media_type,
            page_count=counts.pages,
            flags=source.flags,
            pdf_title=source.title,
        )
        with self.ctx.transaction() as connection:
            if not self._revisions.complete(connection, self._id, revision_id, findings):
                self.ctx.log.info("document {} keeps the text that a person gave it", self._id)
        return counts

    @property
    def _id(self) -> int:
        return self.document.document_id

    @cached_property
    def _engine(self) -> TesseractEngine:
        return _loaded_engine(self.ctx.settings.ocr.tessdata)


class UnreadableDocument(Exception):
    """None of the pages could be read; ``code`` is the first page's."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


def _is_hopeless(page: PageProgress | None) -> bool:
    return page is not None and page.starts >= STARTS_PER_PAGE


@lru_cache(maxsize=1)
def _loaded_engine(tessdata: tuple[Path, ...]) -> TesseractEngine:
    """The engine, which stays loaded between the jobs of a worker."""
    return TesseractEngine(tessdata)
