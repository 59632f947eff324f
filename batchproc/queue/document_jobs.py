"""What the job table knows of a document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.database import SqlFolder


def document_key(document_id: int) -> str:
    """The unique key of a kind's job on a document: one waits at a time, whoever enqueued it."""
    return f"document:{document_id}"


class DocumentJobs:
    """Looks up jobs by their document."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def latest(self, connection: Connection[TupleRow], tenant_id: int, document_id: int, kind: str) -> int | None:
        """The id of the newest job of ``kind`` on the document, in whatever state; None when there is none."""
        values = {"tenant_id": tenant_id, "document_id": document_id, "kind": kind}
        row = connection.execute(self._sql["latest_document_job"], values).fetchone()
        return None if row is None else int(row[0])

    def waiting(
        self, connection: Connection[TupleRow], kind: str, document_ids: Collection[int]
    ) -> Mapping[int, list[dict[str, Any]]]:
        """The args of the jobs of ``kind`` that wait, held ones too, of those of these documents that have any.

        What a large document was split into counts as one job, with a ``range`` in its args. Those alike come once.
        Whoever enqueued them: they need not have the ``document_key``. One that runs is not meant: it may have begun
        before whatever makes its work worth doing again.
        """
        values = {"kind": kind, "document_ids": list(document_ids)}
        found: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for document_id, args in connection.execute(self._sql["waiting_documents"], values).fetchall():
            found[document_id].append(args)
        return dict(found)
