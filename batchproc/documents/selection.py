"""Choosing documents by what their last OCR left, in slices of any archive's size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from batchproc.database import SqlFolder
from batchproc.documents.store import Status


@dataclass(frozen=True, slots=True)
class Filter:
    """What a document has to be, all of it; None leaves a point open.

    ``below_confidence``: 0 to 100, of the current revision, and so only documents of which a page was recognised; one
    on which no word was found is below any.
    ``engine_versions``: of the current revision, exactly, or of pages that were taken over into it.
    ``failure_codes``: what the last OCR of the document met; it may have kept the text of an earlier one.
    """

    tenant_id: int | None = None
    document_ids: Sequence[int] | None = None
    statuses: Sequence[Status] | None = None
    below_confidence: float | None = None
    engine_versions: Sequence[str] | None = None
    failure_codes: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Selected:
    """A document that fits. ``has_text``: it has a current revision; ``by_person``: a person made that."""

    document_id: int
    tenant_id: int
    status: Status
    failure_code: str | None
    has_text: bool
    by_person: bool


class DocumentSelection:
    """Reads documents of all tenants, paused ones too."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.documents", schema)

    def slice(self, connection: Connection[TupleRow], chosen: Filter, *, after: int, limit: int) -> list[Selected]:
        """At most ``limit`` documents in order of their ids, from the first id above ``after``."""
        values = {
            "tenant_id": chosen.tenant_id,
            "document_ids": None if chosen.document_ids is None else list(chosen.document_ids),
            "statuses": None if chosen.statuses is None else list(chosen.statuses),
            "below_confidence": chosen.below_confidence,
            "engine_versions": None if chosen.engine_versions is None else list(chosen.engine_versions),
            "failure_codes": None if chosen.failure_codes is None else list(chosen.failure_codes),
            "after": after,
            "limit": limit,
        }
        cursor = connection.cursor(row_factory=class_row(Selected))
        # Never prepared: the best plan depends on which points are open.
        return cursor.execute(self._sql["select_documents"], values, prepare=False).fetchall()

    def engine_versions(self, connection: Connection[TupleRow]) -> list[str]:
        """Every version of an engine that complete revisions were made with."""
        return [row[0] for row in connection.execute(self._sql["engine_versions"]).fetchall()]
