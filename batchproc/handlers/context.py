"""What a handler is given: its job, its document, a fenced transaction, progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from loguru import logger
from psycopg import Connection, errors
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from pydantic import BaseModel

from batchproc.core.outcome import FollowUp
from batchproc.database import connect, is_pooled, require_session
from batchproc.documents.store import Document, DocumentStore
from batchproc.handlers.errors import ClaimLost, Failure
from batchproc.handlers.resource_slots import resource_slot
from batchproc.queue.claims import ClaimFence
from batchproc.settings import Settings

if TYPE_CHECKING:
    from loguru import Logger

APPLICATION = "batchproc worker"
"""What every connection of a worker is called in ``pg_stat_activity``."""


def transaction_name(claim_id: UUID) -> str:
    """What a transaction of that claim is called there, behind a pooler, as long as it lasts."""
    return f"{APPLICATION} {claim_id}"


class ProgressSink(Protocol):
    """Where progress goes; in a worker it is the slot's shared-memory record."""

    def set(self, done: int, total: int) -> None: ...
    def beat(self) -> None: ...
    def checkpoint(self) -> None: ...
    def stopping(self) -> bool: ...


class _NoSink:
    """The progress of a job that has ended: whoever reports any would report it for the worker's next job."""

    def __init__(self, why: str) -> None:
        self._why = why

    def set(self, *_: int) -> None:
        raise RuntimeError(self._why)

    def beat(self) -> None:
        raise RuntimeError(self._why)

    def checkpoint(self) -> None:
        raise RuntimeError(self._why)

    def stopping(self) -> bool:
        return True


@dataclass
class Context:
    """One attempt, as its handler sees it."""

    job_id: int
    claim_id: UUID
    tenant_id: int
    tenant: str
    kind: str
    attempt: int
    document_id: int | None
    tenant_settings: dict[str, Any]
    workdir: Path
    settings: Settings
    sink: ProgressSink
    connect: Callable[[], Connection[TupleRow]]
    follow_ups: list[FollowUp] = field(default_factory=list)

    @property
    def log(self) -> Logger:
        """A logger whose lines carry job, tenant, kind and attempt."""
        return logger.bind(job_id=self.job_id, tenant=self.tenant, kind=self.kind, attempt=self.attempt)

    @property
    def connection(self) -> Connection[TupleRow]:
        """The worker's connection in autocommit mode, for reading. Write only inside ``transaction()``."""
        return self.connect()

    @cached_property
    def documents(self) -> DocumentStore:
        """The archive, limited to this job's tenant."""
        return DocumentStore(self.settings.database.schema_name, tenant_id=self.tenant_id)

    @cached_property
    def document(self) -> Document:
        """The job's document, read when first asked for; raises LookupError for a job without one."""
        if self.document_id is None:
            raise LookupError(f"job {self.job_id} of kind {self.kind} has no document")
        return self.documents.load(self.connection, self.document_id)

    @contextmanager
    def transaction(self) -> Iterator[Connection[TupleRow]]:
        """A transaction that holds the job's row by its claim: no claim, no write.

        Raises:
            ClaimLost: the job was taken back meanwhile; let it pass through.
            InFailedSqlTransaction: an error in it was caught, or it was ended by SQL; what was written may be lost.
        """
        connection = self.connect()
        with connection.transaction():
            if is_pooled(connection):
                # By this name the node ends it when it kills this worker.
                self._fence.call(connection, transaction_name(self.claim_id))
            if not self._fence.lock(connection, self.job_id, self.claim_id):
                raise ClaimLost(f"job {self.job_id} is no longer claimed by {self.claim_id}")
            yield connection
            # A commit would not complain, but roll back what the error left.
            if connection.info.transaction_status in (TransactionStatus.INERROR, TransactionStatus.IDLE):
                raise errors.InFailedSqlTransaction(
                    f"the transaction of job {self.job_id} failed or was ended before its end: let errors of SQL leave"
                    " ctx.transaction(), or catch them around a connection.transaction() inside of it"
                )

    def progress(self, done: int, total: int) -> None:
        """Says how far the job is; also what keeps ``stall_timeout`` from striking."""
        self.sink.set(done, total)

    def checkpoint(self, connection: Connection[TupleRow] | None = None) -> None:
        """Work is saved: attempts, crashes and timeouts are set back to one.

        Pass the connection of the ``transaction()`` that saves the work, so that both happen or neither.
        """
        if connection is None:
            with self.transaction() as own:
                self._fence.reset_budgets(own, self.job_id, self.claim_id)
        else:
            self._fence.reset_budgets(connection, self.job_id, self.claim_id)
        self.sink.checkpoint()

    def publish(self, partial: BaseModel) -> None:
        """Stores a partial result that can be seen while the job still runs."""
        with self.transaction() as connection:
            self._fence.publish(connection, self.job_id, self.claim_id, partial.model_dump_json())

    def follow_up(
        self,
        kind: str,
        args: dict[str, Any] | None = None,
        *,
        document_id: int | None = None,
        unique: str | None = None,
    ) -> None:
        """Asks for a job to be enqueued when this attempt is settled as completed.

        It inherits tenant, lane, priority, campaign and run; the document is this job's unless told.
        """
        self.follow_ups.append(FollowUp(kind, args or {}, document_id or self.document_id, unique))

    @contextmanager
    def slot(self, name: str) -> Iterator[None]:
        """Holds one of the slots of a resource that the settings name under ``resources:``, such as ``{ai: 2}``.

        While all are taken it waits; the wait counts towards ``timeout`` but is no stall. A handler holds one slot
        of a resource at a time.

        Raises:
            Failure: the settings have no such resource (code ``internal_error``).
            UsageError: the database is behind a transaction pooler, and ``database.direct_url`` does not lead past it.
        """
        slots = self.settings.resources.get(name)
        if slots is None:
            raise Failure("internal_error", detail=f"the settings have no resource {name!r}: add it under resources:")
        schema = self.settings.database.schema_name
        direct_url = self.settings.database.direct_url
        if direct_url is None:
            session = self.connect()
            require_session(session, "resources")
            with resource_slot(session, schema, name, slots, self.sink.beat):
                yield
        else:
            # Behind a transaction pooler the worker's connection is no session; the lock needs one.
            with connect(direct_url.get_secret_value(), application_name=APPLICATION) as direct:
                require_session(direct, "resources")
                with resource_slot(direct, schema, name, slots, self.sink.beat):
                    yield

    @property
    def stopping(self) -> bool:
        """True when the node shuts down: a handler may then return after what it has saved."""
        return self.sink.stopping()

    def end(self) -> None:
        """For the worker, when the attempt is over: a thread that still has this context cannot do anything by it."""
        why = f"job {self.job_id} has ended: its context cannot be used any more"

        def refuse() -> Connection[TupleRow]:
            raise RuntimeError(why)

        self.connect, self.sink = refuse, _NoSink(why)

    @cached_property
    def _fence(self) -> ClaimFence:
        return ClaimFence(self.settings.database.schema_name)
