"""Changing a document's text by hand, to an earlier revision or to one that is typed, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import UsageError
from batchproc.core.job import Lane, NewJob
from batchproc.core.kinds import CLASSIFY
from batchproc.documents.current_revision import CurrentRevision
from batchproc.documents.listing import DocumentListing
from batchproc.documents.store import Document
from batchproc.queue.store import JobStore


@dataclass(frozen=True, slots=True)
class ByHand:
    """``before`` was current until now; ``job_id`` gives title and tags from the text. None: nothing had to change."""

    revision_id: int
    before: int | None
    job_id: int | None


@dataclass(frozen=True, slots=True)
class Editor:
    """Changes one document's text in one transaction each, with a job ``classify`` behind it and a line in the log.

    Args:
        login: the login name of whoever asks for it, for the revision's row and the log.
        max_attempts: of the job.
    """

    jobs: JobStore
    document: Document
    login: str
    max_attempts: int

    def restore(self, connection: Connection[TupleRow], revision_id: int) -> ByHand:
        """Makes an earlier revision current again; raises UsageError for one that is not a complete one of it."""
        with connection.transaction():
            restored = self._current.restore(connection, self._id, revision_id, restored_by=self.login)
            if restored.before == revision_id:
                return ByHand(revision_id, revision_id, None)
            job_id = self._classify(connection)
        self._log(connection, "restored", revision_id, restored.before)
        return ByHand(revision_id, restored.before, job_id)

    def type(self, connection: Connection[TupleRow], pages: Sequence[str]) -> ByHand:
        """Gives the document a text that no OCR replaces; raises UsageError when it has another number of pages."""
        expected = self.document.page_count
        if expected is not None and expected != len(pages):
            raise UsageError(
                f"the text has {len(pages)} pages, document {self._id} has {expected}",
                f"pages are separated by form feeds, as in: batchproc documents text {self._id}",
            )
        with connection.transaction():
            typed = self._current.type(
                connection, self._id, pages, source_sha256=self.document.sha256, typed_by=self.login
            )
            job_id = self._classify(connection)
        self._log(connection, "typed", typed.revision_id, typed.before)
        return ByHand(typed.revision_id, typed.before, job_id)

    def _classify(self, connection: Connection[TupleRow]) -> int:
        job = NewJob(
            tenant_id=self.document.tenant_id,
            kind=CLASSIFY,
            document_id=self._id,
            # Somebody waits for it; and of several changes the last one's job reads the text that counts.
            lane=Lane.INTERACTIVE,
            unique_key=f"by hand {self._id}",
            max_attempts=self.max_attempts,
        )
        return self.jobs.enqueue(connection, job).job_id

    def _log(self, connection: Connection[TupleRow], what: str, revision_id: int, before: int | None) -> None:
        tenant = DocumentListing(self.jobs.schema).one(connection, self._id).tenant
        text = "document {} of tenant {}: revision {} {} by {}, instead of {}"
        logger.info(text, self._id, tenant, revision_id, what, self.login, before)

    @property
    def _id(self) -> int:
        return self.document.document_id

    @property
    def _current(self) -> CurrentRevision:
        return CurrentRevision(self.jobs.schema, tenant_id=self.document.tenant_id)
