"""The kind ``ocr``: reads a document page by page into a new revision; ``classify`` follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import psycopg
from pydantic import BaseModel

from batchproc.core.kinds import CLASSIFY, OCR
from batchproc.core.outcome import FollowUp
from batchproc.core.ranges import PageRange
from batchproc.documents.original_faults import (
    ORIGINAL_CODES,
    OriginalError,
    StorageGone,
    is_storage_fault,
    storage_silent,
)
from batchproc.documents.store import Document
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure, StorageUnavailable
from batchproc.handlers.ocr_options import OcrArgs
from batchproc.handlers.ocr_pages import PageCounts, UnreadableDocument
from batchproc.handlers.ocr_ranges import Joining, RangeReading
from batchproc.handlers.ocr_reading import Reading, Split
from batchproc.handlers.registry import handler
from batchproc.ocr.errors import FAILURE_CODES, OcrFailure
from batchproc.queue.document_jobs import document_key

FAILED_PAGES_SHOWN = 100
# Of pages that nobody can read to the end: what the settle gave them, or the attempt after it.
PAGE_CODES = frozenset({"stalled", "timeout", "poison", "out_of_memory", "page_failed"})
_OTHER_CODES = frozenset(
    {"password_file_missing", "permission_denied", "unknown_document", "no_space", "invalid_args", "being_read"}
)


class FailedPage(BaseModel):
    """A page (from 1) that could not be read, and why."""

    page: int
    code: str


class OcrResult(BaseModel):
    """What came of the pages. ``failed_pages`` names the first hundred; ``seconds`` is the time spent on pages.

    ``partial``: the document ended so; one that was read as a pilot stays what it is.
    """

    revision_id: int
    pages: int
    text_pages: int
    ocr_pages: int
    blank_pages: int
    failed_page_count: int
    failed_pages: list[FailedPage]
    words: int
    seconds: float
    partial: bool


class SplitResult(BaseModel):
    """A large document was left to so many jobs; ``pages`` counts all of its pages."""

    revision_id: int
    pages: int
    ranges: int


class RangeResult(BaseModel):
    """What came of the pages of a range, from ``first_page`` to ``last_page``; otherwise as `OcrResult`.

    Whether the document is partial is told by the job that joins the ranges.
    """

    revision_id: int
    first_page: int
    last_page: int
    pages: int
    failed_page_count: int
    failed_pages: list[FailedPage]
    words: int
    seconds: float


Done = TypeVar("Done")


class _Work(Protocol):
    """What an attempt does with a document."""

    document: Document

    def record_failure(self, code: str) -> None: ...


# Budgets: a page that is done, or failed by its second stall or crash, sets timeouts and crashes back to one. So that
# any number of bad pages can be passed, three have to fit.
@handler(
    OCR,
    timeout=2 * 3600,
    stall_timeout=120,
    max_timeouts=4,
    max_crashes=4,
    fails_document=True,
    fails_page=True,
    needs_languages=True,
    failure_codes=FAILURE_CODES | ORIGINAL_CODES | PAGE_CODES | _OTHER_CODES,
)
def ocr(ctx: Context, args: OcrArgs) -> OcrResult | SplitResult | RangeResult | None:
    """Reads the document's original and makes what it finds the current revision.

    The original is opened once, read-only, checked against the SHA-256 of its import and read through the same
    descriptor. A page that cannot be read is a failed page; if none can be read, the document fails.

    More pages than ``ocr.split_pages`` are left to jobs of this kind that read a range each, and one that joins them.
    """
    try:
        document = ctx.documents.load(ctx.connection, args.document_id)
    except LookupError as error:
        raise Failure("unknown_document", detail=str(error)) from None
    if args.range is None:
        return _read_document(ctx, document, args)
    if args.range == "join":
        return _join(ctx, document, args)
    return _read_range(ctx, document, args, PageRange(*args.range))


def _read_document(ctx: Context, document: Document, args: OcrArgs) -> OcrResult | SplitResult:
    reading = Reading(ctx, document, args)
    done = _guarded(ctx, reading, reading.run)
    if isinstance(done, Split):
        for pages in done.ranges:
            ranged = args.of_range(pages, done.options)
            # Without a unique key, which somebody else's job may have: then nobody would read these pages.
            ctx.follow_ups.append(FollowUp(ctx.kind, ranged, document.document_id, range_of=done.revision_id))
        return SplitResult(revision_id=done.revision_id, pages=done.pages, ranges=len(done.ranges))
    return _ended(ctx, document, args, done)


def _read_range(ctx: Context, document: Document, args: OcrArgs, pages: PageRange) -> RangeResult | None:
    reading = RangeReading(ctx, document, args, pages)
    done = _guarded(ctx, reading, reading.run)
    _read_again(ctx, document, reading.read_again)
    if done is None:
        return None
    result = _result(done)
    return RangeResult(
        first_page=pages.first,
        last_page=pages.last,
        **result.model_dump(include=set(RangeResult.model_fields) - {"first_page", "last_page"}),
    )


def _join(ctx: Context, document: Document, args: OcrArgs) -> OcrResult | None:
    joining = Joining(ctx, document, args)
    try:
        done = joining.run()
    except UnreadableDocument as error:
        raise Failure(error.code, detail=error.detail) from error
    _read_again(ctx, document, joining.read_again)
    return None if done is None else _ended(ctx, document, args, done)


def _read_again(ctx: Context, document: Document, args: dict[str, Any] | None) -> None:
    """Of several parts that ask for it, one job comes."""
    if args is not None:
        key = document_key(document.document_id, pilot=bool(args.get("pilot")))
        ctx.follow_up(ctx.kind, args, document_id=document.document_id, unique=key)


def _ended(ctx: Context, document: Document, args: OcrArgs, done: PageCounts) -> OcrResult:
    """The result of a document that is read to its end; what follows it follows no pilot."""
    result = _result(done)
    if args.pilot:
        return result.model_copy(update={"partial": False})
    follow_up = {} if args.trigger is None else {"trigger": args.trigger}
    ctx.follow_up(CLASSIFY, follow_up, document_id=document.document_id)
    return result


def _guarded(ctx: Context, work: _Work, run: Callable[[], Done]) -> Done:
    """Reads the document, or says why it cannot be read, in the words of a handler."""
    document = work.document
    try:
        return run()
    except (OcrFailure, OriginalError, UnreadableDocument) as error:
        if error.code in ("source_changed", "source_missing"):
            ctx.log.error("the original of document {} of tenant {}: {}", document.document_id, ctx.tenant, error.code)
        work.record_failure(error.code)
        raise Failure(error.code, detail=error.detail) from error
    except StorageGone as error:
        ctx.log.warning("document {} waits for its storage: {}", document.document_id, error)
        raise StorageUnavailable(error.summary) from error
    except OSError as error:
        if is_storage_fault(error):
            ctx.log.warning("document {} waits for its storage: {}", document.document_id, error.strerror)
            raise StorageUnavailable(storage_silent(document.root, error)) from error
        raise
    except psycopg.errors.DiskFull as error:
        raise Failure("no_space", detail="the database's disk is full", retry=True) from error


def _result(done: PageCounts) -> OcrResult:
    failed = [FailedPage(page=page, code=code) for page, code in done.failed]
    return OcrResult(
        revision_id=done.revision_id,
        pages=done.pages,
        text_pages=done.text,
        ocr_pages=done.ocr,
        blank_pages=done.blank,
        failed_page_count=len(failed),
        failed_pages=failed[:FAILED_PAGES_SHOWN],
        words=done.words,
        seconds=round(done.seconds, 3),
        partial=bool(failed),
    )
