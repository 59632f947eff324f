"""What the job table knows of a document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.database import SqlFolder


def document_key(document_id: int, *, pilot: bool = False) -> str:
    """The unique key of a job on a document: one of its kind waits at a time, and one pilot beside it."""
    return f"pilot:{document_id}" if pilot else f"document:{document_id}"


class DocumentJobs:
    """Looks up jobs by their document."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def latest_of(
        self, connection: Connection[TupleRow], tenant_id: int, document_ids: Collection[int], kind: str
    ) -> dict[int, int]:
        """The id of the newest job of ``kind``, in whatever state, of those of these documents that have any."""
        values = {"tenant_id": tenant_id, "document_ids": list(document_ids), "kind": kind}
        return dict(connection.execute(self._sql["latest_document_jobs"], values).fetchall()) if document_ids else {}

    def waiting(
        self, connection: Connection[TupleRow], kind: str, document_ids: Collection[int], *, pilots: bool = False
    ) -> Mapping[int, list[dict[str, Any]]]:
        """The args of the jobs of ``kind`` that wait, held ones too, of those of these documents that have any.

        What a large document was split into counts as one job, with a ``range`` in its args. Those alike come once.
        Whoever enqueued them: they need not have the ``document_key``. One that runs is not meant: it may have begun
        before whatever makes its work worth doing again. Either ``pilots`` alone are meant, or all others: the one does
        not do the work of the other.
        """
        values = {"kind": kind, "document_ids": list(document_ids), "pilots": pilots}
        found: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for document_id, args in connection.execute(self._sql["waiting_documents"], values).fetchall():
            found[document_id].append(args)
        return dict(found)
