"""Reading one document: verify its original, open or continue a revision, read the pages or leave them to ranges."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Literal

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.ranges import PageRange, balanced
from batchproc.documents.current_revision import Findings, Origin
from batchproc.documents.original_faults import ORIGINAL_CODES
from batchproc.documents.originals import Original
from batchproc.documents.ranges import RangeStore
from batchproc.documents.revisions import Attempt, Revision, RevisionSpec, RevisionStore
from batchproc.documents.store import Document
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure, Snooze
from batchproc.handlers.ocr_options import OcrArgs, asks_otherwise, options_of, page_options, retention, spec_of
from batchproc.handlers.ocr_pages import PageCounts, PageReader, UnreadableDocument, loaded_engine, unfinished
from batchproc.handlers.password_file import tenant_passwords
from batchproc.handlers.verified_originals import VerifiedOriginals
from batchproc.ocr import detection
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.engine import require_languages
from batchproc.ocr.page_text import PageOptions
from batchproc.ocr.source import Source, open_source
from batchproc.ocr.tesseract import TesseractEngine
from batchproc.queue.claims import ClaimFence
from batchproc.queue.range_jobs import RangeJobs

# How long to leave a document alone that another job is reading.
BUSY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Split:
    """The rest of a revision is left to jobs of their own, which read it with these options."""

    revision_id: int
    pages: int
    ranges: list[PageRange]
    options: PageOptions


class Reading:
    """One attempt's work on one document."""

    def __init__(self, ctx: Context, document: Document, args: OcrArgs) -> None:
        schema = ctx.settings.database.schema_name
        self.ctx = ctx
        self.document = document
        self._args = args
        self._engine = loaded_engine(ctx.settings.ocr.tessdata)
        self._options = page_options(ctx, document, args)
        self._revisions = RevisionStore(schema, tenant_id=ctx.tenant_id)
        self._ranges = RangeStore(schema, tenant_id=ctx.tenant_id)
        self._range_jobs = RangeJobs(schema, tenant_id=ctx.tenant_id)
        self._attempt = Attempt(ctx.job_id, ctx.claim_id, ctx.attempt)
        self._originals = VerifiedOriginals(ctx, document)
        self._reader = PageReader(ctx, document.document_id, self._revisions, self._engine)
        self._kept: PageCounts | None = None
        self._origins: dict[int, int] = {}  # of each page to keep, the revision that it was really read in

    def run(self) -> PageCounts | Split:
        """Reads what is left to read and makes the revision current, unless the policy keeps the one there is.

        If that is more than ``ocr.split_pages``, it is left to ranges.

        Raises:
            OcrFailure, OriginalError, UnreadableDocument: the document cannot be read.
            StorageGone, OSError: the storage does not answer.
            Snooze: the node stops, or another job reads the document.
            Failure: a pilot finds that a job which is none has begun to read the document.
        """
        self._keep_own_options()
        require_options(self._engine, self._options)
        with self._originals.open() as original, closing(opened(self.ctx, original)) as source:
            spec = spec_of(self._engine, self._options, self.document.sha256, source.page_count)
            if (done := self._done_before(spec)) is not None:
                return done
            revision_id = self._own_revision(spec)
            known = self._revisions.pages(self.ctx.connection, revision_id)
            left = unfinished(known, 1, source.page_count)
            if len(left) > self.ctx.settings.ocr.split_pages and self._may_split():
                return self._split(source, revision_id, left)
            self._reader.read(source, revision_id, left, self._options, total=source.page_count)
            if original.touched():
                self._originals.verify(original)
            return self._finish(source, revision_id)

    def record_failure(self, code: str) -> None:
        """Nothing comes of the revision, and the document shows why, unless it was only a pilot."""
        with self.ctx.transaction() as connection:
            # First, since it locks the document: whoever completes or restores a revision does so in this order.
            # Text that was read before stays good, unless the original is not what was read.
            if not self._args.pilot:
                self.ctx.documents.set_failure(connection, self._id, code, keep_status=code not in ORIGINAL_CODES)
            self._give_up(connection)

    def _give_up(self, connection: Connection[TupleRow]) -> None:
        """Abandons the open revision if it is this attempt's."""
        found = self._revisions.open_revision(connection, self._id)
        if found is not None and found.claim_id == self.ctx.claim_id:
            self._revisions.abandon(connection, found)

    def _keep_own_options(self) -> None:
        """A job goes on with the options that it began with, whatever tenant or settings have come to say meanwhile.

        Unless this node lacks their languages.
        """
        connection = self.ctx.connection
        begun = self._revisions.open_revision(connection, self._id)
        if begun is None or begun.job_id != self.ctx.job_id:
            begun = self._revisions.completed_revision(connection, self._id, self.ctx.job_id)
        if begun is None:
            return
        options = options_of(begun.spec)
        can_read = self._engine.languages().issuperset(options.languages)
        if can_read and (detection.is_installed() or not options.detect) and not asks_otherwise(self._args, options):
            self._options = options

    def _done_before(self, spec: RevisionSpec) -> PageCounts | None:
        """What there is when there is nothing to do: only this job's ending was lost, or no page failed that it is for.

        The same text would come of reading it all again. A revision whose pages are to be kept is remembered. Without
        a current revision, or when the document is another now, the failed pages are all pages.
        """
        connection = self.ctx.connection
        ended = self._revisions.completed_revision(connection, self._id, self.ctx.job_id)
        if ended is not None and ended.spec == spec:
            return PageCounts.of(ended.revision_id, self._revisions.pages(connection, ended.revision_id))
        only_failed = self._args.pages == "failed"
        current = self._revisions.current_revision(connection, self._id) if only_failed else None
        if current is None or not current.spec.is_of_same_pages(spec):
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
        if found is not None and self._args.pilot and not found.pilot:
            raise Failure("being_read", detail=self._told_begun(found))
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
        goes_on = found is not None and found.spec == spec and self._goes_on_with(connection, found)
        if found is not None and goes_on and not self._range_jobs.are_known(connection, found.revision_id):
            taken = self._revisions.take_over(connection, found, self._attempt, pilot=self._args.pilot)
            return found.revision_id if taken else None
        if found is not None and not self._revisions.abandon(connection, found):
            return None
        own = self._revisions.begin(connection, self._id, spec, self._attempt, pilot=self._args.pilot)
        if own is not None and found is not None and goes_on:
            self._ranges.move_pages(connection, found.revision_id, own)
        return own

    def _goes_on_with(self, connection: Connection[TupleRow], found: Revision) -> bool:
        """Whether all pages that the open revision took over, of whatever engine, are those that this job keeps."""
        there = self._revisions.pages(connection, found.revision_id)
        taken_over = {number: page.kept_from for number, page in there.items() if page.kept_from is not None}
        return taken_over.items() <= self._origins.items()

    def _is_read_by_another(self, revision: Revision) -> bool:
        """Whether a claim works on it, or jobs of its ranges are still to come to an end."""
        fence = ClaimFence(self.ctx.settings.database.schema_name)
        if revision.job_id is not None and revision.claim_id not in (None, self.ctx.claim_id):
            assert revision.claim_id is not None
            if fence.is_claimed(self.ctx.connection, revision.job_id, revision.claim_id):
                return True
        # In this order: with the end of the claim that split it, its ranges are there.
        return self._range_jobs.are_living(self.ctx.connection, revision.revision_id)

    def _told_begun(self, revision: Revision) -> str:
        job = "a job" if revision.job_id is None else f"job {revision.job_id}"
        if self._is_read_by_another(revision):
            return f"{job} reads the document at this moment, and its pages are not a pilot's"
        return (
            f"{job} has begun to read the document and was cut off: its pages are not a pilot's, but whoever reads the"
            f" document next goes on with them: batchproc reprocess --document {self._id}"
        )

    def _may_split(self) -> bool:
        if self._range_jobs.can_be_read(self.ctx.connection, self.ctx.kind):
            return True
        self.ctx.log.warning("document {} is read in one piece: a node of an older release lives", self._id)
        return False

    def _split(self, source: Source, revision_id: int, left: list[int]) -> Split:
        """Leaves these pages to ranges, whose jobs follow when this one has ended.

        Killed before that, it finds the revision as its own, without any range, and splits it anew.
        """
        ranges = balanced(left, self.ctx.settings.ocr.split_pages)
        with self.ctx.transaction() as connection:
            self._ranges.split(connection, revision_id, len(ranges), _findings(source, "completed"))
        return Split(revision_id, source.page_count, ranges, self._options)

    def _finish(self, source: Source, revision_id: int) -> PageCounts:
        counts = PageCounts.of(revision_id, self._revisions.pages(self.ctx.connection, revision_id))
        if len(counts.failed) == counts.pages and not counts.words:  # a failed page may have some text
            number, code = counts.failed[0]
            details = self._reader.details
            raise UnreadableDocument(code, details.get(number, f"none of {counts.pages} pages could be read"))
        if self._kept is not None and counts.failed_numbers == self._kept.failed_numbers:
            self.ctx.log.warning("the failed pages of document {} failed again: it keeps its text", self._id)
            with self.ctx.transaction() as connection:
                self._give_up(connection)
            return self._kept
        findings = _findings(source, "partial" if counts.failed else "completed")
        with self.ctx.transaction() as connection:
            complete(self.ctx, connection, self._revisions, self._args, self._id, revision_id, findings)
        return counts

    @property
    def _id(self) -> int:
        return self.document.document_id


def opened(ctx: Context, original: Original) -> Source:
    """The original as pages; raises as `open_source` does."""
    bounds = ctx.settings.ocr.bounds
    limits = Bounds(max_bytes=bounds.max_bytes, max_pages=bounds.max_pages, max_pixels=bounds.max_pixels)
    return open_source(original.descriptor, bounds=limits, passwords=partial(tenant_passwords, ctx))


def require_options(engine: TesseractEngine, options: PageOptions) -> None:
    """Raises OcrFailure `missing_language` unless pages can be read with these options here."""
    require_languages(engine, options.languages)
    if options.detect:
        detection.require()


def complete(
    ctx: Context,
    connection: Connection[TupleRow],
    revisions: RevisionStore,
    args: OcrArgs,
    document_id: int,
    revision_id: int,
    findings: Findings,
) -> None:
    """Ends the revision in the caller's transaction, and tells when it did not become current."""
    of = ClaimFence(ctx.settings.database.schema_name).belonging(connection, ctx.job_id, ctx.claim_id)
    origin = Origin(of.node_id, of.campaign_id, of.run_id, pilot=args.pilot)
    policy = retention(ctx, args)
    verdict = revisions.complete(connection, document_id, revision_id, findings, retention=policy, origin=origin)
    if not verdict.is_current:
        ctx.log.info("document {} keeps the text it has, not revision {}: {}", document_id, revision_id, verdict)


def _findings(source: Source, status: Literal["completed", "partial"]) -> Findings:
    return Findings(
        status=status,
        media_type=source.media_type,
        page_count=source.page_count,
        flags=source.flags,
        pdf_title=source.title,
    )
