"""Importing: files become documents with a job each, hashed and registered where they lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import EnvironmentFault
from batchproc.core.job import KindSpec, Lane
from batchproc.documents.originals import Original, OriginalError, StorageGone, is_storage_fault, locate
from batchproc.documents.paths import terminal_path
from batchproc.documents.storage_roots import StorageRoots
from batchproc.documents.store import DocumentStore, NewDocument
from batchproc.ops.manifests import BadLine, read_manifest
from batchproc.ops.reviving import KIND as KIND
from batchproc.ops.reviving import DocumentJob, ImportJobs
from batchproc.queue.store import JobStore, Tenant


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What holds for every file of an import.

    ``roots`` are absolute folders that every original must lie below. Without any, the given path becomes one:
    a folder itself, or a file's folder. ``language`` is a hint as of ``batchproc.documents.languages``.
    ``spec`` is the ``ocr`` kind as configured.
    """

    roots: tuple[bytes, ...] = ()
    recursive: bool = False
    language: str | None = None
    with_jobs: bool = True
    lane: Lane = Lane.BULK
    priority: int = 5
    spec: KindSpec | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """A document. ``path`` is the file's full real path; ``sha256`` the digest's 32 bytes.

    ``duplicate``: the tenant had this content already; it got no new job, unless it had failed for its original.
    ``failure_code``: what its last OCR met, if that failed. ``language``: the hint that came with it.
    """

    document_id: int
    job: DocumentJob
    path: bytes
    sha256: bytes
    duplicate: bool
    language: str | None = None
    failure_code: str | None = None

    @property
    def job_id(self) -> int | None:
        """That of its newest job, if there is one."""
        return self.job.job_id


@dataclass(frozen=True, slots=True)
class Rejected:
    """A path that became no document.

    ``failure_code`` is ``source_missing``, ``not_a_file``, ``outside_roots``, ``permission_denied``,
    ``source_changed`` (it is being written to), and of a manifest's line also ``invalid_line`` or
    ``external_id_taken``. ``path`` is absolute; of a line that cannot be read it is ``MANIFEST:LINE``.
    """

    path: bytes
    failure_code: str
    detail: str


@dataclass(slots=True)
class ImportResult:
    """All that came of an import, in order."""

    documents: list[Imported] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)

    def add(self, outcomes: Iterable[Imported | Rejected]) -> ImportResult:
        """Appends ``outcomes`` as they come."""
        for outcome in outcomes:
            if isinstance(outcome, Imported):
                self.documents.append(outcome)
            else:
                self.rejected.append(outcome)
        return self


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A path to try, with what a manifest says of it."""

    path: bytes
    roots: Sequence[bytes]
    external_id: str | None = None
    language: str | None = None
    title: str | None = None


def import_paths(
    connection: Connection[TupleRow],
    store: DocumentStore,
    jobs: JobStore,
    tenant: Tenant,
    paths: Iterable[bytes],
    options: ImportOptions | None = None,
) -> Iterator[Imported | Rejected]:
    """Imports files, and of folders the files in them, one short transaction each, as the result is iterated.

    A folder gives its direct files, or with ``recursive`` all below it, sorted, but not those whose name (or whose
    folder's name) begins with a dot, nor what lies behind symbolic links to folders. A path named outright is
    taken whatever its name.

    Args:
        connection: in autocommit mode.
        store: of any tenant.

    Raises:
        EnvironmentFault: the storage does not answer, or nothing is found and it is not the one it was. What was
            imported until then stays.
    """
    options = options or ImportOptions()
    roots = StorageRoots(store.schema)
    register = _registering(connection, store, jobs, tenant, roots, options)
    for path in map(_absolute, paths):
        empty = True
        for found in _candidates(path, options):
            empty = False
            yield _believed(connection, roots, found) if isinstance(found, Rejected) else register(found)
        if empty:
            _require_storage(connection, roots, path)


def import_manifest(
    connection: Connection[TupleRow],
    store: DocumentStore,
    jobs: JobStore,
    tenant: Tenant,
    manifest: bytes,
    options: ImportOptions | None = None,
) -> Iterator[Imported | Rejected]:
    """Imports the files a manifest names (see ``batchproc.ops.manifests``); otherwise as ``import_paths``.

    Raises:
        UsageError: the manifest cannot be read.
        EnvironmentFault: as there.
    """
    options = options or ImportOptions()
    roots = StorageRoots(store.schema)
    register = _registering(connection, store, jobs, tenant, roots, options)
    for entry in read_manifest(_absolute(manifest)):
        if isinstance(entry, BadLine):
            yield Rejected(entry.place, "invalid_line", entry.reason)
        else:
            allowed = options.roots or (_folder_of(entry.path),)
            yield register(_Candidate(entry.path, allowed, entry.external_id, entry.language, entry.title))


def _candidates(path: bytes, options: ImportOptions) -> Iterator[_Candidate | Rejected]:
    if not os.path.isdir(path):  # noqa: PTH112 - pathlib knows no bytes
        yield _Candidate(path, options.roots or (_folder_of(path),))
        return
    roots = options.roots or (os.path.realpath(path),)
    for found in _files_in(path, options.recursive):
        yield found if isinstance(found, Rejected) else _Candidate(found, roots)


def _files_in(folder: bytes, recursive: bool) -> Iterator[bytes | Rejected]:
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        try:
            with os.scandir(current) as listing:
                entries = sorted((entry for entry in listing if not entry.name.startswith(b".")), key=_name)
        except OSError as error:
            yield _unlisted(current, error)
            continue
        folders = []
        for entry in entries:
            if not _is_folder(entry):
                yield entry.path
            elif not entry.is_symlink():
                folders.append(entry.path)
        if recursive:
            waiting.extend(reversed(folders))


def _unlisted(folder: bytes, error: OSError) -> Rejected:
    """A folder that cannot be listed; raises EnvironmentFault when that is its storage's fault."""
    reason = os.strerror(error.errno or 0)
    if is_storage_fault(error):
        raise _storage_gone(f"{terminal_path(folder)}: {reason}") from None
    return Rejected(folder, "permission_denied" if isinstance(error, PermissionError) else "source_missing", reason)


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    """False also for a link that cannot be followed: tried as a file, it is rejected for the reason."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _believed(connection: Connection[TupleRow], roots: StorageRoots, rejected: Rejected) -> Rejected:
    """What a path was rejected for, where its storage is the one it was; raises EnvironmentFault where it is not."""
    _require_storage(connection, roots, rejected.path)
    return rejected


def _require_storage(connection: Connection[TupleRow], roots: StorageRoots, path: bytes) -> None:
    if (gone := roots.doubt(connection, path)) is not None:
        raise EnvironmentFault(
            gone.summary, "mount it and import again (batchproc storage list); what is imported already stays"
        )


def _storage_gone(reason: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"the storage does not answer: {reason}", "mend it and import again; what is imported already stays"
    )


def _registering(
    connection: Connection[TupleRow],
    store: DocumentStore,
    jobs: JobStore,
    tenant: Tenant,
    roots: StorageRoots,
    options: ImportOptions,
) -> Callable[[_Candidate], Imported | Rejected]:
    made = ImportJobs(jobs, tenant.tenant_id, options.lane, options.priority, options.spec, wanted=options.with_jobs)
    return partial(_import_one, connection, store.of_tenant(tenant.tenant_id), made, roots, options)


def _import_one(
    connection: Connection[TupleRow],
    store: DocumentStore,
    jobs: ImportJobs,
    roots: StorageRoots,
    options: ImportOptions,
    candidate: _Candidate,
) -> Imported | Rejected:
    try:
        location = locate(candidate.path, candidate.roots)
        with Original(location) as original:
            sha256, size = original.steady_sha256()
    except OriginalError as error:
        return _believed(connection, roots, Rejected(candidate.path, error.code, error.detail))
    except StorageGone as error:
        raise _storage_gone(str(error)) from None
    new = NewDocument(
        location.root,
        location.path,
        sha256,
        size,
        candidate.external_id,
        candidate.language or options.language,
        candidate.title,
    )
    try:
        with connection.transaction():
            registered = store.register(connection, new)
            job = jobs.job_of(connection, registered)
    except psycopg.errors.UniqueViolation:
        detail = f"another document of the tenant has the external_id {candidate.external_id!r}"
        return Rejected(candidate.path, "external_id_taken", detail)
    roots.learn(connection, original.folders)
    return Imported(
        registered.document_id,
        job,
        location.full,
        sha256,
        registered.duplicate,
        new.language,
        registered.failure_code,
    )


def _name(entry: os.DirEntry[bytes]) -> bytes:
    return entry.name


def _absolute(path: bytes) -> bytes:
    joined = os.path.join(os.getcwdb(), path)  # noqa: PTH109, PTH118 - pathlib knows no bytes
    # Behind a symbolic link ".." is not what its text says, so it stays for the system to resolve.
    return joined if b".." in joined.split(b"/") else os.path.normpath(joined)


def _folder_of(path: bytes) -> bytes:
    return os.path.realpath(os.path.dirname(path))  # noqa: PTH120 - pathlib knows no bytes
