"""How a node comes into the database: its row, its run, its row again, and patience with a database that is away."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID, uuid4

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import BatchprocError, EnvironmentFault
from batchproc.database import Session, require_session
from batchproc.engine import signals
from batchproc.engine.last_turns import LastTurns
from batchproc.engine.outage import Outage
from batchproc.engine.run_report import RunOptions
from batchproc.engine.window import LEAVING, Window
from batchproc.queue.exclusive import ExclusiveRun
from batchproc.queue.node_store import NodeFacts, NodeStore
from batchproc.settings import Settings

_PAUSE = 0.5
_LATER = "start it when the database is there again"


class Joining:
    """Joins the nodes and starts a run; after a lost lease joins them again.

    Args:
        connect: opens a connection as the dispatcher's.
        connect_directly: past a transaction pooler; None when nothing stands in between.
        facts: what the node says of itself under an id.
        turns: learns whose turn comes first.
        exclusive: is taken before anything else; None for a run that does not care for others.
    """

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[], Session],
        connect_directly: Callable[[], Session] | None,
        store: NodeStore,
        facts: Callable[[UUID], NodeFacts],
        turns: LastTurns,
        exclusive: ExclusiveRun | None = None,
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._connect_directly = connect_directly
        self._store = store
        self._facts = facts
        self._turns = turns
        self._exclusive = exclusive

    def join(self, options: RunOptions) -> int:
        """The id of the run that has begun.

        Raises:
            EnvironmentFault: the database was away for too long, or until a stop was asked for or the run's window
                ended; or only ``database.direct_url`` does not work: that is more likely to be wrong than away.
            AnotherRun: the run is exclusive, and another one is active.
            UsageError: resources behind a pooler without ``database.direct_url``.
        """
        outage = Outage(self._settings.database.outage_limit)
        while True:
            try:
                with self._connect() as connection:
                    self._require_sessions(connection)
                    fault = self._direct_fault()
                    if fault is None:
                        return self._begin(connection, options)
            except (psycopg.OperationalError, EnvironmentFault) as error:
                outage.failed(error)
                self._pause(error, options.window)
            else:
                raise fault

    def join_again(self, connection: Connection[TupleRow]) -> float:
        """Joins under a new id; gives the time at which the new lease was asked for.

        Raises:
            AnotherRun: the run is exclusive, and another one is active.
        """
        if self._exclusive is not None:
            self._exclusive.take(connection, again=True)
        # Not known as this node's before it has joined: the lease's thread would find that it has no lease.
        node_id, asked = uuid4(), time.monotonic()
        self._store.join(connection, self._facts(node_id), self._settings.dispatch.lease)
        self._store.node_id = node_id
        return asked

    def _begin(self, connection: Session, options: RunOptions) -> int:
        if self._exclusive is not None:
            self._exclusive.take(connection)
        self._store.join(connection, self._facts(self._store.node_id), self._settings.dispatch.lease)
        self._turns.load(connection)
        run_id = self._store.runs.start(connection, self._store.node_id, options.stored_scope())
        if self._exclusive is not None:
            self._exclusive.began(run_id)
        return run_id

    def _require_sessions(self, connection: Session) -> None:
        if self._settings.resources and self._settings.database.direct_url is None:
            require_session(connection, "resources")

    def _direct_fault(self) -> EnvironmentFault | None:
        if self._connect_directly is None:
            return None
        try:
            self._connect_directly().close()
        except BatchprocError as error:
            return EnvironmentFault(
                f"database.url works, but not database.direct_url: {error.message}",
                "set database.direct_url to the same database past the pooler, or leave it out to do without",
            )
        return None

    @staticmethod
    def _pause(error: psycopg.Error | BatchprocError, window: Window | None) -> None:
        why = error.message if isinstance(error, BatchprocError) else type(error).__name__
        give_up = time.monotonic() + _PAUSE
        while (left := give_up - time.monotonic()) > 0:
            if signals.was_asked():
                raise EnvironmentFault(
                    f"stopped while the database was away, before anything was claimed: {why}", _LATER
                )
            if window is not None and window.left <= LEAVING:
                raise EnvironmentFault(
                    f"the database was away until the window of this run ended, {window.shown}: nothing was claimed:"
                    f" {why}",
                    _LATER,
                )
            time.sleep(min(left, 0.05))
