"""The jobs that a large document is split into: each reads a range of pages of one revision, one joins them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.ranges import PageRange
from batchproc.documents.original_faults import ORIGINAL_CODES
from batchproc.documents.ranges import RangeStore, SplitRevision, Unread
from batchproc.documents.revisions import PageProgress, RevisionEnded, RevisionStore
from batchproc.documents.store import Document
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure
from batchproc.handlers.ocr_options import OcrArgs, options_of, spec_of
from batchproc.handlers.ocr_pages import PageCounts, PageReader, UnreadableDocument, loaded_engine, unfinished
from batchproc.handlers.ocr_reading import complete, opened, require_options
from batchproc.handlers.verified_originals import VerifiedOriginals
from batchproc.ocr.errors import OcrFailure
from batchproc.queue.range_jobs import RangeJobs


class _Part:
    """What a job of a split revision finds there."""

    def __init__(self, ctx: Context, document: Document, args: OcrArgs) -> None:
        schema = ctx.settings.database.schema_name
        self.ctx = ctx
        self.document = document
        self._args = args
        self._revisions = RevisionStore(schema, tenant_id=ctx.tenant_id)
        self._ranges = RangeStore(schema, tenant_id=ctx.tenant_id)
        self._jobs = RangeJobs(schema, tenant_id=ctx.tenant_id)
        self.read_again: dict[str, Any] | None = None
        """The args of the job that is to read the document again, where this one came too late to do what it should."""

    def _split(self) -> SplitRevision | None:
        """The revision of this job; None when it is there no more.

        Raises:
            Failure: somebody enqueued the job by hand.
        """
        revision_id = self._jobs.revision_of(self.ctx.connection, self.ctx.job_id, self.ctx.claim_id)
        if revision_id is None:
            raise Failure("invalid_args", detail="range: only the job that splits a document makes jobs of its ranges")
        found = self._ranges.load(self.ctx.connection, revision_id)
        if found is not None and found.document_id != self._id:
            raise Failure("invalid_args", detail=f"revision {revision_id} is of document {found.document_id}")
        return found

    def _wanted_no_more(self, split: SplitRevision | None) -> None:
        """What somebody retried of a revision that was given up on would read nothing: all of it is read anew."""
        connection = self.ctx.connection
        if (
            split is not None
            and split.state == "abandoned"
            and self._jobs.was_retried(connection, self.ctx.job_id)
            and self._ranges.is_newest(connection, split)
        ):
            # What follows a document whose failed pages are read has followed it before.
            done = {"document_id", "range"} | ({"trigger"} if self._args.pages == "failed" else set())
            self.read_again = self._args.model_dump(mode="json", exclude_defaults=True, exclude=done)
            self.ctx.log.warning("document {} was given up on as a whole: it is read anew", self._id)
        else:
            self.ctx.log.info("{} of document {} are wanted no more", self._what, self._id)

    @property
    def _what(self) -> str:
        return "the pages"

    @property
    def _id(self) -> int:
        return self.document.document_id


class RangeReading(_Part):
    """One attempt's work on a range of pages.

    It reads as the job did that split the document, whatever tenant and settings say by now.
    """

    def __init__(self, ctx: Context, document: Document, args: OcrArgs, pages: PageRange) -> None:
        super().__init__(ctx, document, args)
        self.pages = pages
        self._engine = loaded_engine(ctx.settings.ocr.tessdata)
        self._originals = VerifiedOriginals(ctx, document)
        self._reader = PageReader(ctx, self._id, self._revisions, self._engine)

    def run(self) -> PageCounts | None:
        """Reads what is left to read of its pages; None when nobody wants them any more.

        Raises:
            OcrFailure, OriginalError: the pages cannot be read.
            StorageGone, OSError: the storage does not answer.
            Snooze: the node stops.
        """
        split = self._split()
        if split is None or not split.is_being_read:
            self._come_too_late(split)
            return None
        try:
            self._read(split)
        except RevisionEnded as ended:
            self.ctx.log.info("pages {} of document {}: {}", self.pages, self._id, ended)
            return None
        revision_id = split.revision.revision_id
        return PageCounts.of(revision_id, self._own_pages(revision_id))

    def record_failure(self, code: str) -> None:
        """What is wrong with the original is wrong with all of the document; else its other pages may be read."""
        if code not in ORIGINAL_CODES:
            return
        with self.ctx.transaction() as connection:
            # First, since it locks the document: whoever completes or restores a revision does so in this order.
            if not self._args.pilot:
                self.ctx.documents.set_failure(connection, self._id, code, keep_status=False)
            found = self._revisions.open_revision(connection, self._id)
            split = self._split()
            if found is not None and split is not None and found.revision_id == split.revision.revision_id:
                self._revisions.abandon(connection, found)

    def _read(self, split: SplitRevision) -> None:
        revision, options = split.revision, options_of(split.revision.spec)
        require_options(self._engine, options)
        with self._originals.open() as original, closing(opened(self.ctx, original)) as source:
            found = spec_of(self._engine, options, self.document.sha256, source.page_count)
            if not found.is_of_same_pages(revision.spec):
                detail = f"{source.page_count} pages by this node, {revision.spec.page_count} by the one that split it"
                raise OcrFailure("unreadable_file", detail)
            left = unfinished(self._revisions.pages(self.ctx.connection, revision.revision_id), *self.pages)
            if left and found != revision.spec:
                self._note_means(revision.revision_id)
            total = self.pages.last - self.pages.first + 1
            self._reader.read(source, revision.revision_id, left, options, total=total)
            if original.touched():
                self._originals.verify(original)

    def _note_means(self, revision_id: int) -> None:
        self.ctx.log.warning(
            "pages {} of document {} are read by another engine, data or preparation of pages", self.pages, self._id
        )
        with self.ctx.transaction() as connection:
            self._ranges.note_means(connection, revision_id, self._engine.version)

    def _come_too_late(self, split: SplitRevision | None) -> None:
        if split is None or split.state != "complete":
            self._wanted_no_more(split)
            return
        done = self._own_pages(split.revision.revision_id).values()
        if not self._args.pilot and any(page.state == "failed" for page in done):
            # Without the trigger: what follows an upload has followed the join.
            kept = self._args.model_dump(mode="json", include={"keep"}, exclude_none=True)
            self.read_again = kept | {"pages": "failed"}

    @property
    def _what(self) -> str:
        return f"pages {self.pages}"

    def _own_pages(self, revision_id: int) -> dict[int, PageProgress]:
        known = self._revisions.pages(self.ctx.connection, revision_id)
        return {number: page for number, page in known.items() if number in self.pages}


class Joining(_Part):
    """Makes one revision of the pages that the ranges have read. It opens no file."""

    def run(self) -> PageCounts | None:
        """Completes the revision; None when it is not this job's to complete any more, or not yet.

        What nobody read has the failure code of the range that it was in.

        Raises:
            UnreadableDocument: no page could be read; the revision is abandoned, and the document shows that.
        """
        split = self._split()
        if split is not None and split.state == "complete":  # only this job's ending was lost
            revision_id = split.revision.revision_id
            return PageCounts.of(revision_id, self._revisions.pages(self.ctx.connection, revision_id))
        if split is None or not split.is_being_read:
            self._wanted_no_more(split)
            return None
        with self.ctx.transaction() as connection:
            joined = self._joined(connection, split)
        if isinstance(joined, UnreadableDocument):
            raise joined
        return joined

    def _joined(self, connection: Connection[TupleRow], split: SplitRevision) -> PageCounts | UnreadableDocument | None:
        revision_id, page_count = split.revision.revision_id, split.revision.spec.page_count
        if self._ranges.lock(connection, self._id, revision_id) != 0:
            # Somebody retries a range. When that is over, another job joins them.
            self.ctx.log.info("a range of document {} is read again", self._id)
            return None
        unread = [Unread(part.job_id, part.pages, part.code) for part in self._jobs.given_up(connection, revision_id)]
        self._ranges.fail_unread(connection, revision_id, unread)
        pages = self._revisions.pages(connection, revision_id)
        if unfinished(pages, 1, page_count):
            # Their jobs were cancelled, and pruned since. As with one job that is cancelled, the next goes on.
            self.ctx.log.warning("pages of document {} were left to nobody: it keeps the text it has", self._id)
            return None
        counts = PageCounts.of(revision_id, pages)
        if len(counts.failed) == counts.pages and not counts.words:  # a failed page may have some text
            return self._unreadable(connection, split, counts)
        return self._completed(connection, split, counts)

    def _unreadable(
        self, connection: Connection[TupleRow], split: SplitRevision, counts: PageCounts
    ) -> UnreadableDocument:
        code = counts.failed[0][1]
        self._revisions.abandon(connection, split.revision)
        if not self._args.pilot:
            self.ctx.documents.set_failure(connection, self._id, code, keep_status=True)
        return UnreadableDocument(code, f"none of {counts.pages} pages could be read")

    def _completed(self, connection: Connection[TupleRow], split: SplitRevision, counts: PageCounts) -> PageCounts:
        if self._args.pages == "failed" and (current := self._failed_as_before(connection, split, counts)) is not None:
            self.ctx.log.warning("the failed pages of document {} failed again: it keeps its text", self._id)
            self._revisions.abandon(connection, split.revision)
            return current
        assert split.findings is not None, "they are written when it is split"
        findings = replace(split.findings, status="partial" if counts.failed else "completed")
        complete(self.ctx, connection, self._revisions, self._args, self._id, counts.revision_id, findings)
        return counts

    def _failed_as_before(
        self, connection: Connection[TupleRow], split: SplitRevision, counts: PageCounts
    ) -> PageCounts | None:
        current = self._revisions.current_revision(connection, self._id)
        if current is None or not current.spec.is_of_same_pages(split.revision.spec):
            return None
        before = PageCounts.of(current.revision_id, self._revisions.pages(connection, current.revision_id))
        return before if before.failed_numbers == counts.failed_numbers else None
