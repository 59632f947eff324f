"""An archive for one test: it makes tenants and documents, and runs jobs on the real path, in this process."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow
from pydantic import BaseModel

from batchproc.core.errors import UsageError
from batchproc.core.job import Claim
from batchproc.core.outcome import Completed, ErrorClass, Failed, FollowUp, Outcome
from batchproc.database import SqlFolder, connect
from batchproc.documents.store import Document, DocumentStore, NewDocument, Tag
from batchproc.engine.node import Node, RunOptions, RunReport
from batchproc.engine.ready import Scope
from batchproc.engine.worker import Worker
from batchproc.handlers import registry
from batchproc.ops import debugging
from batchproc.ops.enqueueing import JobLine, new_job
from batchproc.queue.inspection import Inspection
from batchproc.queue.store import JobStore, Tenant
from batchproc.settings import Settings
from batchproc.testing.progress import Killed, RecordedProgress

TENANT = "acme"

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one attempt ended.

    Attributes:
        state: that of its job afterwards: ``completed``, ``discarded``, ``scheduled`` (it is tried again), ...
        result: what is stored of what the handler returned, as JSON; None where it returned nothing.
        failure_code: what it failed with, declared or not; None where it did not fail.
        detail: what its ``Failure`` said.
        follow_ups: the jobs it asked for; those of an attempt that did not complete are not enqueued.
        progress: every ``ctx.progress(done, total)``, in order.
        checkpoints: how many it made.
    """

    job_id: int
    state: str
    outcome: Outcome
    result: dict[str, Any] | None
    failure_code: str | None
    detail: str | None
    follow_ups: tuple[FollowUp, ...]
    progress: tuple[tuple[int, int], ...]
    checkpoints: int


@dataclass
class Sandbox:
    """An archive of a test's own.

    Attributes:
        url: of its database.
        folder: an empty folder.
        connection: to the database, in autocommit mode.
        settings: those that its jobs run with; ``configure`` changes them.
    """

    url: str
    folder: Path
    connection: Connection[TupleRow]
    settings: Settings = field(default_factory=Settings)
    _functions: dict[str, Function] = field(default_factory=dict)

    # -- what there is

    def configure(self, **sections: Any) -> None:
        """Replaces sections of the settings: ``configure(resources={"ai": 2})``; raises as they are validated."""
        self.settings = Settings.model_validate({**self.settings.model_dump(exclude_unset=True), **sections})

    def tenant(self, slug: str = TENANT, **settings: Any) -> Tenant:
        """The tenant of that name, made when it is not there; ``settings`` as ``batchproc tenants set`` stores them."""
        jobs = JobStore(self._schema)
        try:
            found = jobs.tenant(self.connection, slug)
        except UsageError:
            found = jobs.add_tenant(self.connection, slug)
        return jobs.set_tenant(self.connection, slug, settings=settings) if settings else found

    def document(
        self,
        *pages: str,
        file: Path | None = None,
        tenant: str = TENANT,
        title: str | None = None,
        language: str | None = None,
        external_id: str | None = None,
    ) -> int:
        """Adds a document and returns its id.

        Args:
            pages: the text of each page, as if it had been recognised; none leaves the document unread.
            file: its original; without one, a small text file in ``folder``.
        """
        original = file or self._written("\f".join(pages))
        content = original.read_bytes()
        new = NewDocument(
            root=os.fsencode(original.parent.resolve()),
            path=os.fsencode(original.name),
            sha256=hashlib.sha256(content).digest(),
            bytes=len(content),
            external_id=external_id,
            language=language,
            title=title,
        )
        owner = self.tenant(tenant)
        store = self.documents(tenant)
        with self.connection.transaction():
            document_id = store.register(self.connection, new).document_id
            if pages:
                self._give_text(owner.tenant_id, document_id, pages)
        return document_id

    def documents(self, tenant: str = TENANT) -> DocumentStore:
        """The store of a tenant's documents."""
        return DocumentStore(self._schema, tenant_id=self.tenant(tenant).tenant_id)

    def load(self, document: int, tenant: str = TENANT) -> Document:
        """The document as it is now, ``fields`` and title among it; raises LookupError for another tenant's."""
        return self.documents(tenant).load(self.connection, document)

    def text(self, document: int, tenant: str = TENANT) -> list[str]:
        """The text of its pages."""
        return self.documents(tenant).text(self.connection, document)

    def tags(self, document: int, tenant: str = TENANT) -> list[Tag]:
        """Its tags, with what set them."""
        return self.documents(tenant).tags(self.connection, document)

    def jobs(self, kind: str | None = None, state: str | None = None) -> list[dict[str, Any]]:
        """The jobs there are, as ``batchproc jobs list --json`` shows them; at most a thousand."""
        states = (state,) if state else ()
        return Inspection(self._schema).jobs(self.connection, kind=kind, states=states, limit=1000)

    # -- what is done

    def enqueue(
        self,
        handler: Function | str,
        args: Mapping[str, Any] | BaseModel | None = None,
        *,
        document: int | None = None,
        tenant: str = TENANT,
    ) -> int:
        """Enqueues a job and returns its id.

        Args:
            handler: the function, decorated; or the name of a kind that the settings know.

        Raises:
            UsageError: the args do not fit, or the function is no handler.
        """
        kind = self._known(handler)
        handlers = self._handlers()
        if kind not in handlers:
            raise UsageError(f"no handler declares kind {kind!r}", "give the function, or configure(handlers=[MODULE])")
        line = JobLine(args=_plain(args), document_id=document)
        job = new_job(handlers, self.tenant(tenant), kind, line, lane=None, priority=5)
        return JobStore(self._schema).enqueue(self.connection, job, handlers[kind].spec).job_id

    def run(
        self,
        handler: Function | str,
        args: Mapping[str, Any] | BaseModel | None = None,
        *,
        document: int | None = None,
        tenant: str = TENANT,
        **how: Any,
    ) -> Attempt:
        """Enqueues a job as ``enqueue`` does and makes one attempt of it as ``attempt`` does, with its options."""
        return self.attempt(self.enqueue(handler, args, document=document, tenant=tenant), **how)

    def attempt(
        self, job_id: int, *, stop_after: int | None = None, kill_after: int | None = None, raises: bool = True
    ) -> Attempt:
        """Claims the job, due or not, calls its handler in this process, and settles it.

        There is no timeout, and what the handler leaves in the process stays.

        Args:
            stop_after: ``ctx.stopping`` is true from so many checkpoints or reports of progress on; 0 is at once.
            kill_after: at the report or checkpoint of that number the attempt ends as if its worker had been killed
                there; what its open transaction wrote is gone.
            raises: an exception that stands for a failure nobody declared is raised here when it is settled. False
                leaves it at the settled failure, as in production.

        Raises:
            UsageError: the job does not wait.
        """
        progress = RecordedProgress(stop_after, kill_after)
        ended: list[Outcome] = []
        unexpected: list[Exception] = []

        def attempted(worker: Worker, claim: Claim) -> Outcome:
            try:
                return worker.run(claim.job_id, claim.claim_id)
            except Killed:
                return Failed(ErrorClass.CRASHED, "poison")
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                unexpected.append(error)
                return worker.unexpected(error)

        debugging.run_in_process(
            self.settings,
            self.url,
            job_id,
            Scope(),
            lambda _claim, outcome, _seconds: ended.append(outcome),
            handlers=self._handlers(),
            progress=progress,
            attempted=attempted,
        )
        if raises and unexpected:
            raise unexpected[0]
        return self._ended(job_id, ended[0], progress)

    def drain(self, workers: int = 1) -> RunReport:
        """Runs all that is due in worker processes, as ``batchproc run`` does: with timeouts, and everything else.

        The handlers' modules must be importable by a new process with this one's PYTHONPATH.
        """
        modules = tuple({function.__module__: None for function in self._functions.values()})
        handlers = tuple(dict.fromkeys((*self.settings.handlers, *modules)))
        settings = self.settings.model_copy(update={"handlers": handlers})
        return Node(settings, self.url, self.url, lambda _claim, _outcome, _seconds: None).run(RunOptions(workers))

    # -- the parts

    @property
    def _schema(self) -> str:
        return self.settings.database.schema_name

    def _known(self, handler: Function | str) -> str:
        if isinstance(handler, str):
            return handler
        kind = registry.declared(handler).spec.name
        self._functions[kind] = handler
        return kind

    def _handlers(self) -> registry.Registry:
        return registry.for_settings(self.settings, self._functions.values())

    def _written(self, text: str) -> Path:
        folder = self.folder / "originals"
        folder.mkdir(exist_ok=True)
        file = folder / f"{len(list(folder.iterdir())) + 1}.txt"
        file.write_text(f"{file.name}\n{text}", "utf-8")  # no two have the same content
        return file

    def _give_text(self, tenant_id: int, document_id: int, pages: Sequence[str]) -> None:
        page_words = [len(text.split()) for text in pages]
        values = {
            "tenant_id": tenant_id,
            "document_id": document_id,
            "texts": list(pages),
            "page_words": page_words,
            "words": sum(page_words),
            "characters": sum(map(len, pages)),
        }
        self.connection.execute(SqlFolder("batchproc.testing", self._schema)["add_text"], values)

    def _ended(self, job_id: int, outcome: Outcome, progress: RecordedProgress) -> Attempt:
        failed = outcome if isinstance(outcome, Failed) else None
        completed = outcome if isinstance(outcome, Completed) else None
        return Attempt(
            job_id=job_id,
            state=Inspection(self._schema).job(self.connection, job_id)["state"],
            outcome=outcome,
            result=json.loads(completed.result) if completed is not None and completed.result is not None else None,
            failure_code=failed.code if failed is not None else None,
            detail=failed.detail if failed is not None else None,
            follow_ups=completed.follow_ups if completed is not None else (),
            progress=tuple(progress.steps),
            checkpoints=progress.checkpoints,
        )


def _plain(args: Mapping[str, Any] | BaseModel | None) -> dict[str, Any]:
    if isinstance(args, BaseModel):
        return dict(json.loads(args.model_dump_json(exclude_unset=True)))
    return dict(args or {})


@contextmanager
def opened_sandbox(url: str, folder: Path) -> Iterator[Sandbox]:
    """A sandbox on a migrated database."""
    with connect(url) as connection:
        yield Sandbox(url, folder, connection)
