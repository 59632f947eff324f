"""The child: loads a job by its id, calls the handler and returns the outcome as plain data."""

from __future__ import annotations

import errno
import json
import os
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from batchproc import log
from batchproc.core.limits import (
    DETAIL_CHARACTERS,
    RESULT_BYTES,
    ResultTooLarge,
    bounded_json,
    bounded_text,
    clean_value,
)
from batchproc.core.outcome import Completed, ErrorClass, Failed, FollowUp, Interrupted, Outcome, Snoozed
from batchproc.database import SqlFolder, connect
from batchproc.engine.pool import child_setup
from batchproc.handlers import registry
from batchproc.handlers.args import describe_invalid, validated_args
from batchproc.handlers.context import APPLICATION, Context, ProgressSink
from batchproc.handlers.errors import ClaimLost, Failure, Snooze, StorageUnavailable
from batchproc.handlers.registry import Handler, Registry
from batchproc.settings import Settings

# Codes that any kind may end with, declared or not.
_RESERVED = frozenset({"internal_error", "no_space", "storage_unavailable"})
_SESSION = {
    "options": "-c lock_timeout=30s -c idle_in_transaction_session_timeout=10min -c client_connection_check_interval=5s"
}


class WorkerProgress(ProgressSink, Protocol):
    """The slot's progress record, as the worker writes it."""

    def note_backend(self, pid: int) -> None: ...


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker process needs to know; plain data, pickled to the child."""

    database_url: str
    settings: Settings
    log_to_stderr: bool = True


class Worker:
    """Runs jobs in this process, one after the other, with a database connection of its own."""

    def __init__(
        self,
        options: WorkerOptions,
        handlers: Registry,
        progress: WorkerProgress,
        workdir: Path,
        *,
        debug: bool = False,
    ) -> None:
        self._options = options
        self._handlers = handlers
        self._progress = progress
        self._workdir = workdir
        self._debug = debug
        self._sql = SqlFolder("batchproc.queue", options.settings.database.schema_name)
        self._connection: Connection[TupleRow] | None = None

    def run(self, job_id: int, claim_id: UUID) -> Outcome:
        """One attempt. Every exception becomes an outcome; with ``debug`` those of the handler come through."""
        pid = os.getpid()
        self._workdir.mkdir(mode=0o700, parents=True, exist_ok=True)  # a handler may have removed it
        try:
            return self._run(job_id, claim_id)
        except _DebugStop as stop:
            raise stop.original from None
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this attempt's failure alone
            logger.bind(job_id=job_id).opt(exception=error).error("the attempt failed outside its handler")
            return self.unexpected(error)
        finally:
            self._restore(job_id, pid)

    def close(self) -> None:
        """Closes the database connection."""
        if self._connection is not None:
            self._connection.close()

    def connect(self) -> Connection[TupleRow]:
        """This worker's connection, opened when first needed and again when it broke."""
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = connect(self._options.database_url, application_name=APPLICATION, options=_SESSION)
            self._progress.note_backend(self._connection.info.backend_pid)
        return self._connection

    def _restore(self, job_id: int, pid: int) -> None:
        """Leaves nothing of this job to the next one, which may be another tenant's."""
        if os.getpid() != pid:
            # A handler forked and let the child return: it must not go on as a second worker on the same pipes.
            os._exit(0)
        connection = self._connection
        if connection is None:
            return
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            # In a transaction that a handler left open, the next job's writes would be lost with it.
            if not connection.closed:
                logger.bind(job_id=job_id).error("the handler left a transaction open: it is rolled back")
            connection.close()
        else:
            connection.row_factory = tuple_row
            connection.autocommit = True

    def _run(self, job_id: int, claim_id: UUID) -> Outcome:
        row = self._load(job_id, claim_id)
        if row is None:
            return Interrupted("the claim was lost before the job started")
        tenant_id, tenant, kind, attempt, document_id, args, tenant_settings = row
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
            connect=self.connect,
        )
        with logger.contextualize(job_id=job_id, tenant=tenant, kind=kind, attempt=attempt):
            return self._call(entry, context, args)

    def _load(self, job_id: int, claim_id: UUID) -> TupleRow | None:
        statement = self._sql["job_for_worker"]
        try:
            return self.connect().execute(statement, [job_id, claim_id]).fetchone()
        except psycopg.OperationalError:
            # The connection may have died while the worker was idle; a fresh one decides.
            if self._connection is not None:
                self._connection.close()
            return self.connect().execute(statement, [job_id, claim_id]).fetchone()

    def _call(self, entry: Handler, context: Context, args: dict[str, Any]) -> Outcome:
        try:
            arguments = [validated_args(entry, args, context.document_id)] if entry.takes_args else []
            if not entry.takes_args:
                validated_args(entry, args, context.document_id)
        except ValidationError as error:
            return Failed(ErrorClass.INVALID, "invalid_args", detail=describe_invalid(error))
        try:
            returned = entry.function(context, *arguments)
            return _completed(returned, context.follow_ups)
        except ResultTooLarge as error:
            return Failed(ErrorClass.PERMANENT, "result_too_large", detail=str(error))
        except Snooze as snooze:
            return Snoozed(snooze.seconds)
        except ClaimLost:
            return Interrupted("the claim was lost while the job ran")
        except Failure as failure:
            return self._declared(entry, failure)
        except StorageUnavailable as error:
            return Failed(ErrorClass.STORAGE_UNAVAILABLE, "storage_unavailable", detail=error.detail)
        except Exception as error:
            if self._debug:
                raise _DebugStop(error) from error
            context.log.opt(exception=error).error("the handler raised {}", type(error).__name__)
            return self.unexpected(error)

    def _declared(self, entry: Handler, failure: Failure) -> Failed:
        error_class = ErrorClass.TRANSIENT if failure.retry else ErrorClass.PERMANENT
        if failure.code not in entry.spec.failure_codes | _RESERVED:
            logger.error(
                "kind {} raised the failure code {!r}, which it does not declare", entry.spec.name, failure.code
            )
            return Failed(
                error_class, "internal_error", _place(failure), "the handler raised an undeclared failure code"
            )
        detail = bounded_text(failure.detail, DETAIL_CHARACTERS)
        return Failed(error_class, failure.code, _place(failure), detail)

    def unexpected(self, error: Exception) -> Failed:
        """The failure that an exception nobody declared stands for."""
        detail = _message(error) if self._options.settings.errors.keep_messages else None
        if isinstance(error, MemoryError):
            return Failed(ErrorClass.OUT_OF_MEMORY, "out_of_memory", _place(error), detail)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return Failed(ErrorClass.TRANSIENT, "no_space", _place(error), detail)
        return Failed(ErrorClass.TRANSIENT, "internal_error", _place(error), detail)


class _DebugStop(Exception):
    """Carries a handler's exception past the conversion into an outcome."""

    def __init__(self, original: Exception) -> None:
        super().__init__(str(original))
        self.original = original


def _completed(returned: Any, follow_ups: list[FollowUp]) -> Completed:
    plain = tuple(_stored_follow_up(item) for item in follow_ups)
    if returned is None:
        return Completed(None, plain)
    if not isinstance(returned, BaseModel):
        raise TypeError(f"a handler returns a pydantic model or None, not {type(returned).__name__}")
    partial = bool(getattr(returned, "partial", False))
    return Completed(bounded_json(_as_json(returned)), plain, partial)


def _stored_follow_up(item: FollowUp) -> FollowUp:
    args = clean_value(item.args)
    if len(json.dumps(args)) > RESULT_BYTES:
        raise ResultTooLarge(f"the args of a follow-up of kind {item.kind}: at most {RESULT_BYTES} bytes are stored")
    return FollowUp(item.kind, args, item.document_id, item.unique_key)


def _as_json(returned: BaseModel) -> str:
    try:
        return returned.model_dump_json()
    except PydanticSerializationError:
        # Half a surrogate pair is no UTF-8; without it the result is worth as much.
        return to_json(clean_value(returned.model_dump())).decode()


def _place(error: BaseException) -> str:
    """The exception's type and where it was raised: ``ValueError at scan.py:12``."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


def _message(error: BaseException) -> str | None:
    try:
        return bounded_text(log.redact(str(error)), DETAIL_CHARACTERS)
    except Exception:  # noqa: BLE001 - an exception whose text cannot be had has none
        return None


_worker: Worker | None = None


def initialize(options: WorkerOptions) -> None:
    """Prepares a worker process: log, handlers; the database is opened with the first job."""
    global _worker
    settings = options.settings
    logging = settings.logging
    if not options.log_to_stderr:
        send_prints_to(logging.file)
    log.setup(logging.level, logging.format, logging.file, stderr=options.log_to_stderr)
    handlers = registry.for_settings(settings)
    _worker = Worker(options, handlers, child_setup.current_progress(), child_setup.current_workdir())


def send_prints_to(file: Path | None) -> None:
    """What handlers and libraries print goes there, or nowhere: from cron every line on stderr is a mail."""
    descriptor = os.open(file or os.devnull, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def run(job_id: int, claim_id: str) -> Outcome:
    """The function that the pool calls in a worker process."""
    if _worker is None:
        raise RuntimeError("the worker was not initialized")
    return _worker.run(job_id, UUID(claim_id))
