"""A real running job in a real database, and the context its handler would be given."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from batchproc.handlers.context import Context
from batchproc.settings import Settings

Conn = Connection[TupleRow]


@dataclass
class RecordingSink:
    """Keeps what a handler says of its progress; ``stop_after`` checkpoints ask it to stop."""

    steps: list[tuple[int, int]] = field(default_factory=list)
    checkpoints: int = 0
    stop_after: int | None = None

    def set(self, done: int, total: int) -> None:
        self.steps.append((done, total))

    def beat(self) -> None:
        pass

    def checkpoint(self) -> None:
        self.checkpoints += 1

    def stopping(self) -> bool:
        return self.stop_after is not None and self.checkpoints >= self.stop_after


def add_tenant(connection: Conn, slug: str = "acme", **settings: Any) -> int:
    """A tenant's id; the tenant is made when it does not exist."""
    return _id(
        connection,
        """
        insert into batchproc.tenants (slug, settings) values (%s, %s)
        on conflict (slug) do update set slug = excluded.slug returning tenant_id
        """,
        [slug, Jsonb(settings)],
    )


def add_document(connection: Conn, tenant_id: int, file: Path | None = None, *, content: bytes = b"") -> int:
    """A pending document: of ``file``, or of ``content`` that is nowhere on disk."""
    body = file.read_bytes() if file else content
    root, path = (bytes(file.parent), bytes(file.relative_to(file.parent))) if file else (b"/nowhere", b"file")
    document_id = _id(
        connection,
        """
        insert into batchproc.documents (tenant_id, root, path, sha256, bytes)
        values (%s, %s, %s, %s, %s) returning document_id
        """,
        [tenant_id, root, path, hashlib.sha256(body).digest(), len(body)],
    )
    connection.execute(
        "insert into batchproc.document_paths (tenant_id, document_id, root, path) values (%s, %s, %s, %s)",
        [tenant_id, document_id, root, path],
    )
    return document_id


def add_text(connection: Conn, tenant_id: int, document_id: int, pages: list[str], source: str = "engine") -> int:
    """A complete, current revision with these pages; its id."""
    revision_id = _id(
        connection,
        """
        insert into batchproc.ocr_revisions
            (tenant_id, document_id, state, source, engine, engine_version, data_hash, profile, languages,
             source_sha256, page_count, completed_at)
        values (%s, %s, 'complete', %s, 'given', '1', '', '{}', '{eng}', '', %s, clock_timestamp())
        returning revision_id
        """,
        [tenant_id, document_id, source, len(pages)],
    )
    for number, text in enumerate(pages, start=1):
        connection.execute(
            """
            insert into batchproc.ocr_pages (revision_id, tenant_id, page, state, job_id, attempt, text, words)
            values (%s, %s, %s, 'ocr', 0, 1, %s, %s)
            """,
            [revision_id, tenant_id, number, text, len(text.split())],
        )
    connection.execute(
        """
        update batchproc.documents set current_revision = %s, status = 'completed', page_count = %s
        where document_id = %s
        """,
        [revision_id, len(pages), document_id],
    )
    return revision_id


def running_job(
    connection: Conn,
    workdir: Path,
    *,
    kind: str,
    tenant_id: int,
    document_id: int | None = None,
    settings: Settings | None = None,
    sink: RecordingSink | None = None,
    attempt: int = 1,
) -> Context:
    """A job in state running, held by a claim of a node that lives, and the context of that attempt."""
    claim_id = uuid4()
    row = connection.execute(
        """
        with node as (
            insert into batchproc.nodes (node_id, lease_until, host, pid, slots, kinds, languages, code_version)
            values (gen_random_uuid(), clock_timestamp() + interval '1 hour', 'test', 1, 1, '{}', '{}', '1')
            returning node_id
        )
        insert into batchproc.processing_jobs
            (tenant_id, document_id, kind, state, attempt, max_attempts, claim_id, node_id, claimed_at)
        select %s, %s, %s, 'running', %s, 5, %s, node_id, clock_timestamp() from node
        returning job_id
        """,
        [tenant_id, document_id, kind, attempt, claim_id],
    ).fetchone()
    assert row is not None
    slug, tenant_settings = _tenant(connection, tenant_id)
    return Context(
        job_id=row[0],
        claim_id=claim_id,
        tenant_id=tenant_id,
        tenant=slug,
        kind=kind,
        attempt=attempt,
        document_id=document_id,
        tenant_settings=tenant_settings,
        workdir=workdir,
        settings=settings or Settings(),
        sink=sink or RecordingSink(),
        connect=lambda: connection,
    )


def claim_again(connection: Conn, ctx: Context, *, attempt: int, sink: RecordingSink | None = None) -> Context:
    """The context of the same job's next attempt: a fresh claim, as after a crash or a rescue."""
    claim_id = uuid4()
    connection.execute(
        "update batchproc.processing_jobs set claim_id = %s, attempt = %s where job_id = %s",
        [claim_id, attempt, ctx.job_id],
    )
    return Context(
        job_id=ctx.job_id,
        claim_id=claim_id,
        tenant_id=ctx.tenant_id,
        tenant=ctx.tenant,
        kind=ctx.kind,
        attempt=attempt,
        document_id=ctx.document_id,
        tenant_settings=ctx.tenant_settings,
        workdir=ctx.workdir,
        settings=ctx.settings,
        sink=sink or RecordingSink(),
        connect=lambda: connection,
    )


def end_job(connection: Conn, ctx: Context, state: str = "discarded") -> None:
    """Ends the job without its handler, as a settle would."""
    connection.execute(
        """
        update batchproc.processing_jobs
        set state = %s, claim_id = null, node_id = null, finished_at = clock_timestamp() where job_id = %s
        """,
        [state, ctx.job_id],
    )


def _tenant(connection: Conn, tenant_id: int) -> tuple[str, dict[str, Any]]:
    row = connection.execute(
        "select slug, settings from batchproc.tenants where tenant_id = %s", [tenant_id]
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def _id(connection: Conn, statement: str, values: list[Any]) -> int:
    row = connection.execute(statement, values).fetchone()
    assert row is not None
    return int(row[0])
