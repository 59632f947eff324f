"""Reading one document: verify its original, open or continue a revision, go through the pages."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import zip_longest
from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.documents.bad_pages import STARTS_PER_PAGE
from batchproc.documents.current_revision import Findings, Retention
from batchproc.documents.originals import Original
from batchproc.documents.revisions import (
    Attempt,
    PageProgress,
    PageRecord,
    Revision,
    RevisionSpec,
    RevisionStore,
)
from batchproc.documents.store import Document
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Snooze
from batchproc.handlers.password_file import tenant_passwords
from batchproc.handlers.verified_originals import VerifiedOriginals
from batchproc.ocr import detection
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.engine import require_languages
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.page_text import PageOptions, read_page
from batchproc.ocr.source import Source, open_source
from batchproc.ocr.tesseract import TesseractEngine
from batchproc.queue.claims import ClaimFence

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
    """One attempt's work on one document.

    Args:
        only_failed: keep the pages of the current revision that did not fail. Without a current revision, or when the
            document is another now, all pages are read; when none failed, nothing is done.
    """

    def __init__(
        self, ctx: Context, document: Document, options: PageOptions, retention: Retention, *, only_failed: bool = False
    ) -> None:
        self.ctx = ctx
        self.document = document
        self.options = options
        self.retention = retention
        self._revisions = RevisionStore(ctx.settings.database.schema_name, tenant_id=ctx.tenant_id)
        self._attempt = Attempt(ctx.job_id, ctx.claim_id, ctx.attempt)
        self._originals = VerifiedOriginals(ctx, document)
        self._details: dict[int, str] = {}
        self._only_failed = only_failed
        self._kept: PageCounts | None = None
        self._origins: dict[int, int] = {}  # of each page to keep, the revision that it was really read in

    def run(self) -> PageCounts:
        """Reads what is left to read and makes the revision current, unless the policy keeps the one there is.

        Raises:
            OcrFailure, OriginalError, UnreadableDocument: the document cannot be read.
            StorageGone, OSError: the storage does not answer.
            Snooze: the node stops, or another job reads the document.
        """
        require_languages(self._engine, self.options.languages)
        if self.options.detect:
            detection.require()
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
        return open_source(original.descriptor, bounds=limits, passwords=partial(tenant_passwords, self.ctx))

    def _spec(self, source: Source) -> RevisionSpec:
        options = self.options
        return RevisionSpec(
            engine=self._engine.name,
            engine_version=self._engine.version,
            data_hash=self._engine.data_hash_of(options.languages),
            profile={"mode": options.mode, "dpi": options.dpi, "orientation": options.orientation}
            | ({"detect": detection.version()} if options.detect else {}),
            languages=options.languages,
            source_sha256=self.document.sha256,
            page_count=source.page_count,
        )

    def _done_before(self, spec: RevisionSpec) -> PageCounts | None:
        """What there is when there is nothing to do: only this job's ending was lost, or no page failed that it is for.

        The same text would come of reading it all again. A revision whose pages are to be kept is remembered.
        """
        connection = self.ctx.connection
        ended = self._revisions.completed_revision(connection, self._id, self.ctx.job_id)
        if ended is not None and ended.spec == spec:
            return PageCounts.of(ended.revision_id, self._revisions.pages(connection, ended.revision_id))
        current = self._revisions.current_revision(connection, self._id) if self._only_failed else None
        if current is None or not _of_same_pages(current.spec, spec):
            return None
        pages = self._revisions.pages(connection, current.revision_id)
        counts = PageCounts.of(current.revision_id, pages)
        if not counts.failed:
            return counts
        self._kept = counts
        self._origins = {number: page.kept_from or current.revision_id for number, page in pages.items()}
        return None

    def _own_revision(self, spec: RevisionSpec) -> int:
        """The id of a revision to work on: the open one if it would give the same text, else a new one.

        With the pages to keep already in it.
        """
        found = self._revisions.open_revision(self.ctx.connection, self._id)
        if found is not None and self._is_read_by_another(found):
            raise Snooze(BUSY_SECONDS)
        with self.ctx.transaction() as connection:
            own = self._taken(connection, found, spec)
            if own is None:
                raise Snooze(BUSY_SECONDS)  # another job was quicker
            if self._kept is not None:
                self._revisions.keep_pages(connection, own, self._kept.revision_id)
        return own

    def _taken(self, connection: Connection[TupleRow], found: Revision | None, spec: RevisionSpec) -> int | None:
        if found is not None and found.spec == spec and self._goes_on_with(connection, found):
            return found.revision_id if self._revisions.take_over(connection, found, self._attempt) else None
        if found is None or self._revisions.abandon(connection, found):
            return self._revisions.begin(connection, self._id, spec, self._attempt)
        return None

    def _goes_on_with(self, connection: Connection[TupleRow], found: Revision) -> bool:
        """Whether all pages that the open revision took over, of whatever engine, are those that this job keeps."""
        there = self._revisions.pages(connection, found.revision_id)
        taken_over = {number: page.kept_from for number, page in there.items() if page.kept_from is not None}
        return taken_over.items() <= self._origins.items()

    def _is_read_by_another(self, revision: Revision) -> bool:
        if revision.job_id is None or revision.claim_id in (None, self.ctx.claim_id):
            return False
        assert revision.claim_id is not None
        fence = ClaimFence(self.ctx.settings.database.schema_name)
        return fence.is_claimed(self.ctx.connection, revision.job_id, revision.claim_id)

    def _read_pages(self, source: Source, revision_id: int) -> None:
        known = self._revisions.pages(self.ctx.connection, revision_id)
        total = source.page_count
        left = [page for page in range(1, total + 1) if page not in known or not known[page].done]
        self.ctx.progress(total - len(left), total)
        if not left:
            return
        if self.ctx.stopping:
            raise Snooze(0)
        with self.ctx.transaction() as connection:
            starts = self._start(connection, revision_id, left[0])
        for done, (page, following) in enumerate(zip_longest(left, left[1:]), total - len(left) + 1):
            record = self._given_up(page) if starts > STARTS_PER_PAGE else self._read_page(source, page)
            with self.ctx.transaction() as connection:
                self._revisions.finish_page(connection, revision_id, page, record)
                self._checkpoint(connection)
                stopping = following is not None and self.ctx.stopping
                if following is not None and not stopping:
                    # One commit for both; it is there before the engine sees the page.
                    starts = self._start(connection, revision_id, following)
            self.ctx.progress(done, total)
            if stopping:
                raise Snooze(0)

    def _start(self, connection: Connection[TupleRow], revision_id: int, page: int) -> int:
        return self._revisions.start_page(connection, revision_id, page, self._attempt)

    def _checkpoint(self, connection: Connection[TupleRow]) -> None:
        self.ctx.checkpoint(connection)
        # The job's attempts count from here again, and so do the starts of the next page.
        self._attempt = replace(self._attempt, number=min(self._attempt.number, 1))

    def _read_page(self, source: Source, number: int) -> PageRecord:
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
        if self._kept is not None and _numbers(counts.failed) == _numbers(self._kept.failed):
            self.ctx.log.warning("the failed pages of document {} failed again: it keeps its text", self._id)
            with self.ctx.transaction() as connection:
                self.give_up(connection)
            return self._kept
        findings = Findings(
            status="partial" if counts.failed else "completed",
            media_type=source.media_type,
            page_count=counts.pages,
            flags=source.flags,
            pdf_title=source.title,
        )
        with self.ctx.transaction() as connection:
            fence = ClaimFence(self.ctx.settings.database.schema_name)
            node_id = fence.node(connection, self.ctx.job_id, self.ctx.claim_id)
            verdict = self._revisions.complete(
                connection, self._id, revision_id, findings, retention=self.retention, node_id=node_id
            )
        if not verdict.is_current:
            self.ctx.log.info("document {} keeps the text it has, not revision {}: {}", self._id, revision_id, verdict)
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


def _of_same_pages(one: RevisionSpec, other: RevisionSpec) -> bool:
    return (one.source_sha256, one.page_count) == (other.source_sha256, other.page_count)


def _numbers(failed: list[tuple[int, str]]) -> list[int]:
    return [number for number, _ in failed]


@lru_cache(maxsize=1)
def _loaded_engine(tessdata: tuple[Path, ...]) -> TesseractEngine:
    """The engine, which stays loaded between the jobs of a worker."""
    return TesseractEngine(tessdata)
