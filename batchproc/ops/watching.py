"""Watching folders that scanners write into: each file is imported once it has come to rest."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import BatchprocError
from batchproc.database import is_lost
from batchproc.documents.file_stamp import FileStamp
from batchproc.documents.original_faults import is_storage_fault
from batchproc.documents.paths import terminal_path
from batchproc.engine.outage import Outage
from batchproc.ops.files_below import Unlisted, files_below
from batchproc.ops.import_batches import Outcome, StopReading, StorageFault, storage_gone
from batchproc.ops.imported import Candidate, Rejected
from batchproc.ops.importing import Import
from batchproc.ops.open_writers import FRESH, OpenWriters
from batchproc.ops.resting import Resting

UNFINISHED = (b".part", b".partial", b".filepart", b".tmp", b".crdownload")
"""Endings of names, in small letters or capitals, that a program gives to what it still writes and takes away later."""

_LOOKS_PER_SETTLE = 2
_SHORTEST = 0.1
_LONGEST = 60.0
_SHARE = 4
"""Looking takes no more than one part in so many and one of the time, however many files there are."""

_Tried = tuple[bytes, FileStamp]


class Watch:
    """Imports what comes to rest in folders, until it is stopped.

    A storage that is gone is waited for, and so is a database, for as long as the settings let a node wait for it.
    What was seen of files is remembered meanwhile, so nothing is imported half or twice.

    Args:
        folders: absolute paths.
        begin: makes the import on a connection.
        settle: seconds that a file has to stay as it is, without anybody who has it open for writing.
        outage_limit: seconds that the database may fail.
        wait: waits for so many seconds, or until it is stopped; whether it is stopped.
        alive: is called for every file that is looked at.
    """

    def __init__(
        self,
        folders: Sequence[bytes],
        begin: Callable[[Connection[TupleRow]], Import],
        *,
        recursive: bool,
        settle: float,
        outage_limit: float,
        wait: Callable[[float], bool],
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._folders = folders
        self._begin = begin
        self._recursive = recursive
        self._every = max(_SHORTEST, settle / _LOOKS_PER_SETTLE)
        self._outage = Outage(outage_limit, advice="start it again when the database is mended")
        self._wait = wait
        self._alive = alive
        self._resting = Resting(settle)
        # A file that rests was opened before the settling began: a look from within that time knows of it.
        self._writers = OpenWriters(min(FRESH, settle / 2))
        self._gone: str | None = None
        self._unlisted: set[bytes] = set()

    def outcomes(self, connect: Callable[[], Connection[TupleRow]]) -> Iterator[Outcome]:
        """What comes of each file, in the order in which they come to rest.

        Raises:
            EnvironmentFault: the database failed for longer than the limit.
            UsageError: it lacks migrations, or the tenant.
        """
        while not self._wait(0):
            try:
                with connect() as connection:
                    yield from self._looks(self._begin(connection))
            except (psycopg.Error, BatchprocError) as error:
                if not is_lost(error):
                    raise
                self._outage.failed(error)
                self._wait(self._every)

    def _looks(self, work: Import) -> Iterator[Outcome]:
        """Looks until it is stopped."""
        pause = 0.0
        while not self._wait(pause):
            since = _now()
            try:
                yield from self._look(work)
                self._outage.over()
                self._is_back()
                pause = max(self._every, _SHARE * (_now() - since))
            except StorageFault as fault:
                self._is_gone(fault)
                pause = min(_LONGEST, max(self._every, 2 * pause))

    def _look(self, work: Import) -> Iterator[Outcome]:
        """Goes through all files once."""
        tried: deque[_Tried] = deque()
        self._resting.begin()
        with contextlib.suppress(StopReading):
            for outcome in work.these(self._at_rest(work, tried), self._reading):
                told = self._settled(outcome, *tried.popleft())
                if told is not None:
                    yield told
                if self._wait(0):
                    return
            self._resting.end()

    def _reading(self) -> None:
        """A large file must not keep a stop, nor whoever watches over this process, waiting."""
        self._alive()
        if self._wait(0):
            raise StopReading

    def _settled(self, outcome: Outcome, path: bytes, stamp: FileStamp) -> Outcome | None:
        """Takes note of what became of a file; gives what is new of it."""
        if isinstance(outcome, Rejected):
            was_taken_away = outcome.failure_code == "source_missing" and not os.path.lexists(path)
            if was_taken_away or outcome.failure_code == "source_changed":
                return None  # it is moved or written to: the next look will tell
            is_news = True
        else:
            is_news = outcome.was_read or outcome.job.made
        self._resting.done(path, stamp)
        return outcome if is_news else None

    def _at_rest(self, work: Import, tried: deque[_Tried]) -> Iterator[Candidate]:
        for folder in self._folders:
            roots = work.roots_of(folder)
            is_empty = True
            for found in files_below(folder, recursive=self._recursive):
                is_empty = False
                self._alive()
                if isinstance(found, Unlisted):
                    self._tell_unlisted(found, folder)
                elif (stamp := self._rests(found)) is not None:
                    tried.append((found, stamp))
                    yield Candidate(found, roots, within=folder)
            if is_empty:
                work.require_storage(folder)

    def _rests(self, path: bytes) -> FileStamp | None:
        if path.lower().endswith(UNFINISHED):
            return None
        try:
            found = os.stat(path)  # noqa: PTH116 - pathlib knows no bytes
        except OSError as error:
            if is_storage_fault(error):
                raise storage_gone(f"{terminal_path(path)}: {os.strerror(error.errno or 0)}") from None
            try:
                found = os.lstat(path)
            except OSError:
                return None  # it has been taken away again
        stamp = FileStamp.of(found)
        if not self._resting.rests(path, stamp, _now()) or self._writers.have(found):
            return None
        return stamp

    def _tell_unlisted(self, found: Unlisted, folder: bytes) -> None:
        reason = f"{terminal_path(found.path)}: {os.strerror(found.error.errno or 0)}"
        if found.path == folder or is_storage_fault(found.error):
            raise storage_gone(reason)
        if found.path not in self._unlisted:
            self._unlisted.add(found.path)
            logger.warning("a folder cannot be listed and is passed over: {}", reason)

    def _is_gone(self, fault: StorageFault) -> None:
        if fault.message != self._gone:
            logger.warning("{}: waiting for it", fault.message)
            self._gone = fault.message

    def _is_back(self) -> None:
        if self._gone is not None:
            logger.info("the storage is there again")
            self._gone = None


def _now() -> float:
    return time.monotonic()
