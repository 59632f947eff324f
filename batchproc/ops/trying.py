"""One file through the real thing, in a schema of its own: nothing of it is left in the archive, whatever it does.

The tenant that it is tried for is copied there with its settings, so that it is read in that tenant's languages and
by its rules. What a handler or a workflow rule does outside the database is done all the same.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import UsageError
from batchproc.core.job import Lane
from batchproc.core.kinds import CLASSIFY, OCR, WORKFLOW
from batchproc.core.shown_text import one_line
from batchproc.database import connect
from batchproc.documents.listing import DocumentListing, ListedDocument
from batchproc.documents.store import DocumentStore
from batchproc.engine.ready import Scope
from batchproc.handlers import registry
from batchproc.handlers.registry import Registry
from batchproc.ops.enqueueing import JobLine, new_job
from batchproc.ops.importing import Imported, ImportOptions, import_paths
from batchproc.ops.scratch_schema import scratch_schema
from batchproc.queue.store import JobStore, Tenant
from batchproc.settings import KindOverride, Settings

TENANT = "trial"
"""What the tenant is called when no one's settings are asked for."""

_CHAIN = (OCR, CLASSIFY, WORKFLOW)
"""Kinds whose jobs follow each other by themselves."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of the file. ``pages``: the text of each page; ``fields`` as the document has them."""

    document: ListedDocument
    fields: dict[str, Any]
    pages: list[str]


@dataclass(frozen=True, slots=True)
class Trial:
    """A file as the only document of a schema. ``settings`` name that schema."""

    settings: Settings
    database_url: str
    handlers: Registry
    document_id: int
    tenant: Tenant

    def stages(self, kinds: Sequence[str]) -> Iterator[Scope]:
        """What to run, one after the other: all that follows an import, or, with ``kinds``, only what these ask for:
        the reading, what it is followed by up to the last of them, and then a job of each other one, which is
        enqueued as its turn comes.

        Raises:
            UsageError: a kind's args cannot be left out.
        """
        if not kinds:
            yield Scope()
            return
        last = max((_CHAIN.index(kind) for kind in kinds if kind in _CHAIN), default=0)
        yield Scope(kinds=frozenset(_CHAIN[: last + 1]))
        for kind in dict.fromkeys(kinds):
            if kind not in _CHAIN:
                self._enqueue(kind)
                yield Scope(kinds=frozenset([kind]))

    def result(self) -> Tried:
        """The document as it is now."""
        schema = self.settings.database.schema_name
        store = DocumentStore(schema, tenant_id=self.tenant.tenant_id)
        with connect(self.database_url) as connection:
            listed = DocumentListing(schema).one(connection, self.document_id)
            fields = store.load(connection, self.document_id).fields
            return Tried(listed, fields, store.text(connection, self.document_id))

    def _enqueue(self, kind: str) -> None:
        line = JobLine(document_id=self.document_id)
        job = new_job(self.handlers, self.tenant, kind, line, lane=None, priority=5)
        with connect(self.database_url) as connection:
            JobStore(self.settings.database.schema_name).enqueue(connection, job, self.handlers[kind].spec)


@contextmanager
def trial(
    settings: Settings,
    database_url: str,
    direct_url: str,
    file: Path,
    tenant: Tenant | None,
    kinds: Collection[str] = (),
) -> Iterator[Trial]:
    """Imports ``file`` into a fresh schema, which is dropped at the end. A job there has one attempt.

    Args:
        settings: those in use; storage roots of theirs do not bind a file that is only tried.
        direct_url: the database past a transaction pooler.
        tenant: whose settings and rules hold; None: those of a tenant without any.
        kinds: that will be asked for.

    Raises:
        UsageError: the file cannot be read, or no handler declares one of the kinds.
        EnvironmentFault: the storage or the database does not answer.
    """
    handlers = registry.for_settings(settings)
    _require_known(kinds, handlers)
    with scratch_schema(direct_url, "trial") as schema:
        own = _tried_once(settings, handlers, schema)
        handlers = registry.for_settings(own)
        with connect(database_url) as connection:
            copy = _copied(connection, JobStore(schema), tenant)
            document_id = _imported(connection, schema, copy, file, handlers)
        yield Trial(own, database_url, handlers, document_id, copy)


def _tried_once(settings: Settings, handlers: Registry, schema: str) -> Settings:
    """Those of the trial: whoever looks on sees a failure once, and waits for no backoff."""
    kinds = {kind: settings.kinds.get(kind, KindOverride()).model_copy(update={"max_attempts": 1}) for kind in handlers}
    return settings.model_copy(
        update={"database": settings.database.model_copy(update={"schema_name": schema}), "kinds": kinds}
    )


def _copied(connection: Connection[TupleRow], jobs: JobStore, tenant: Tenant | None) -> Tenant:
    slug = TENANT if tenant is None else tenant.slug
    made = jobs.add_tenant(connection, slug)
    if tenant is None or not tenant.settings:
        return made
    return jobs.set_tenant(connection, slug, settings=tenant.settings)


def _imported(connection: Connection[TupleRow], schema: str, tenant: Tenant, file: Path, handlers: Registry) -> int:
    options = ImportOptions(lane=Lane.INTERACTIVE, spec=handlers[OCR].spec)
    store = DocumentStore(schema, tenant_id=None)
    path = os.fsencode(file)
    [outcome] = list(import_paths(connection, store, JobStore(schema), tenant, [path], options))
    if isinstance(outcome, Imported):
        return outcome.document_id
    raise UsageError(
        f"{one_line(str(file))} cannot be tried: {outcome.failure_code}: {one_line(outcome.detail)}",
        "name a file that this user can read",
    )


def _require_known(kinds: Collection[str], handlers: Registry) -> None:
    unknown = sorted(set(kinds) - set(handlers))
    if unknown:
        raise UsageError(f"no handler declares kind {', '.join(unknown)}", f"known: {', '.join(sorted(handlers))}")
