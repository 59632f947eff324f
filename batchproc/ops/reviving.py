"""The jobs that an import makes: of new documents, and of those that had failed for the original it has found again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import KindSpec, Lane, NewJob
from batchproc.core.kinds import OCR
from batchproc.documents.store import Registered
from batchproc.ops.campaigning import CampaignMaking
from batchproc.queue.document_jobs import DocumentJobs, document_key
from batchproc.queue.store import JobStore

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

    def jobs_of(
        self, connection: Connection[TupleRow], registered: Sequence[Registered], campaign: CampaignMaking
    ) -> list[DocumentJob]:
        """The job of each of the documents, which were just registered or found to be registered.

        That of a duplicate is its latest, unless it had failed for its original and none waits, whoever made it.
        ``campaign`` is whose the new jobs are.
        """
        known = DocumentJobs(self.jobs.schema)
        failed = [found.document_id for found in registered if found.failure_code is not None]
        waiting = set(known.waiting(connection, OCR, failed)) if failed else set()
        due = [self._is_due(found, waiting) for found in registered]
        made = iter(self._enqueue(connection, list(compress(registered, due)), campaign))
        others = {found.document_id for found, is_due in zip(registered, due, strict=True) if not is_due}
        latest = known.latest_of(connection, self.tenant_id, others, OCR)
        return [
            next(made)
            if is_due
            else DocumentJob(latest.get(found.document_id), made=False, waits=found.document_id in waiting)
            for found, is_due in zip(registered, due, strict=True)
        ]

    def _is_due(self, registered: Registered, waiting: Collection[int]) -> bool:
        revived = registered.failure_code in MENDED_BY_IMPORT and registered.document_id not in waiting
        return self.wanted and (revived or not registered.duplicate)

    def _enqueue(
        self, connection: Connection[TupleRow], due: Sequence[Registered], campaign: CampaignMaking
    ) -> list[DocumentJob]:
        if not due:
            return []
        campaign_id = campaign.begun(connection)
        enqueued = self.jobs.enqueue_each(connection, [self._new(found, campaign_id) for found in due], self.spec)
        campaign.grow(connection, sum(not job.duplicate for job in enqueued))
        return [DocumentJob(job.job_id, made=not job.duplicate, waits=True) for job in enqueued]

    def _new(self, registered: Registered, campaign_id: int | None) -> NewJob:
        # What follows an upload has followed it already where there is text.
        args: dict[str, Any] = {} if registered.has_text else {"trigger": "upload"}
        return NewJob(
            self.tenant_id,
            OCR,
            args,
            document_id=registered.document_id,
            lane=self.lane,
            priority=self.priority,
            unique_key=document_key(registered.document_id),
            campaign_id=campaign_id,
        )
