"""Revisions: each OCR of a document, page by page, and the one that counts.

A document has at most one open revision. The attempt that works on it is named in it by its job and claim; another
attempt may continue or abandon it once that claim is gone. A page is recorded as started and, in a later
transaction, as done: a page that was started twice and never done is one that kills or stalls its worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from psycopg import Connection, Cursor
from psycopg.rows import DictRow, TupleRow, dict_row
from psycopg.types.json import Jsonb

from batchproc.core.keep import Verdict
from batchproc.core.limits import clean_text
from batchproc.database import SqlFolder
from batchproc.documents.current_revision import CurrentRevision, Findings, Origin, Retention

PageState = Literal["started", "text", "ocr", "blank", "failed"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who works on a revision. ``number`` is the job's attempt, which an interruption does not raise."""

    job_id: int
    claim_id: UUID
    number: int


@dataclass(frozen=True, slots=True)
class RevisionSpec:
    """What decides a revision's text: equal specs give equal text. ``profile`` is a JSON object of options."""

    engine: str
    engine_version: str
    data_hash: str
    profile: Mapping[str, Any]
    languages: tuple[str, ...]
    source_sha256: bytes
    page_count: int

    def is_of_same_pages(self, other: RevisionSpec) -> bool:
        """Whether both are of the same original, with as many pages."""
        return (self.source_sha256, self.page_count) == (other.source_sha256, other.page_count)


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision as stored, with the job and claim that works or worked on it.

    ``pilot``, of one that is open: it is not meant to become the current one.
    """

    revision_id: int
    spec: RevisionSpec
    job_id: int | None
    claim_id: UUID | None
    pilot: bool = False


@dataclass(frozen=True, slots=True)
class PageRecord:
    """What came of a page.

    ``confidence`` is the engine's, 0 to 100, None without OCR; ``words`` a count; ``rotation`` the degrees by which
    the page was turned, ``skew`` those by which it was straightened, both clockwise; ``dpi_estimated``: the file named
    no credible resolution; ``languages`` what it was recognised in; ``engine_calls`` how often the engine was called
    for it; ``failure_code`` only with ``failed``.
    """

    state: PageState
    text: str = ""
    confidence: float | None = None
    words: int = 0
    rotation: int = 0
    dpi: int | None = None
    seconds: float = 0.0
    failure_code: str | None = None
    skew: float = 0.0
    dpi_estimated: bool = False
    languages: tuple[str, ...] = ()
    engine_calls: int = 0


@dataclass(frozen=True, slots=True)
class PageProgress:
    """How far a page of a revision is.

    ``starts`` counts the attempts that began it, ``seconds`` is of the last. ``kept_from`` names the revision in which
    a page was read that was taken over as it was; its ``seconds`` were spent there, and are 0 here.
    """

    state: PageState
    starts: int
    words: int
    seconds: float
    failure_code: str | None
    kept_from: int | None = None

    @property
    def done(self) -> bool:
        return self.state != "started"


class RevisionEnded(Exception):
    """Somebody else completed or abandoned the revision meanwhile."""


class RevisionStore:
    """The revisions of one tenant's documents; writing methods belong in a transaction of the caller."""

    def __init__(self, schema: str, *, tenant_id: int) -> None:
        self._tenant_id = tenant_id
        self._sql = SqlFolder("batchproc.documents", schema)
        self._current = CurrentRevision(schema, tenant_id=tenant_id)

    def open_revision(self, connection: Connection[TupleRow], document_id: int) -> Revision | None:
        """The document's open revision, if it has one."""
        return self._revision(connection, "load_open_revision", document_id)

    def current_revision(self, connection: Connection[TupleRow], document_id: int) -> Revision | None:
        """The document's current revision, if it has one."""
        return self._revision(connection, "load_current_revision", document_id)

    def completed_revision(self, connection: Connection[TupleRow], document_id: int, job_id: int) -> Revision | None:
        """The newest revision of the document that the job completed, whether it became current or not."""
        return self._revision(connection, "load_completed_revision", document_id, job_id=job_id)

    def begin(
        self,
        connection: Connection[TupleRow],
        document_id: int,
        spec: RevisionSpec,
        attempt: Attempt,
        *,
        pilot: bool = False,
    ) -> int | None:
        """Opens a revision and gives its id; None when another attempt has just opened one."""
        values = {
            "document_id": document_id,
            "engine": spec.engine,
            "engine_version": spec.engine_version,
            "data_hash": spec.data_hash,
            "profile": Jsonb(dict(spec.profile)),
            "languages": list(spec.languages),
            "source_sha256": spec.source_sha256,
            "page_count": spec.page_count,
            "job_id": attempt.job_id,
            "claim_id": attempt.claim_id,
            "pilot": pilot,
        }
        row = self._run(connection, "begin_revision", **values).fetchone()
        return None if row is None else int(row["revision_id"])

    def take_over(
        self, connection: Connection[TupleRow], revision: Revision, attempt: Attempt, *, pilot: bool = False
    ) -> bool:
        """Makes an open revision this attempt's; False when another was quicker."""
        values = {"job_id": attempt.job_id, "new_claim_id": attempt.claim_id, "pilot": pilot}
        return self._changed(connection, "take_over_revision", revision, **values)

    def abandon(self, connection: Connection[TupleRow], revision: Revision) -> bool:
        """Gives up an open revision; its pages stay for whoever asks. False when another was quicker."""
        return self._changed(connection, "abandon_revision", revision)

    def pages(self, connection: Connection[TupleRow], revision_id: int) -> dict[int, PageProgress]:
        """The pages that were at least started, by page number (from 1)."""
        rows = self._run(connection, "load_progress", revision_id=revision_id)
        return {row.pop("page"): PageProgress(**row) for row in rows}

    def keep_pages(self, connection: Connection[TupleRow], revision_id: int, from_revision_id: int) -> int:
        """Takes done pages of another revision of the same document over into an open one, as they are.

        Failed ones are left out, so that they are read again. Pages that the open revision has already stay. The pages
        count in no usage: they were counted when they were read. What was read by other means is told by the revision
        from now on, see `core.keep.Standing.mixed`.

        Returns:
            How many pages were taken over; none of a revision of another document or tenant.
        """
        values = {"revision_id": revision_id, "from_revision_id": from_revision_id}
        row = self._run(connection, "keep_pages", **values).fetchone()
        assert row is not None
        return int(row["kept"])

    def start_page(self, connection: Connection[TupleRow], revision_id: int, page: int, attempt: Attempt) -> int:
        """Records that ``attempt`` begins a page, and tells how many attempts did so by now.

        Raises:
            RevisionEnded: the revision is not open any more.
        """
        started = self._run(
            connection,
            "start_page",
            revision_id=revision_id,
            page=page,
            job_id=attempt.job_id,
            attempt=attempt.number,
            claim_id=attempt.claim_id,
        ).fetchone()
        if started is None:
            if self._run(connection, "is_open", revision_id=revision_id).fetchone() is None:
                raise RevisionEnded(f"revision {revision_id} is not open any more")
            raise RuntimeError(f"page {page} of revision {revision_id} is done already")
        return int(started["starts"])

    def finish_page(self, connection: Connection[TupleRow], revision_id: int, page: int, record: PageRecord) -> None:
        """Records what came of a started page, and counts it in the tenant's usage of the day."""
        values = {
            "state": record.state,
            "text": clean_text(record.text)[0],
            "confidence": record.confidence,
            "words": record.words,
            "rotation": record.rotation,
            "dpi": record.dpi,
            "seconds": record.seconds,
            "failure_code": record.failure_code,
            "skew": record.skew,
            "dpi_estimated": record.dpi_estimated,
            "languages": list(record.languages) or None,
            "engine_calls": record.engine_calls,
        }
        with connection.pipeline():
            finished = self._run(connection, "finish_page", revision_id=revision_id, page=page, **values)
            self._run(connection, "count_page", state=record.state, seconds=record.seconds)
        if finished.rowcount != 1:
            raise RuntimeError(f"page {page} of revision {revision_id} was not started, or is done already")

    def complete(
        self,
        connection: Connection[TupleRow],
        document_id: int,
        revision_id: int,
        findings: Findings,
        *,
        retention: Retention | None = None,
        origin: Origin | None = None,
    ) -> Verdict:
        """Ends a revision and makes it the current one if ``retention`` says so; see `CurrentRevision.complete`.

        Args:
            origin: by whom it was read, and for what.

        Returns:
            Why it is current now, or is not: ``is_current``.
        """
        return self._current.complete(
            connection,
            document_id,
            revision_id,
            findings,
            retention=retention or Retention(),
            origin=origin or Origin(),
        )

    def _revision(
        self, connection: Connection[TupleRow], statement: str, document_id: int, **values: Any
    ) -> Revision | None:
        row = self._run(connection, statement, document_id=document_id, **values).fetchone()
        if row is None:
            return None
        return revision_from(row)

    def _changed(self, connection: Connection[TupleRow], statement: str, revision: Revision, **values: Any) -> bool:
        values |= {"revision_id": revision.revision_id, "claim_id": revision.claim_id}
        return self._run(connection, statement, **values).rowcount == 1

    def _run(self, connection: Connection[TupleRow], statement: str, **values: Any) -> Cursor[DictRow]:
        cursor = connection.cursor(row_factory=dict_row)
        return cursor.execute(self._sql[statement], {"tenant_id": self._tenant_id, **values})


def revision_from(row: DictRow) -> Revision:
    """The revision of a row that has what `Revision` and `RevisionSpec` have, perhaps ``pilot``, and nothing else."""
    own = {name: row.pop(name) for name in ("revision_id", "job_id", "claim_id")}
    own["pilot"] = row.pop("pilot", False)
    return Revision(spec=RevisionSpec(**{**row, "languages": tuple(row["languages"])}), **own)
