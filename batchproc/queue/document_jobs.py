"""What the job table knows of a document."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.database import SqlFolder


class DocumentJobs:
    """Looks up jobs by their document."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def latest(self, connection: Connection[TupleRow], tenant_id: int, document_id: int, kind: str) -> int | None:
        """The id of the newest job of ``kind`` on the document, in whatever state; None when there is none."""
        values = {"tenant_id": tenant_id, "document_id": document_id, "kind": kind}
        row = connection.execute(self._sql["latest_document_job"], values).fetchone()
        return None if row is None else int(row[0])
