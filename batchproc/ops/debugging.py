"""One job in this process, for a debugger."""

from __future__ import annotations

import pdb
import random
import sys
import tempfile
import traceback
from pathlib import Path
from uuid import UUID, uuid4

from batchproc.core.errors import UsageError
from batchproc.core.outcome import Interrupted, Outcome
from batchproc.core.settle import settle
from batchproc.database import connect
from batchproc.engine.counts import Counts
from batchproc.engine.worker import Worker, WorkerOptions
from batchproc.handlers import registry
from batchproc.handlers.registry import Registry
from batchproc.queue.node_store import Ended, NodeFacts, NodeStore
from batchproc.settings import Settings

# Nothing renews the lease while a person thinks at the debugger's prompt.
_LEASE = 24 * 3600.0


class _NoProgress:
    """A progress record that nobody reads."""

    def set(self, done: int, total: int) -> None:
        pass

    def checkpoint(self) -> None:
        pass

    def stopping(self) -> bool:
        return False

    def note_backend(self, pid: int) -> None:
        pass


def run_in_process(settings: Settings, database_url: str, job_id: int) -> int:
    """Claims the job, runs it here, settles it; an exception of the handler stops in pdb on a terminal.

    Returns:
        The exit code, as of ``run``.

    Raises:
        UsageError: the job does not wait.
    """
    handlers = registry.for_settings(settings)
    store = NodeStore(settings.database.schema_name, uuid4(), handlers.specs())
    facts = NodeFacts(store.node_id, "in process", 0, 1, tuple(handlers.specs()), (), "", "")
    counts = Counts()
    with connect(database_url) as connection:
        store.join(connection, facts, _LEASE)
        try:
            claim = store.claim_one(connection, job_id, None)
            if claim is None:
                raise UsageError(f"job {job_id} does not wait to be run", f"see: batchproc jobs show {job_id}")
            outcome = _attempt(settings, database_url, handlers, claim.job_id, claim.claim_id)
            spec = handlers[claim.kind].spec
            claim = store.refreshed(connection, [claim]).get(claim.claim_id, claim)
            moved = settle(claim, outcome, spec, max_node_losses=settings.retry.max_node_losses, jitter=random.random())  # noqa: S311
            stored = store.settle(connection, [Ended(moved)]).states.get(job_id)
            if stored is not None:
                counts.add(moved, stored)
            print(f"job {job_id} {claim.kind}: {outcome}")  # noqa: T201 - a command's output
        finally:
            store.leave(connection)
    return counts.exit_code(settings.run.accept_codes)


def _attempt(settings: Settings, database_url: str, handlers: Registry, job_id: int, claim_id: UUID) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="batchproc-job-") as folder:
        worker = Worker(WorkerOptions(database_url, settings), handlers, _NoProgress(), Path(folder), debug=True)
        try:
            return worker.run(job_id, claim_id)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything; the person sees all of it
            traceback.print_exception(error)
            if sys.stdin.isatty():
                pdb.post_mortem(error.__traceback__)
            return worker.unexpected(error)
        except (KeyboardInterrupt, SystemExit):
            # Stopped by hand: the job goes back unharmed.
            return Interrupted("stopped in process")
        finally:
            worker.close()
