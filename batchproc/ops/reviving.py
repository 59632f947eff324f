"""The jobs that an import makes: of new documents, and of those that had failed for the original it has found again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import KindSpec, Lane, NewJob
from batchproc.documents.store import Registered
from batchproc.queue.document_jobs import DocumentJobs, document_key
from batchproc.queue.store import JobStore

KIND = "ocr"
MENDED_BY_IMPORT = frozenset({"source_missing", "source_changed", "not_a_file", "outside_roots", "permission_denied"})
"""Failure codes of the place of an original: a file of that content was just read, at a path that is known from now on.
Whatever else a document failed for, in its content or around it, an import says nothing of."""


@dataclass(frozen=True, slots=True)
class DocumentJob:
    """The newest job of a document, if there is one. ``made``: by this import.

    ``waits``: some job of it does; looked for only where its last OCR failed.
    """

    job_id: int | None
    made: bool = False
    waits: bool = False


@dataclass(frozen=True, slots=True)
class ImportJobs:
    """All alike but for their documents. ``spec`` is the ``ocr`` kind as configured; not ``wanted``: none is made."""

    jobs: JobStore
    tenant_id: int
    lane: Lane = Lane.BULK
    priority: int = 5
    spec: KindSpec | None = None
    wanted: bool = True

    def job_of(self, connection: Connection[TupleRow], registered: Registered) -> DocumentJob:
        """The job of a document that was just registered.

        That of a duplicate is its latest, unless it had failed for its original and none waits, whoever made it.
        """
        known, document_id = DocumentJobs(self.jobs.schema), registered.document_id
        failed = registered.failure_code is not None
        waits = failed and bool(known.waiting(connection, KIND, [document_id]))
        revived = registered.failure_code in MENDED_BY_IMPORT and not waits
        if self.wanted and (revived or not registered.duplicate):
            enqueued = self.jobs.enqueue(connection, self._new(registered), self.spec)
            return DocumentJob(enqueued.job_id, made=not enqueued.duplicate, waits=True)
        return DocumentJob(known.latest(connection, self.tenant_id, document_id, KIND), made=False, waits=waits)

    def _new(self, registered: Registered) -> NewJob:
        # What follows an upload has followed it already where there is text.
        args: dict[str, Any] = {} if registered.has_text else {"trigger": "upload"}
        return NewJob(
            self.tenant_id,
            KIND,
            args,
            document_id=registered.document_id,
            lane=self.lane,
            priority=self.priority,
            unique_key=document_key(registered.document_id),
        )
