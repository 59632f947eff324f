"""The child: loads a job by its id, calls the handler and returns the outcome as plain data."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO
from uuid import UUID

import psycopg
from psycopg.rows import TupleRow
from pydantic import ValidationError

from batchproc import log
from batchproc.core.limits import ResultTooLarge
from batchproc.core.outcome import ErrorClass, Failed, Interrupted, Outcome
from batchproc.database import Session, SqlFolder, Unreachable, connect, is_lost
from batchproc.engine import attempt_notes, ending, lent_session
from batchproc.engine.pool import child_setup, printed
from batchproc.engine.worker_state import WorkerState
from batchproc.handlers import registry
from batchproc.handlers.args import describe_invalid, validated_args
from batchproc.handlers.context import APPLICATION, Context, ProgressSink
from batchproc.handlers.errors import ClaimLost, Failure, Snooze, StorageUnavailable
from batchproc.handlers.registry import Handler, Registry
from batchproc.settings import Settings

_SESSION = {
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "10min",
    "client_connection_check_interval": "5s",
    "default_transaction_isolation": "read committed",
}


_DATABASE_PATIENCE = 15.0
_PATIENT_PART = 0.5
"""Of the job's smaller limit: its handler is to have as much left of it."""

_CONNECT_SECONDS = 10
_DATABASE_PAUSE = 0.1

_BELIEVED_SECONDS = 5.0
"""For so long after it was loaded with its bundle a job is taken to be held: well below any lease that is of use, and
within that the node kills this worker before it loses a claim."""


_NOT_NOTED = contextlib.nullcontext()


class WorkerProgress(ProgressSink, Protocol):
    """The slot's progress record, as the worker writes it."""

    def note_backend(self, pid: int) -> None: ...
    def loading(self, on: bool) -> None: ...


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker process needs to know; plain data, pickled to the child."""

    database_url: str
    settings: Settings
    log_to_stderr: bool = True
    notes: Path | None = None
    """A folder for the notes of each attempt (``attempt_notes``), for somebody who looks at one job alone."""


class Worker:
    """Runs jobs in this process, one after the other, with a database connection of its own."""

    def __init__(
        self,
        options: WorkerOptions,
        handlers: Registry,
        progress: WorkerProgress,
        workdir: Path,
        *,
        state: WorkerState | None = None,
        prints: Path | None = None,
        debug: bool = False,
    ) -> None:
        self._options = options
        self._handlers = handlers
        self._progress = progress
        self._workdir = workdir
        self._state = state
        self._prints = prints
        self._debug = debug
        self._sql = SqlFolder("batchproc.queue", options.settings.database.schema_name)
        self._connection: Session | None = None
        self._lent = False
        self._loaded: dict[tuple[int, UUID], TupleRow] = {}
        self._loaded_at = 0.0

    def run(
        self,
        job_id: int,
        claim_id: UUID,
        shortest_limit: float = math.inf,
        coming: Sequence[tuple[int, UUID]] = (),
    ) -> Outcome:
        """One attempt. Every exception becomes an outcome; with ``debug`` those of the handler come through.

        Args:
            job_id: the job.
            claim_id: the claim under which it was given to this worker.
            shortest_limit: seconds; the smaller one of the job's limits.
            coming: job and claim ids of what this worker is to run next: they are loaded along with it.
        """
        pid = os.getpid()
        log.of_job(job_id=job_id)
        self._make_workdir()
        try:
            patience = min(_DATABASE_PATIENCE, _PATIENT_PART * shortest_limit)
            return self._run(job_id, claim_id, patience, coming)
        except _DebugStop as stop:
            raise stop.original from None
        except BaseException as error:  # whatever it is, it is this attempt's failure alone
            if self._debug and not isinstance(error, Exception):
                raise
            ending.record(error, "the attempt of job {} failed outside its handler", job_id)
            return self.unexpected(error)
        finally:
            self._restore(job_id, pid)
            if self._prints is not None:
                printed.flush()
                printed.tell(self._prints)
            log.of_job()

    def close(self) -> None:
        """Closes the database connection."""
        if self._connection is not None:
            self._connection.close()

    def connect(self, within: int = _CONNECT_SECONDS) -> Session:
        """This worker's connection, opened when first needed, in so many seconds, and again when it broke."""
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = connect(
                self._options.database_url, application_name=APPLICATION, connect_timeout=within, settings=_SESSION
            )
            # A pooler's process ids are its own: on the server they may be those of anybody's backend.
            self._progress.note_backend(0 if self._connection.pooled else self._connection.info.backend_pid)
        return self._connection

    def _lend(self) -> Session:
        """The connection, for a handler: it may leave things in the session."""
        self._lent = True
        return self.connect()

    def _make_workdir(self) -> None:
        """It is there, unless somebody tidied up the temp folder of the machine while there was nothing to do."""
        if not os.path.isdir(self._workdir):  # noqa: PTH112 - of every job
            self._workdir.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _restore(self, job_id: int, pid: int) -> None:
        """Leaves nothing of this job to the next one, which may be another tenant's."""
        if os.getpid() != pid:
            # A handler forked and let the child return: it must not go on as a second worker on the same pipes.
            os._exit(0)
        self._restore_connection(job_id)
        if self._state is not None:
            self._state.put_back(job_id)

    def _restore_connection(self, job_id: int) -> None:
        lent, self._lent = self._lent, False
        connection = self._connection
        if connection is None or not lent:
            return
        if threading.active_count() > 1:  # a thread that it left may go on using it
            connection.close()
        self._connection = lent_session.given_back(connection, job_id)

    def _run(self, job_id: int, claim_id: UUID, patience: float, coming: Sequence[tuple[int, UUID]]) -> Outcome:
        try:
            row = self._row(job_id, claim_id, patience, coming)
        except StorageUnavailable as error:
            if self._progress.stopping():
                return Interrupted("the node stopped before the job began")
            return Failed(ErrorClass.STORAGE_UNAVAILABLE, "storage_unavailable", detail=error.detail)
        if row is None:
            return Interrupted("the claim was lost before the job started")
        tenant_id, tenant, kind, attempt, document_id, args, tenant_settings = row
        log.of_job(job_id=job_id, tenant=tenant, kind=kind, attempt=attempt)
        entry = self._handlers.get(kind)
        if entry is None:
            return Failed(ErrorClass.PERMANENT, "unknown_kind", detail=f"no handler of kind {kind} in this worker")
        context = Context(
            job_id=job_id,
            claim_id=claim_id,
            tenant_id=tenant_id,
            tenant=tenant,
            kind=kind,
            attempt=attempt,
            document_id=document_id,
            tenant_settings=tenant_settings,
            workdir=self._workdir,
            settings=self._options.settings,
            sink=self._progress,
            connect=self._lend,
        )
        try:
            return self._call(entry, context, args)
        finally:
            if not self._debug:  # else whoever looks into what was raised wants to try things
                context.end()

    def _row(self, job_id: int, claim_id: UUID, patience: float, coming: Sequence[tuple[int, UUID]]) -> TupleRow | None:
        """The job, when it is still held by that claim: loaded with the first of its bundle, or a moment ago.

        What was loaded is believed for a moment only. A claim may be lost meanwhile all the same, as it may be while
        its handler runs: whatever that writes is fenced.

        Raises:
            StorageUnavailable: as ``_load``.
        """
        row = self._loaded.pop((job_id, claim_id), None)
        if row is not None and time.monotonic() < self._loaded_at + _BELIEVED_SECONDS:
            return row
        try:
            # Should a limit pass meanwhile, the node ends this worker, and charges the job with nothing.
            self._progress.loading(True)
            self._loaded = self._load([(job_id, claim_id), *coming], patience)
            self._loaded_at = time.monotonic()
        finally:
            self._progress.loading(False)
        return self._loaded.pop((job_id, claim_id), None)

    def _load(self, wanted: Sequence[tuple[int, UUID]], patience: float) -> dict[tuple[int, UUID], TupleRow]:
        """Of these jobs those that are still held by their claims. A database that is away for a moment is waited for.

        Raises:
            StorageUnavailable: it is away for longer; the job has not begun, and its attempt does not count.
        """
        statement = self._sql["jobs_for_worker" if len(wanted) > 1 else "job_for_worker"]
        values = [list(ids) for ids in zip(*wanted, strict=True)] if len(wanted) > 1 else wanted[0]
        give_up = time.monotonic() + patience
        while True:
            try:
                connection = self.connect(within=max(1, min(_CONNECT_SECONDS, int(patience))))
                connection.patience = patience
                rows = connection.execute(statement, values).fetchall()
                connection.patience = None  # a handler's statements have the time that its job has
                claims = dict(wanted)
                return {(row[0], claims[row[0]]): row[1:] for row in rows}
            except (psycopg.Error, Unreachable) as error:
                # The connection may have died while the worker was idle; a fresh one decides.
                self.close()
                if not is_lost(error):
                    raise
                if time.monotonic() > give_up or self._progress.stopping():
                    raise StorageUnavailable("the worker could not reach the database") from error
            self._progress.beat()
            time.sleep(_DATABASE_PAUSE)

    def _call(self, entry: Handler, context: Context, args: dict[str, Any]) -> Outcome:
        try:
            arguments = [validated_args(entry, args, context.document_id)] if entry.takes_args else []
            if not entry.takes_args:
                validated_args(entry, args, context.document_id)
        except ValidationError as error:
            return Failed(ErrorClass.INVALID, "invalid_args", detail=describe_invalid(error))
        try:
            with self._noting(context.job_id):
                returned = entry.function(context, *arguments)
            return ending.completed(returned, context.follow_ups)
        except ResultTooLarge as error:
            return Failed(ErrorClass.PERMANENT, "result_too_large", detail=str(error))
        except Snooze as snooze:
            return ending.snoozed(snooze)
        except ClaimLost:
            return Interrupted("the claim was lost while the job ran")
        except Failure as failure:
            return ending.declared(entry.spec, failure)
        except StorageUnavailable as error:
            return Failed(
                ErrorClass.STORAGE_UNAVAILABLE, "storage_unavailable", ending.place(error), detail=error.detail
            )
        except BaseException as error:
            if self._debug:
                raise _DebugStop(error) from error
            ending.record(error, "the handler raised {}", type(error).__name__)
            if isinstance(error, psycopg.Error):
                # Whatever is wrong with it, such as a server that only reads, the next job gets a fresh one.
                self.close()
            return self.unexpected(error)

    def _noting(self, job_id: int) -> contextlib.AbstractContextManager[None]:
        folder = self._options.notes
        return _NOT_NOTED if folder is None else attempt_notes.noted(folder, job_id)

    def unexpected(self, error: BaseException) -> Failed:
        """The failure that an exception nobody declared stands for."""
        return ending.unexpected(error, keep_message=self._options.settings.errors.keep_messages)


class _DebugStop(Exception):
    """Carries a handler's exception past the conversion into an outcome."""

    def __init__(self, original: BaseException) -> None:
        self.original = original


_worker: Worker | None = None


def initialize(options: WorkerOptions) -> None:
    """Prepares a worker process: log, handlers; the database is opened with the first job."""
    global _worker
    settings = options.settings
    logging = settings.logging
    progress, workdir = child_setup.current_progress(), child_setup.current_workdir()
    prints = workdir.with_name(printed.PRINTED_FILE)
    stderr: bool | TextIO = options.log_to_stderr
    if not (_somebody_looks(options) and logging.format == "human"):
        before = printed.redirect(prints)
        stderr = options.log_to_stderr and before

    def set_up_log() -> None:
        log.setup(
            logging.level,
            logging.format,
            logging.file,
            stderr=stderr,
            tells=False,
            rotate=logging.rotate,
            keep=logging.keep,
        )

    set_up_log()
    handlers = registry.for_settings(settings)
    printed.flush()
    printed.tell(prints)
    child_setup.bound_address_space()  # on top of what the handlers have loaded
    state = WorkerState(set_up_log, progress.declare_unfit, settings.pool.memory_limit_mb)
    _worker = Worker(options, handlers, progress, workdir, state=state, prints=prints)


def _somebody_looks(options: WorkerOptions) -> bool:
    """At one job alone, and sees what it prints at once."""
    return options.notes is not None and options.log_to_stderr


def run(job_id: int, claim_id: UUID) -> Outcome:
    """The function that the pool calls in a worker process."""
    if _worker is None:
        raise RuntimeError("the worker was not initialized")
    return _worker.run(job_id, claim_id, child_setup.shortest_limit(), child_setup.coming())
