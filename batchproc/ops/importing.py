"""Importing: files become documents with a job each, hashed and registered where they lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.kinds import OCR
from batchproc.documents.originals import is_storage_fault
from batchproc.documents.paths import terminal_path
from batchproc.documents.store import DocumentStore
from batchproc.ops.campaigning import CampaignMaking
from batchproc.ops.files_below import Unlisted, files_below
from batchproc.ops.import_batches import Found, ImportBatches, Outcome, storage_gone
from batchproc.ops.imported import Candidate, Imported, ImportOptions, Rejected
from batchproc.ops.manifests import BadLine, read_manifest
from batchproc.ops.reviving import ImportJobs
from batchproc.queue.store import JobStore, Tenant

__all__ = ["Import", "ImportOptions", "Imported", "Rejected", "import_manifest", "import_paths"]


class Import:
    """One import of a tenant: of paths, of manifests, or of both.

    Files are read one after the other and written in batches, as the outcomes are iterated; no more than a batch is
    ever held in memory. Given again, it goes on where it was cut short: files that have not changed since are not read
    again.

    Attributes:
        folders_left_out: how many there were in the folders that were gone through, for want of ``recursive``.

    Args:
        connection: in autocommit mode.
        store: of any tenant.
    """

    def __init__(
        self,
        connection: Connection[TupleRow],
        store: DocumentStore,
        jobs: JobStore,
        tenant: Tenant,
        options: ImportOptions | None = None,
    ) -> None:
        self._connection = connection
        self._options = options or ImportOptions()
        self.folders_left_out = 0
        self._campaign = CampaignMaking(store.schema, self._options.command, OCR, tenant.slug)
        made = ImportJobs(
            jobs,
            tenant.tenant_id,
            self._options.lane,
            self._options.priority,
            self._options.spec,
            wanted=self._options.with_jobs,
        )
        self._batches = ImportBatches(
            connection, store.of_tenant(tenant.tenant_id), made, self._campaign, self._options
        )

    @property
    def campaign_id(self) -> int | None:
        """The campaign of the jobs that were enqueued, if there are any."""
        return self._campaign.campaign_id

    def paths(self, paths: Iterable[bytes]) -> Iterator[Outcome]:
        """Imports files, and of folders the files in them, in order.

        A folder gives its direct files, or with ``recursive`` all below it, sorted, but not those whose name (or whose
        folder's name) begins with a dot, nor what lies behind symbolic links to folders, or links that lead out of the
        folder. A path named outright is taken whatever its name, and wherever below the roots it leads.

        Raises:
            StorageFault: the storage does not answer, or nothing is found and it is not the one it was. What was
                imported until then stays.
            UsageError: somebody has cancelled the campaign.
        """
        return self._batches.outcomes(self._found(paths))

    def manifest(self, manifest: bytes) -> Iterator[Outcome]:
        """Imports the files a manifest names (see ``batchproc.ops.manifests``); otherwise as ``paths``.

        Raises:
            UsageError: the manifest cannot be read.
        """
        return self._batches.outcomes(self._listed(manifest))

    def these(self, found: Iterable[Found], reading: Callable[[], None]) -> Iterator[Outcome]:
        """Imports what somebody else has found; one outcome for each, in order. Otherwise as ``paths``.

        Args:
            reading: see ``ImportBatches.outcomes``.
        """
        return self._batches.outcomes(found, reading)

    def roots_of(self, folder: bytes) -> Sequence[bytes]:
        """What files in the folder have to lie below."""
        return self._options.roots or (os.path.realpath(folder),)

    def require_storage(self, path: bytes) -> None:
        """Raises StorageFault where it cannot be believed that nothing is at ``path``."""
        self._batches.require_storage(path)

    def finish(self) -> None:
        """Notes with the campaign that nothing more is to come."""
        self._campaign.finish(self._connection)

    def _found(self, paths: Iterable[bytes]) -> Iterator[Found]:
        for path in map(absolute, paths):
            empty = True
            for found in self._candidates(path):
                empty = False
                yield found
            if empty:
                self._batches.require_storage(path)

    def _candidates(self, path: bytes) -> Iterator[Found]:
        if not os.path.isdir(path):  # noqa: PTH112 - pathlib knows no bytes
            yield Candidate(path, self._options.roots or (_folder_of(path),))
            return
        roots = self.roots_of(path)
        for found in files_below(path, recursive=self._options.recursive, left_out=self._leave_out):
            yield self._unlisted(found) if isinstance(found, Unlisted) else Candidate(found, roots, within=path)

    def _leave_out(self) -> None:
        self.folders_left_out += 1

    def _unlisted(self, folder: Unlisted) -> Rejected:
        """A folder that cannot be listed; raises StorageFault when that is its storage's fault."""
        reason = os.strerror(folder.error.errno or 0)
        if is_storage_fault(folder.error):
            raise storage_gone(f"{terminal_path(folder.path)}: {reason}")
        self._batches.require_storage(folder.path)
        code = "permission_denied" if isinstance(folder.error, PermissionError) else "source_missing"
        return Rejected(folder.path, code, reason)

    def _listed(self, manifest: bytes) -> Iterator[Found]:
        for entry in read_manifest(absolute(manifest)):
            if isinstance(entry, BadLine):
                yield Rejected(entry.place, "invalid_line", entry.reason)
            else:
                allowed = self._options.roots or (_folder_of(entry.path),)
                yield Candidate(entry.path, allowed, entry.external_id, entry.language, entry.title)


def import_paths(
    connection: Connection[TupleRow],
    store: DocumentStore,
    jobs: JobStore,
    tenant: Tenant,
    paths: Iterable[bytes],
    options: ImportOptions | None = None,
) -> Iterator[Outcome]:
    """See ``Import.paths``."""
    return Import(connection, store, jobs, tenant, options).paths(paths)


def import_manifest(
    connection: Connection[TupleRow],
    store: DocumentStore,
    jobs: JobStore,
    tenant: Tenant,
    manifest: bytes,
    options: ImportOptions | None = None,
) -> Iterator[Outcome]:
    """See ``Import.manifest``."""
    return Import(connection, store, jobs, tenant, options).manifest(manifest)


def absolute(path: bytes) -> bytes:
    """The path from the root of the file system, whatever the working folder becomes."""
    joined = os.path.join(os.getcwdb(), path)  # noqa: PTH109, PTH118 - pathlib knows no bytes
    # Behind a symbolic link ".." is not what its text says, so it stays for the system to resolve.
    return joined if b".." in joined.split(b"/") else os.path.normpath(joined)


def _folder_of(path: bytes) -> bytes:
    return os.path.realpath(os.path.dirname(path))  # noqa: PTH120 - pathlib knows no bytes
