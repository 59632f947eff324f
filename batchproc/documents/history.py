"""All revisions of a document, and their text side by side."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection, Cursor
from psycopg.rows import DictRow, TupleRow, dict_row

from batchproc.core.errors import UsageError
from batchproc.database import SqlFolder


@dataclass(frozen=True, slots=True)
class PastRevision:
    """A revision with its sums over the pages, those done so far while it is open.

    ``page_count`` are the document's pages, ``done_pages`` those that were read or taken over; ``seconds`` were spent
    on those read here; ``confidence`` is 0 to 100. ``verdict`` says why it became current, or why not.
    ``kept_versions`` are the versions of engines of the pages that were taken over from other means; None: none were.
    """

    revision_id: int
    state: str
    current: bool
    source: str
    engine: str
    engine_version: str
    data_hash: str
    languages: list[str]
    profile: dict[str, Any]
    source_sha256: bytes
    page_count: int
    done_pages: int
    failed_pages: int
    words: int
    characters: int
    confidence: float | None
    seconds: float
    node_id: UUID | None
    job_id: int | None
    created_at: datetime
    completed_at: datetime | None
    verdict: str | None
    restored_at: datetime | None
    restored_by: str | None
    kept_versions: list[str] | None


class RevisionHistory:
    """Reads the revisions of one tenant's documents."""

    def __init__(self, schema: str, *, tenant_id: int) -> None:
        self._tenant_id = tenant_id
        self._sql = SqlFolder("batchproc.documents", schema)

    def revisions(
        self, connection: Connection[TupleRow], document_id: int, *, after: int = 0, limit: int = 100
    ) -> list[PastRevision]:
        """At most ``limit`` revisions in order of their ids, from the first above ``after``."""
        rows = self._run(connection, "list_revisions", document_id=document_id, after=after, limit=limit)
        return [PastRevision(**row) for row in rows]

    def compared(
        self, connection: Connection[TupleRow], document_id: int, old: int | None, new: int | None
    ) -> tuple[int, int]:
        """The two revisions to compare: ``new`` is the current one unless told, ``old`` the complete one before it.

        Where the current one is the oldest, as after a restore, ``old`` is the newest there is.

        Raises:
            UsageError: there are no two, or one that was told is not the document's.
        """
        history = f"see: batchproc documents history {document_id}"
        for told in (old, new):
            if told is None:
                continue
            found = self.revisions(connection, document_id, after=told - 1, limit=1)
            if [revision.revision_id for revision in found[:1]] != [told]:
                raise UsageError(f"document {document_id} has no revision {told}", history)
        row = self._run(connection, "find_revisions", document_id=document_id).fetchone()
        current, before = (row["current_revision"], row["before"]) if row is not None else (None, None)
        old, new = (before if old is None else old), (current if new is None else new)
        if old is None or new is None:
            raise UsageError(f"document {document_id} has no two revisions to compare", history)
        return old, new

    def pages(self, connection: Connection[TupleRow], revision_id: int) -> dict[int, str]:
        """The text of the pages that are done, by page number (from 1)."""
        rows = self._run(connection, "revision_text", revision_id=revision_id)
        return {row["page"]: row["text"] for row in rows}

    def _run(self, connection: Connection[TupleRow], statement: str, **values: Any) -> Cursor[DictRow]:
        cursor = connection.cursor(row_factory=dict_row)
        return cursor.execute(self._sql[statement], {"tenant_id": self._tenant_id, **values})
