"""The child: calls a job's handler and returns the outcome as plain data."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from uuid import UUID

import psycopg
from pydantic import ValidationError

from batchproc import log
from batchproc.core.limits import ResultTooLarge
from batchproc.core.outcome import ErrorClass, Failed, Interrupted, Outcome
from batchproc.engine import attempt_notes, ending
from batchproc.engine.job_loading import JobLoader
from batchproc.engine.pool import child_setup, printed
from batchproc.engine.worker_progress import WorkerProgress
from batchproc.engine.worker_session import WorkerSession
from batchproc.engine.worker_state import WorkerState
from batchproc.handlers import registry
from batchproc.handlers.args import describe_invalid, validated_args
from batchproc.handlers.context import Context
from batchproc.handlers.errors import ClaimLost, Failure, Snooze, StorageUnavailable
from batchproc.handlers.registry import Handler, Registry
from batchproc.settings import Settings

_NOT_NOTED = contextlib.nullcontext()


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
        self._session = WorkerSession(options.database_url, progress.note_backend)
        self._jobs = JobLoader(self._session, progress, options.settings.database.schema_name)

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
            return self._run(job_id, claim_id, shortest_limit, coming)
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
        self._session.close()

    def _make_workdir(self) -> None:
        """It is there, unless somebody tidied up the temp folder of the machine while there was nothing to do."""
        if not os.path.isdir(self._workdir):  # noqa: PTH112 - of every job
            self._workdir.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _restore(self, job_id: int, pid: int) -> None:
        """Leaves nothing of this job to the next one, which may be another tenant's."""
        if os.getpid() != pid:
            # A handler forked and let the child return: it must not go on as a second worker on the same pipes.
            os._exit(0)
        self._session.take_back(job_id)
        if self._state is not None:
            self._state.put_back(job_id)

    def _run(self, job_id: int, claim_id: UUID, shortest_limit: float, coming: Sequence[tuple[int, UUID]]) -> Outcome:
        try:
            row = self._jobs.row(job_id, claim_id, shortest_limit, coming)
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
            connect=self._session.lend,
        )
        try:
            return self._call(entry, context, args)
        finally:
            if not self._debug:  # else whoever looks into what was raised wants to try things
                context.end()

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
                self._session.close()
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
