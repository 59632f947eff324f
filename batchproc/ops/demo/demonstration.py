"""The demo: a few documents of three tenants through the real thing, and how well they were read.

It works in the database in use, on tenants of its own (``demo-...``), whose documents are drawn afresh each time.
Nothing is ever deleted, and only jobs of these tenants are run.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.core.job import Claim
from batchproc.core.kinds import OCR
from batchproc.core.outcome import Completed, Failed, Outcome
from batchproc.documents.listing import DocumentListing
from batchproc.documents.store import DocumentStore
from batchproc.engine.node import Node, RunOptions
from batchproc.engine.ready import Scope
from batchproc.handlers import registry
from batchproc.ops.demo.documents import MANIFEST, MARK, TENANTS, DemoDocument, draw
from batchproc.ops.demo.report import DemoReport, Processed, report
from batchproc.ops.importing import Imported, ImportOptions, import_manifest
from batchproc.queue.inspection import Inspection
from batchproc.queue.store import JobStore, Tenant
from batchproc.settings import Settings, Storage, Taxonomy, Workflows

_PATIENCE = 60.0
_POLL = 0.2
_FINAL = frozenset({"completed", "discarded", "cancelled"})


class Demo:
    """One demo.

    Args:
        settings: those in use. Their rules and storage roots are not used: a rule may set something in motion that is
            not meant for made-up documents.
        home: batchproc's folder; the files go to a new folder below ``demo`` in it.
        tell: is told what goes on, a line at a time.
    """

    def __init__(
        self,
        settings: Settings,
        database_url: str,
        direct_url: str,
        home: Path,
        *,
        workers: int,
        tell: Callable[[str], None],
    ) -> None:
        own = {"storage": Storage(), "taxonomy": Taxonomy(), "workflows": Workflows()}
        self._settings = settings.model_copy(update=own)
        self._database_url = database_url
        self._direct_url = direct_url
        self._home = home
        self._workers = workers
        self._tell = tell
        schema = settings.database.schema_name
        self._jobs = JobStore(schema)
        self._documents = DocumentStore(schema, tenant_id=None)
        self._listing = DocumentListing(schema)
        self._inspection = Inspection(schema)

    def run(self, connection: Connection[TupleRow]) -> DemoReport:
        """Draws, imports, runs and compares.

        Args:
            connection: to a migrated database, in autocommit mode.

        Raises:
            UsageError: a tenant of the demo's name has documents that are not the demo's.
            EnvironmentFault: the folder cannot be written, or what ``Node.run`` raises.
        """
        started = time.monotonic()
        tenants = [self._tenant(connection, slug) for slug in TENANTS]
        folder = self._new_folder()
        drawn = self._draw(folder)
        imported = [self._import(connection, tenant, folder) for tenant in tenants]
        found = {document.path: document for documents in imported for document in documents}
        self._tell(f"imported {len(found)} documents of {len(tenants)} tenants, to be read {self._workers} at a time")
        self._run_node(tenants, {one.job_id: drawn[path] for path, one in found.items()})
        self._await_other_nodes(connection, found.values())
        processed = [self._processed(connection, document, found.get(path)) for path, document in drawn.items()]
        return report(processed, folder, self._workers, time.monotonic() - started)

    def _tenant(self, connection: Connection[TupleRow], slug: str) -> Tenant:
        try:
            return self._jobs.add_tenant(connection, slug)
        except UsageError:
            tenant = self._jobs.tenant(connection, slug)
        first = self._listing.slice(connection, tenant_id=tenant.tenant_id, limit=1).documents
        if first and not (first[0].external_id or "").startswith(f"{MARK}:"):
            raise UsageError(
                f"tenant {slug} has documents that are not the demo's, which would be run with it",
                "run the demo in a schema of its own: BATCHPROC_DATABASE__SCHEMA=batchproc_demo batchproc demo",
            )
        return tenant

    def _new_folder(self) -> Path:
        parent = self._home / "demo"
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            parent.mkdir(mode=0o700, exist_ok=True)
            # For its owner only, whatever the umask.
            return Path(tempfile.mkdtemp(prefix=f"{datetime.now():%Y%m%d-%H%M%S}-", dir=parent.resolve()))
        except OSError as error:
            raise EnvironmentFault(
                f"cannot make a folder below {parent}: {error.strerror}", "set BATCHPROC_HOME to a folder of yours"
            ) from None

    def _draw(self, folder: Path) -> dict[bytes, DemoDocument]:
        self._tell(f"drawing scans into {folder}")
        try:
            return {os.fsencode(document.path): document for document in draw(folder, secrets.randbits(64))}
        except OSError as error:
            raise EnvironmentFault(
                f"cannot write scans into {folder}: {error.strerror}", "make room there, or set BATCHPROC_HOME"
            ) from None

    def _import(self, connection: Connection[TupleRow], tenant: Tenant, folder: Path) -> list[Imported]:
        spec = registry.for_settings(self._settings)[OCR].spec
        options = ImportOptions(roots=(os.fsencode(folder),), spec=spec)
        manifest = os.fsencode(folder / tenant.slug / MANIFEST)
        outcomes = import_manifest(connection, self._documents, self._jobs, tenant, manifest, options)
        return [outcome for outcome in outcomes if isinstance(outcome, Imported)]

    def _run_node(self, tenants: Sequence[Tenant], documents: Mapping[int | None, DemoDocument]) -> None:
        def observe(claim: Claim, outcome: Outcome, seconds: float) -> None:
            document = documents.get(claim.job_id)
            if document is not None:
                self._tell(f"  {document.tenant}/{document.path.name}: {_described(outcome)} after {seconds:.1f} s")

        scope = Scope(tenant_ids=frozenset(tenant.tenant_id for tenant in tenants))
        node = Node(self._settings, self._database_url, self._direct_url, observe)
        node.run(RunOptions(workers=self._workers, scope=scope))

    def _await_other_nodes(self, connection: Connection[TupleRow], imported: Collection[Imported]) -> None:
        """A service that runs beside the demo may have taken some of its jobs, and then what follows them, too."""
        give_up = time.monotonic() + _PATIENCE
        is_elsewhere = False
        while time.monotonic() < give_up:
            states = {job["state"] for document in imported for job in self._jobs_of(connection, document)}
            is_elsewhere = is_elsewhere or "running" in states
            if states <= _FINAL or not is_elsewhere:
                return
            time.sleep(_POLL)

    def _jobs_of(self, connection: Connection[TupleRow], document: Imported) -> list[dict[str, Any]]:
        return self._inspection.jobs(connection, document_id=document.document_id)

    def _processed(self, connection: Connection[TupleRow], drawn: DemoDocument, imported: Imported | None) -> Processed:
        if imported is None:
            return Processed(drawn)
        jobs = self._jobs_of(connection, imported)
        attempts = [attempt for job in jobs for attempt in self._inspection.job(connection, job["job_id"])["attempts"]]
        return Processed(
            drawn,
            self._documents.load(connection, imported.document_id),
            tuple(self._documents.text(connection, imported.document_id)),
            tuple(job["job_id"] for job in jobs if job["state"] not in _FINAL),
            sum(attempt["seconds"] for attempt in attempts),
        )


def _described(outcome: Outcome) -> str:
    match outcome:
        case Completed():
            return "read"
        case Failed(code=code):
            return code
        case _:
            return type(outcome).__name__.lower()
