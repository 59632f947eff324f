"""Files become documents in batches: what was read within a second is written in one transaction.

Whatever is cut short is given again: what was written stays, and is known again without being read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import BatchprocError, EnvironmentFault
from batchproc.documents.file_stamp import FileStamp
from batchproc.documents.originals import Location, Original, OriginalError, StorageGone, locate
from batchproc.documents.paths import terminal_path
from batchproc.documents.registration import NewDocument, Registered, Unchanged
from batchproc.documents.storage_roots import StorageRoots
from batchproc.documents.store import DocumentStore
from batchproc.ops.campaigning import CampaignMaking
from batchproc.ops.imported import Candidate, Imported, ImportOptions, Rejected
from batchproc.ops.reviving import MENDED_BY_IMPORT, DocumentJob, ImportJobs

FILES = 250
"""In a batch: with fewer, the commit is a good part of what a small file costs."""
_SECONDS = 1.0
"""Of reading, after which a batch is written although it has fewer files."""


_LONG_SECONDS = 10.0


class StopReading(Exception):
    """Raised by whoever is called while a large file is read, and wants no more of it."""


class StorageFault(EnvironmentFault):
    """The storage does not answer, or is not the one it was."""


Found = Candidate | Rejected
Outcome = Imported | Rejected


@dataclass(frozen=True, slots=True)
class _Read:
    """A file whose content is known. ``registered``: as what, where nothing is to be written for it."""

    candidate: Candidate
    new: NewDocument
    was_read: bool
    registered: Registered | None = None


class ImportBatches:
    """Registers files of one tenant and enqueues their jobs.

    Args:
        connection: in autocommit mode.
        store: of the tenant.
    """

    def __init__(
        self,
        connection: Connection[TupleRow],
        store: DocumentStore,
        jobs: ImportJobs,
        campaign: CampaignMaking,
        options: ImportOptions,
    ) -> None:
        self._connection = connection
        self._store = store
        self._jobs = jobs
        self._campaign = campaign
        self._options = options
        self._roots = StorageRoots(store.schema)
        self._reading: Callable[[], None] = lambda: None

    def outcomes(self, found: Iterable[Found], reading: Callable[[], None] = lambda: None) -> Iterator[Outcome]:
        """What comes of each, in order.

        Args:
            reading: called every few megabytes; it may raise StopReading, and what was read before is kept.

        Raises:
            StopReading: as ``reading`` does.
            StorageFault: the storage does not answer, or is not the one it was.
            UsageError: somebody has cancelled the campaign.
        """
        self._reading = reading
        for batch in _batches(found, FILES):
            yield from self._batch(batch)

    def require_storage(self, path: bytes) -> None:
        """Raises StorageFault where it cannot be believed that nothing is at ``path``."""
        if (gone := self._roots.doubt(self._connection, path)) is not None:
            raise StorageFault(
                gone.summary, "mount it and import again (batchproc storage list); what is imported already stays"
            )

    def _batch(self, batch: Sequence[Found]) -> Iterator[Outcome]:
        waiting: list[_Read | Rejected] = []
        since = time.monotonic()
        try:
            for found in self._read(batch):
                waiting.append(found)
                if time.monotonic() - since > _SECONDS:
                    written, waiting = waiting, []
                    yield from self._written(written)
                    since = time.monotonic()
        except (StorageFault, StopReading):
            yield from self._written(waiting)
            raise
        yield from self._written(waiting)

    # -- reading

    def _read(self, batch: Sequence[Found]) -> Iterator[_Read | Rejected]:
        located = [_located(found) for found in batch]
        known = self._unchanged([place for place in located if isinstance(place, Location)])
        for found, place in zip(batch, located, strict=True):
            if isinstance(found, Rejected):
                yield found
                continue
            assert place is not None
            try:
                if not isinstance(place, Location):
                    raise place
                yield self._content(found, place, known.get(place))
            except OriginalError as error:
                self.require_storage(found.path)
                yield Rejected(found.path, error.code, error.detail)
            except StorageGone as error:
                raise storage_gone(str(error)) from None

    def _unchanged(self, places: Sequence[Location]) -> dict[Location, Unchanged]:
        if self._options.reread:
            return {}
        now = time.time_ns()
        stamps = [(place, stamp) for place in places if (stamp := _stamp_at(place)) is not None and stamp.tells(now)]
        return self._store.unchanged(self._connection, stamps)

    def _content(self, candidate: Candidate, location: Location, known: Unchanged | None) -> _Read:
        with Original(location) as original:
            stamp = FileStamp.of(os.fstat(original.descriptor))
            tells = stamp.tells(time.time_ns())
            unchanged = known if known is not None and known.stamp == stamp else None
            if unchanged is not None:
                sha256, size = unchanged.sha256, stamp.bytes
            else:
                self._require_content(original, stamp)
                sha256, size = original.steady_sha256(self._told_of_long(location))
                tells = tells and not original.touched()
        self._roots.learn(self._connection, original.folders)
        new = NewDocument(
            location.root,
            location.path,
            sha256,
            size,
            candidate.external_id,
            candidate.language or self._options.language,
            candidate.title,
            stamp if tells else None,
        )
        registered = unchanged.registered if unchanged is not None and _is_settled(new, unchanged) else None
        return _Read(candidate, new, unchanged is None, registered)

    def _require_content(self, original: Original, stamp: FileStamp) -> None:
        most = self._options.max_bytes
        if most is not None and stamp.bytes > most and original.is_mostly_hole():
            detail = f"it claims to have {stamp.bytes:,} bytes, most of which were never written"
            raise OriginalError("too_large", detail)

    def _told_of_long(self, location: Location) -> Callable[[], None]:
        """Called while a file is read: says once of one that takes long which it is."""
        tell_at = [time.monotonic() + _LONG_SECONDS]

        def reading() -> None:
            self._reading()
            if tell_at and time.monotonic() > tell_at[0]:
                tell_at.clear()
                logger.info("{} is large, or its storage slow: still reading it", terminal_path(location.full))

        return reading

    # -- writing

    def _written(self, found: Sequence[_Read | Rejected]) -> Iterator[Outcome]:
        imported = iter(self._register([one for one in found if isinstance(one, _Read)]))
        for one in found:
            yield one if isinstance(one, Rejected) else next(imported)

    def _register(self, read: Sequence[_Read]) -> Sequence[Outcome]:
        if not read:
            return []
        try:
            return self._register_together(read)
        except psycopg.errors.UniqueViolation:
            if len(read) == 1:
                detail = f"another document of the tenant has the external_id {read[0].new.external_id!r}"
                return [Rejected(read[0].candidate.path, "external_id_taken", detail)]
        except psycopg.errors.DeadlockDetected:  # somebody imports the same contents in another order
            if len(read) == 1:
                raise
        return [outcome for one in read for outcome in self._register([one])]

    def _register_together(self, read: Sequence[_Read]) -> list[Outcome]:
        with self._campaign.transaction(self._connection):
            written = iter(
                self._store.register_all(self._connection, [one.new for one in read if one.registered is None])
            )
            registered = [one.registered or next(written) for one in read]
            jobs = self._jobs.jobs_of(self._connection, registered, self._campaign)
        return [_imported(*one) for one in zip(read, registered, jobs, strict=True)]


def storage_gone(reason: str) -> StorageFault:
    """What ends an import whose storage does not answer."""
    return StorageFault(
        f"the storage does not answer: {reason}", "mend it and import again; what is imported already stays"
    )


def _batches(found: Iterable[Found], size: int) -> Iterator[list[Found]]:
    """So many at a time; what was found before an error comes before it."""
    batch: list[Found] = []
    try:
        for one in found:
            batch.append(one)
            if len(batch) == size:
                yield batch
                batch = []
    except BatchprocError:
        yield batch
        raise
    yield batch


def _located(found: Found) -> Location | OriginalError | StorageGone | None:
    """Where it lies, or why that cannot be said; None of what was rejected before."""
    if isinstance(found, Rejected):
        return None
    try:
        return locate(found.path, found.roots, found.within)
    except (OriginalError, StorageGone) as error:
        return error


def _stamp_at(location: Location) -> FileStamp | None:
    try:
        return FileStamp.of(os.stat(location.full, follow_symlinks=False))  # noqa: PTH116 - pathlib knows no bytes
    except OSError:
        return None  # opening it will say why


def _is_settled(new: NewDocument, unchanged: Unchanged) -> bool:
    """Whether the document knows of the file all that there is, and needs no job for having been found again."""
    return not unchanged.lacks(new) and unchanged.registered.failure_code not in MENDED_BY_IMPORT


def _imported(read: _Read, registered: Registered, job: DocumentJob) -> Imported:
    new = read.new
    return Imported(
        registered.document_id,
        job,
        Location(new.root, new.path).full,
        new.sha256,
        registered.duplicate,
        new.language,
        registered.failure_code,
        new.bytes,
        read.was_read,
    )
