"""Documents as the command line lists and shows them, across tenants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, dict_row

from batchproc.database import SqlFolder
from batchproc.documents.originals import Location

PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """A document with its tenant's slug and its tags. ``path`` is the full path of the original.

    ``confidence``: 0 to 100, of the recognised words of its current revision; None where there are none.
    """

    document_id: int
    tenant: str
    external_id: str | None
    path: bytes
    sha256: bytes
    status: str
    failure_code: str | None
    title: str | None
    title_source: str | None
    language: str | None
    page_count: int | None
    confidence: float | None
    tags: tuple[str, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListedRevision:
    """A revision of a document. ``state`` is open, complete or abandoned, ``source`` engine or person."""

    revision_id: int
    state: str
    source: str
    engine: str
    engine_version: str
    languages: tuple[str, ...]
    profile: dict[str, Any]
    current: bool


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page of a revision.

    ``words`` is a count, ``rotation`` and ``skew`` are degrees clockwise that it was turned and straightened by,
    ``confidence`` 0 to 100; ``engine_calls`` says how often the engine was called for it, ``kept_from`` in which
    revision, if it was taken over from there.
    """

    page: int
    state: str
    confidence: float | None
    words: int | None
    rotation: int | None
    seconds: float | None
    failure_code: str | None
    skew: float | None
    dpi: int | None
    dpi_estimated: bool
    languages: list[str] | None
    engine_calls: int | None
    kept_from: int | None


@dataclass(frozen=True, slots=True)
class ListedRange:
    """A job that was to read a range of the open revision's pages, or to join them: then ``range`` is "join".

    ``done``: of these pages, or of all of them, so many are done.
    """

    job_id: int
    state: str
    revision_id: int
    range: list[int] | str
    done: int

    @property
    def pages(self) -> str:
        """Such as ``26-50``, or ``all``."""
        return "all" if isinstance(self.range, str) else f"{self.range[0]}-{self.range[1]}"


@dataclass(frozen=True, slots=True)
class Slice:
    """One page of a listing; ``next`` is what to pass as ``after`` for the page after it, None at the end."""

    documents: list[ListedDocument]
    next: int | None


class DocumentListing:
    """Reads documents of all tenants."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.documents", schema)

    def slice(
        self,
        connection: Connection[TupleRow],
        *,
        tenant_id: int | None = None,
        status: str | None = None,
        failure_code: str | None = None,
        after: int = 0,
        limit: int = PAGE_SIZE,
    ) -> Slice:
        """At most ``limit`` documents in order of their ids, from the first id above ``after``."""
        found = self._documents(
            connection,
            document_id=None,
            tenant_id=tenant_id,
            status=status,
            failure_code=failure_code,
            after=after,
            limit=limit + 1,
        )
        more = len(found) > limit
        return Slice(found[:limit], found[limit - 1].document_id if more else None)

    def one(self, connection: Connection[TupleRow], document_id: int) -> ListedDocument:
        """The document; raises LookupError when there is none."""
        found = self._documents(
            connection,
            document_id=document_id,
            tenant_id=None,
            status=None,
            failure_code=None,
            after=document_id - 1,
            limit=1,
        )
        if not found:
            raise LookupError(f"there is no document {document_id}")
        return found[0]

    def revision(self, connection: Connection[TupleRow], document_id: int) -> ListedRevision | None:
        """The current revision, or without one the newest: that of a document that failed or is being read."""
        cursor = connection.cursor(row_factory=dict_row)
        row = cursor.execute(self._sql["show_revision"], {"document_id": document_id}).fetchone()
        return None if row is None else ListedRevision(**{**row, "languages": tuple(row["languages"])})

    def pages(self, connection: Connection[TupleRow], revision_id: int) -> list[ListedPage]:
        """The pages of a revision in order, as far as they were started."""
        cursor = connection.cursor(row_factory=dict_row)
        rows = cursor.execute(self._sql["show_pages"], {"revision_id": revision_id})
        return [ListedPage(**row) for row in rows]

    def ranges(self, connection: Connection[TupleRow], document_id: int) -> list[ListedRange]:
        """The jobs that are still to read ranges of a large document, or to join them, and those that will not:
        cancelled ones and discarded ones, for as long as nobody has joined the others."""
        cursor = connection.cursor(row_factory=dict_row)
        rows = cursor.execute(self._sql["show_ranges"], {"document_id": document_id})
        return [ListedRange(**row) for row in rows]

    def _documents(self, connection: Connection[TupleRow], **values: Any) -> list[ListedDocument]:
        rows = connection.cursor(row_factory=dict_row).execute(self._sql["list_documents"], values)
        return [
            ListedDocument(
                path=Location(row.pop("root"), row.pop("path")).full,
                tags=tuple(row.pop("tags")),
                flags=tuple(row.pop("flags")),
                **row,
            )
            for row in rows
        ]
