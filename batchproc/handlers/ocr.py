"""The kind ``ocr``: reads a document page by page into a new revision; ``classify`` follows."""

from __future__ import annotations

import psycopg
from pydantic import BaseModel

from batchproc.documents.original_faults import OriginalError, StorageGone, is_storage_fault, storage_silent
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure, StorageUnavailable
from batchproc.handlers.ocr_options import OcrArgs, page_options, retention
from batchproc.handlers.ocr_reading import PageCounts, Reading, UnreadableDocument
from batchproc.handlers.registry import handler
from batchproc.ocr.errors import FAILURE_CODES, OcrFailure

FAILED_PAGES_SHOWN = 100
# Of pages that nobody can read to the end: what the settle gave them, or the attempt after it.
PAGE_CODES = frozenset({"stalled", "timeout", "poison", "out_of_memory", "page_failed"})
_ORIGINAL_CODES = frozenset({"source_missing", "source_changed", "not_a_file", "outside_roots"})
_OTHER_CODES = frozenset({"password_file_missing", "permission_denied", "unknown_document", "no_space"})


class FailedPage(BaseModel):
    """A page (from 1) that could not be read, and why."""

    page: int
    code: str


class OcrResult(BaseModel):
    """What came of the pages. ``failed_pages`` names the first hundred; ``seconds`` is the time spent on pages."""

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


# Budgets: a page that is done, or failed by its second stall or crash, sets timeouts and crashes back to one. So that
# any number of bad pages can be passed, three have to fit.
@handler(
    "ocr",
    timeout=2 * 3600,
    stall_timeout=120,
    max_timeouts=4,
    max_crashes=4,
    fails_document=True,
    fails_page=True,
    needs_languages=True,
    failure_codes=FAILURE_CODES | _ORIGINAL_CODES | PAGE_CODES | _OTHER_CODES,
)
def ocr(ctx: Context, args: OcrArgs) -> OcrResult:
    """Reads the document's original and makes what it finds the current revision.

    The original is opened once, read-only, checked against the SHA-256 of its import and read through the same
    descriptor. A page that cannot be read is a failed page; if none can be read, the document fails.
    """
    try:
        document = ctx.documents.load(ctx.connection, args.document_id)
    except LookupError as error:
        raise Failure("unknown_document", detail=str(error)) from None
    reading = Reading(
        ctx, document, page_options(ctx, document, args), retention(ctx, args), only_failed=args.pages == "failed"
    )
    try:
        done = reading.run()
    except (OcrFailure, OriginalError, UnreadableDocument) as error:
        _record_failure(ctx, reading, error.code)
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
    follow_up = {} if args.trigger is None else {"trigger": args.trigger}
    ctx.follow_up("classify", follow_up, document_id=document.document_id)
    return _result(done)


def _record_failure(ctx: Context, reading: Reading, code: str) -> None:
    document_id = reading.document.document_id
    if code in ("source_changed", "source_missing"):
        ctx.log.error("the original of document {} of tenant {}: {}", document_id, ctx.tenant, code)
    with ctx.transaction() as connection:
        reading.give_up(connection)
        # Text that was read before stays good, unless the original is not what was read.
        ctx.documents.set_failure(connection, document_id, code, keep_status=code not in _ORIGINAL_CODES)


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
