"""A node: one parent process with its pool, its lease and its loop, from joining to leaving."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from uuid import uuid4

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import BatchprocError, UsageError
from batchproc.core.job import Claim, Lane
from batchproc.core.outcome import Outcome
from batchproc.database import connect
from batchproc.engine import kinds, worker
from batchproc.engine.counts import Counts
from batchproc.engine.dispatcher import Dispatcher, DispatchOptions
from batchproc.engine.housekeeping import Held, Housekeeping, News
from batchproc.engine.lease import Lease
from batchproc.engine.mailbox import Mailbox
from batchproc.engine.pool import forkserver
from batchproc.engine.pool.worker_pool import Entry, PoolOptions, WorkerPool
from batchproc.engine.ready import Scope
from batchproc.engine.settling import Settling
from batchproc.engine.workdir import node_folder
from batchproc.queue.node_store import NodeFacts, NodeStore
from batchproc.settings import Settings
from batchproc.version import __version__

_APPLICATION = "batchproc node"
# One row that somebody holds, a person in psql or the handler of a cut-off node, must not stop everything else.
_SESSION = {"options": "-c lock_timeout=5s"}


@dataclass(frozen=True)
class RunOptions:
    """What one ``run`` was asked for. ``job_id``: that job alone, due or not."""

    workers: int
    forever: bool = False
    max_jobs: int | None = None
    job_id: int | None = None
    scope: Scope = field(default_factory=Scope)


@dataclass(frozen=True)
class RunReport:
    """What a run did. ``left``: jobs of its scope that still wait. ``seconds``: from start to end.

    ``stopped``: it ended because it was asked to.
    """

    run_id: int
    counts: Counts
    left: int
    seconds: float
    exit_code: int
    stopped: bool = False


class Node:
    """Joins the database's nodes under a new random id, runs, and leaves.

    Args:
        database_url: for claims, settles and the workers.
        direct_url: the same database past a transaction pooler, for LISTEN.
        observe: told every outcome, with the attempt's seconds, before it is written.
    """

    def __init__(
        self,
        settings: Settings,
        database_url: str,
        direct_url: str,
        observe: Callable[[Claim, Outcome, float], None],
        *,
        log_to_stderr: bool = True,
    ) -> None:
        self._settings = settings
        self._database_url = database_url
        self._direct_url = direct_url
        self._observe = observe
        self._log_to_stderr = log_to_stderr

    def run(self, options: RunOptions) -> RunReport:
        """Runs until there is nothing left to do, or until SIGTERM or SIGINT.

        Raises:
            EnvironmentFault: the database is gone for too long, or workers cannot start.
            UsageError: the settings' handlers cannot be imported, or ``job_id`` does not wait.
        """
        started = time.monotonic()
        node_id = uuid4()
        with contextlib.ExitStack() as stack:
            forkserver.acquire()
            stack.callback(forkserver.release)
            known = kinds.learn(self._settings, str(node_id), log_to_stderr=self._log_to_stderr)
            _require_known(options.scope, known)
            store = NodeStore(self._settings.database.schema_name, node_id, known.specs)
            settling = Settling(store, known.specs, self._settings.retry.max_node_losses, self._observe)
            pool = stack.enter_context(self._pool(store, options.workers))
            news: Mailbox[News] = Mailbox()
            stack.callback(news.close)
            run_id = self._join(store, known, options)
            dispatcher = Dispatcher(
                store, self._connect, pool, news, settling, known.specs, self._dispatch_options(options), run_id
            )
            stack.callback(dispatcher.close)
            stack.enter_context(_stopping_signals(dispatcher.request_stop))
            stack.enter_context(self._housekeeping(store, known, news))
            stack.enter_context(self._lease(store, known, options, dispatcher, news))
            try:
                _drive(dispatcher, options)
            except BaseException as error:
                dispatcher.abandon()
                self._leave_after(error, store, dispatcher, run_id)
                raise
            return self._leave(store, dispatcher, run_id, options, started)

    # -- the parts

    def _connect(self) -> Connection[TupleRow]:
        return connect(self._database_url, application_name=_APPLICATION, options=_SESSION)

    def _connect_for_lease(self) -> Connection[TupleRow]:
        # A renewal that takes longer than the wait for the next one is given up and tried on a fresh connection.
        bound = max(1.0, self._settings.dispatch.lease / 3)
        options = {
            "options": f"-c statement_timeout={round(bound * 1000)}",
            "tcp_user_timeout": round(bound * 1000),
        }
        return connect(
            self._database_url,
            application_name=_APPLICATION,
            connect_timeout=max(2, round(bound)),
            options=options,
        )

    def _connect_directly(self) -> Connection[TupleRow]:
        return connect(self._direct_url, application_name=_APPLICATION, options=_SESSION)

    @contextlib.contextmanager
    def _pool(self, store: NodeStore, workers: int) -> Iterator[WorkerPool]:
        settings = self._settings.pool
        with node_folder() as folder:
            options = PoolOptions(
                workers=workers,
                node_id=str(store.node_id),
                max_jobs_per_worker=settings.max_jobs_per_worker,
                preload=kinds.PRELOAD,
                workdir=folder,
                memory_limit_mb=settings.memory_limit_mb,
                nice=settings.nice,
            )
            told = worker.WorkerOptions(self._database_url, self._settings, self._log_to_stderr)
            entry = Entry(worker.run, worker.initialize, (told,))
            pool = WorkerPool(options, entry)
            try:
                pool.start()
                yield pool
            finally:
                pool.close()

    def _join(self, store: NodeStore, known: kinds.Kinds, options: RunOptions) -> int:
        scope = {
            "tenant_ids": sorted(options.scope.tenant_ids),
            "kinds": sorted(options.scope.kinds),
            "lanes": sorted(options.scope.lanes),
        }
        with self._connect() as connection:
            store.join(connection, _facts(store, known, options), self._settings.dispatch.lease)
            return store.start_run(connection, scope)

    @contextlib.contextmanager
    def _housekeeping(self, store: NodeStore, known: kinds.Kinds, news: Mailbox[News]) -> Iterator[None]:
        settings = self._settings
        housekeeping = Housekeeping(
            store,
            self._connect_directly,
            news,
            known.specs,
            schema=settings.database.schema_name,
            poll_interval=settings.dispatch.poll_interval,
            lease=settings.dispatch.lease,
            max_node_losses=settings.retry.max_node_losses,
        )
        housekeeping.start()
        try:
            yield
        finally:
            housekeeping.stop()

    @contextlib.contextmanager
    def _lease(
        self,
        store: NodeStore,
        known: kinds.Kinds,
        options: RunOptions,
        dispatcher: Dispatcher,
        news: Mailbox[News],
    ) -> Iterator[None]:
        seconds = self._settings.dispatch.lease

        def joined_again(connection: Connection[TupleRow]) -> None:
            store.node_id = uuid4()
            store.join(connection, _facts(store, known, options), seconds)
            lease.renewed()

        lease = Lease(
            store, self._connect_for_lease, seconds, dispatcher.lease_lost, lambda claims: news.put(Held(claims))
        )
        dispatcher.join_again = joined_again
        lease.start()
        try:
            yield
        finally:
            lease.stop()

    def _dispatch_options(self, options: RunOptions) -> DispatchOptions:
        dispatch = self._settings.dispatch
        return DispatchOptions(
            workers=options.workers,
            lane_weights={Lane.INTERACTIVE: dispatch.lanes.interactive, Lane.BULK: dispatch.lanes.bulk},
            # A flag, or one job alone, may leave fewer workers than the settings count on.
            reserved=min(dispatch.reserved, options.workers - 1),
            poll_interval=dispatch.poll_interval,
            drain_wait=dispatch.drain_wait,
            shutdown_grace=self._settings.pool.shutdown_grace,
            outage_limit=self._settings.database.outage_limit,
            forever=options.forever,
            max_jobs=1 if options.job_id is not None else options.max_jobs,
            scope=options.scope,
        )

    def _leave(
        self, store: NodeStore, dispatcher: Dispatcher, run_id: int, options: RunOptions, started: float
    ) -> RunReport:
        counts = dispatcher.counts
        exit_code = counts.exit_code(self._settings.run.accept_codes)
        left = store.count_left(
            dispatcher.connection,
            tenant_ids=options.scope.tenant_ids,
            kinds=options.scope.kinds,
            lanes=options.scope.lanes,
        )
        report = RunReport(run_id, counts, left, time.monotonic() - started, exit_code, dispatcher.stopping)
        store.finish_run(dispatcher.connection, run_id, exit_code, counts.plain() | {"left": left})
        store.leave(dispatcher.connection)
        return report

    def _leave_after(self, error: BaseException, store: NodeStore, dispatcher: Dispatcher, run_id: int) -> None:
        exit_code = error.exit_code if isinstance(error, BatchprocError) else 3
        try:
            store.finish_run(dispatcher.connection, run_id, exit_code, dispatcher.counts.plain())
            if not dispatcher.holds_claims:
                store.leave(dispatcher.connection)
        except psycopg.Error as failed:
            logger.warning("the node could not leave ({}): its lease ends by itself", type(failed).__name__)


def _drive(dispatcher: Dispatcher, options: RunOptions) -> None:
    if options.job_id is not None and not dispatcher.claim(options.job_id):
        raise does_not_wait(options.job_id)
    dispatcher.run()


def does_not_wait(job_id: int) -> UsageError:
    """The error for a job that was asked for by its id and is running, ended or not there."""
    return UsageError(
        f"job {job_id} does not wait to be run, or no handler here knows its kind",
        f"see: batchproc jobs show {job_id}",
    )


def _facts(store: NodeStore, known: kinds.Kinds, options: RunOptions) -> NodeFacts:
    return NodeFacts(
        node_id=store.node_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        slots=options.workers,
        kinds=tuple(sorted(known.specs)),
        languages=known.languages,
        engine_version=known.engine_version,
        code_version=__version__,
    )


def _require_known(scope: Scope, known: kinds.Kinds) -> None:
    unknown = sorted(scope.kinds - set(known.specs))
    if unknown:
        raise UsageError(f"no handler declares kind {', '.join(unknown)}", f"known: {', '.join(sorted(known.specs))}")


@contextlib.contextmanager
def _stopping_signals(request_stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM, SIGINT and SIGHUP (a closed terminal) ask for a stop, a second one for a stop at once."""

    def asked(_number: int, _frame: FrameType | None) -> None:
        # Nothing else: a log line could wait for the one that this signal has interrupted.
        request_stop()

    before = {number: signal.signal(number, asked) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
