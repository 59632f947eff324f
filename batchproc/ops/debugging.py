"""One job in this process, for a debugger."""

from __future__ import annotations

import contextlib
import os
import pdb
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import BatchprocError
from batchproc.core.fairness import Turn
from batchproc.core.job import Claim
from batchproc.core.outcome import Interrupted, Outcome
from batchproc.database import connect
from batchproc.engine.counts import Counts
from batchproc.engine.decision import decide
from batchproc.engine.lease import Lease
from batchproc.engine.node import RunReport
from batchproc.engine.ready import Scope
from batchproc.engine.requirements import cannot_be_claimed
from batchproc.engine.workdir import node_folder
from batchproc.engine.worker import Worker, WorkerOptions
from batchproc.engine.worker_progress import WorkerProgress
from batchproc.handlers import registry
from batchproc.handlers.registry import Registry
from batchproc.ops.languages import installed
from batchproc.queue.endings import Ended
from batchproc.queue.nights import KeptBack, NightStore
from batchproc.queue.node_store import NodeFacts, NodeStore
from batchproc.settings import Settings
from batchproc.version import __version__


class _NoProgress:
    """A progress record that nobody reads."""

    def set(self, done: int, total: int) -> None:
        pass

    def beat(self) -> None:
        pass

    def checkpoint(self) -> None:
        pass

    def stopping(self) -> bool:
        return False

    def note_backend(self, pid: int) -> None:
        pass

    def loading(self, on: bool) -> None:
        pass


def run_in_process(
    settings: Settings,
    database_url: str,
    job_id: int | None,
    scope: Scope,
    observe: Callable[[Claim, Outcome, float], None],
    *,
    notes: Path | None = None,
    handlers: Registry | None = None,
    progress: WorkerProgress | None = None,
    attempted: Callable[[Worker, Claim], Outcome] | None = None,
) -> RunReport:
    """Claims the job (or, for None, one of ``scope`` that is due), runs it here and settles it.

    An exception of the handler is printed with its traceback and, on a terminal, stops in pdb.

    Args:
        notes: a folder for the notes of the attempt.
        handlers: those of the settings, if they are loaded already.
        progress: what the attempt reports to; None: nobody.
        attempted: makes the attempt with this worker in the debugger's place.

    Raises:
        UsageError: the job does not wait, or cannot be run here.
    """
    started = time.monotonic()
    handlers = handlers if handlers is not None else registry.for_settings(settings)
    languages = tuple(sorted(installed(settings)))
    default_languages = settings.ocr.languages
    store = NodeStore(
        settings.database.schema_name,
        uuid4(),
        handlers.specs(),
        languages=languages,
        default_languages=default_languages,
    )
    facts = NodeFacts(
        store.node_id,
        socket.gethostname(),
        os.getpid(),
        1,
        tuple(handlers.specs()),
        languages,
        "",
        __version__,
        default_languages,
    )
    counts = Counts()
    seconds = settings.dispatch.lease
    # Its threads go on while a person thinks at the debugger's prompt.
    lease = Lease(store, lambda: connect(database_url), seconds, lambda: None)
    with connect(database_url) as connection:
        store.join(connection, facts, seconds)
        lease.start()
        run_id = store.runs.start(connection, store.node_id, {"single": True, "in_process": True})
        try:
            claim = _claim(store, connection, job_id, scope, run_id, handlers)
            if claim is None and job_id is not None:
                raise cannot_be_claimed(
                    connection,
                    settings.database.schema_name,
                    job_id,
                    handlers.specs(),
                    languages,
                    default_languages,
                )
            if claim is not None:
                counts.claimed = 1
                options = WorkerOptions(database_url, settings, notes=notes)
                with _worker(options, handlers, progress or _NoProgress()) as worker:
                    outcome = (attempted or _attempt)(worker, claim)
                observe(claim, outcome, time.monotonic() - started)
                _settle(store, connection, settings, handlers, claim, outcome, counts)
            kept = KeptBack((), 0, 0) if claim is not None else _kept(settings, connection, scope)
            exit_code = counts.exit_code(settings.run.accept_codes)
            store.runs.finish(connection, run_id, exit_code, counts.plain())
        except BaseException as error:
            with contextlib.suppress(psycopg.Error):  # the connection may be what failed
                code = error.exit_code if isinstance(error, BatchprocError) else 3
                store.runs.finish(connection, run_id, code, counts.plain())
            raise
        finally:
            lease.stop()
            store.leave(connection)
    return RunReport(run_id, counts, 0, time.monotonic() - started, exit_code, kept=kept.most, kept_more=kept.more)


def _claim(
    store: NodeStore,
    connection: Connection[TupleRow],
    job_id: int | None,
    scope: Scope,
    run_id: int,
    handlers: Registry,
) -> Claim | None:
    if job_id is not None:
        return store.claim_one(connection, job_id, run_id)
    for ready in store.ready(connection):
        if ready.queue.kind in handlers and scope.holds(ready.queue):
            _, claims = store.tick(connection, [], [Turn(ready.queue, 1)], limited=ready.limited, run_id=run_id)
            if claims:
                return claims[0]
    return None


def _kept(settings: Settings, connection: Connection[TupleRow], scope: Scope) -> KeptBack:
    """What waits for a person, and may be why nothing was found to run."""
    nights = NightStore(settings.database.schema_name)
    return nights.kept(connection, tenant_ids=scope.tenant_ids, kinds=scope.kinds, lanes=scope.lanes)


def _settle(
    store: NodeStore,
    connection: Connection[TupleRow],
    settings: Settings,
    handlers: Registry,
    claim: Claim,
    outcome: Outcome,
    counts: Counts,
) -> None:
    # A handler's checkpoint may have set the counters back.
    claim = store.refreshed(connection, [claim]).get(claim.claim_id, claim)
    moved = decide(claim, outcome, handlers.specs(), settings.retry.max_node_losses)
    stored = store.settle(connection, [Ended(moved)]).states.get(claim.claim_id)
    if stored is not None:
        counts.add(moved, stored)


@contextlib.contextmanager
def _worker(options: WorkerOptions, handlers: Registry, progress: WorkerProgress) -> Iterator[Worker]:
    with node_folder() as folder:
        worker = Worker(options, handlers, progress, folder, debug=True)
        try:
            yield worker
        finally:
            worker.close()


def _attempt(worker: Worker, claim: Claim) -> Outcome:
    try:
        return worker.run(claim.job_id, claim.claim_id)
    except Exception as error:  # noqa: BLE001 - a handler may raise anything; the person sees all of it
        traceback.print_exception(error)
        if sys.stdin.isatty():
            pdb.post_mortem(error.__traceback__)
        return worker.unexpected(error)
    except (KeyboardInterrupt, SystemExit):
        # Stopped by hand: the job goes back unharmed.
        return Interrupted("stopped in process")
