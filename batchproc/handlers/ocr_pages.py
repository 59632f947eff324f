"""The pages of an open revision: each is committed as begun and, in a later transaction, as done."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.documents.bad_pages import STARTS_PER_PAGE
from batchproc.documents.revisions import Attempt, PageProgress, PageRecord, RevisionStore
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Snooze
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.page_text import PageOptions, read_page
from batchproc.ocr.source import Source
from batchproc.ocr.tesseract import TesseractEngine


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

    @property
    def failed_numbers(self) -> list[int]:
        return [number for number, _ in self.failed]


class UnreadableDocument(Exception):
    """None of the pages could be read; ``code`` is the first page's."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


class PageReader:
    """Reads pages in one attempt. ``details`` tells more of pages that it marked as failed, by their numbers."""

    def __init__(self, ctx: Context, document_id: int, revisions: RevisionStore, engine: TesseractEngine) -> None:
        self._ctx = ctx
        self._document_id = document_id
        self._revisions = revisions
        self._engine = engine
        self._attempt = Attempt(ctx.job_id, ctx.claim_id, ctx.attempt)
        self.details: dict[int, str] = {}

    def read(self, source: Source, revision_id: int, pages: Sequence[int], options: PageOptions, *, total: int) -> None:
        """Reads these pages of the revision, none of which is done.

        Args:
            total: of how many pages these are the rest, for the progress.

        Raises:
            OcrFailure: a language is missing: no page would be read.
            RevisionEnded: somebody else completed or abandoned the revision.
            Snooze: the node stops.
        """
        before = total - len(pages)
        self._ctx.progress(before, total)
        if not pages:
            return
        if self._ctx.stopping:
            raise Snooze(0)
        with self._ctx.transaction() as connection:
            starts = self._start(connection, revision_id, pages[0])
        for done, (page, following) in enumerate(zip_longest(pages, pages[1:]), before + 1):
            record = self._given_up(page) if starts > STARTS_PER_PAGE else self._read_page(source, page, options)
            with self._ctx.transaction() as connection:
                self._revisions.finish_page(connection, revision_id, page, record)
                self._checkpoint(connection)
                stopping = following is not None and self._ctx.stopping
                if following is not None and not stopping:
                    # One commit for both; it is there before the engine sees the page.
                    starts = self._start(connection, revision_id, following)
            self._ctx.progress(done, total)
            if stopping:
                raise Snooze(0)

    def _start(self, connection: Connection[TupleRow], revision_id: int, page: int) -> int:
        return self._revisions.start_page(connection, revision_id, page, self._attempt)

    def _checkpoint(self, connection: Connection[TupleRow]) -> None:
        self._ctx.checkpoint(connection)
        # The job's attempts count from here again, and so do the starts of the next page.
        self._attempt = replace(self._attempt, number=min(self._attempt.number, 1))

    def _read_page(self, source: Source, number: int, options: PageOptions) -> PageRecord:
        started = time.monotonic()
        try:
            found = read_page(source.page(number - 1), self._engine, options)
        except OcrFailure as failure:
            if failure.code == "missing_language":
                raise
            self._ctx.log.warning("page {} of document {}: {}", number, self._document_id, failure)
            self.details[number] = failure.detail
            return PageRecord("failed", seconds=time.monotonic() - started, failure_code=failure.code)
        return PageRecord(**asdict(found))

    def _given_up(self, number: int) -> PageRecord:
        self._ctx.log.error("page {} of document {} is given up: it ended two attempts", number, self._document_id)
        self.details[number] = f"page {number} was begun twice and never finished; see the job's attempts"
        return PageRecord("failed", failure_code="page_failed")


def unfinished(known: dict[int, PageProgress], first: int, last: int) -> list[int]:
    """The pages between these two, with both of them, that are not done."""
    return [page for page in range(first, last + 1) if page not in known or not known[page].done]


@lru_cache(maxsize=1)
def loaded_engine(tessdata: tuple[Path, ...]) -> TesseractEngine:
    """The engine, which stays loaded between the jobs of a worker."""
    return TesseractEngine(tessdata)
