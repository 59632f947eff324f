"""The dispatcher's connection to the database, and what becomes of its claims and endings when that fails."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import EnvironmentFault
from batchproc.engine.outage import Outage
from batchproc.engine.settling import Settling, Written
from batchproc.queue.node_store import NodeStore

_LONGEST_RECONNECT_PAUSE = 5.0
_PAUSE_AFTER_ERROR = 0.5


class DatabaseLink:
    """One connection, for the dispatcher's thread only, opened again when it broke.

    Args:
        outage_limit: seconds of failure after which the run is given up.
        pause: waits so many seconds while the node's other duties go on; raises EnvironmentFault when the node
            was stopped meanwhile.
        apply: told what a mended write has written.
    """

    def __init__(
        self,
        connect: Callable[[], Connection[TupleRow]],
        store: NodeStore,
        settling: Settling,
        outage_limit: float,
        pause: Callable[[float], None],
        apply: Callable[[Written], None],
    ) -> None:
        self._connect = connect
        self._store = store
        self._settling = settling
        self._outage = Outage(outage_limit)
        self._pause = pause
        self._apply = apply
        self.connection = connect()

    def works(self) -> None:
        """The database did what it was asked to."""
        self._outage.over()

    def mend(self, error: psycopg.Error) -> None:
        """After an error of the database: connects again if need be, else writes each ending for itself.

        Raises:
            EnvironmentFault: it has failed for too long, or the node was stopped meanwhile.
        """
        self._outage.failed(error)
        if not self._is_broken():
            try:
                self._apply(self._settling.write_apart(self.connection))
            except psycopg.Error as again:
                self._outage.failed(again)
            # What is left met an error that passes: a lock timeout, a full disk, a server that only reads.
            self._pause(_PAUSE_AFTER_ERROR)
        if self._is_broken():
            self._reconnect()

    def close(self) -> None:
        self.connection.close()

    def _is_broken(self) -> bool:
        return self.connection.closed or self.connection.broken

    def _reconnect(self) -> None:
        """Connects again, then finds out what the broken commit did: nothing is lost, nothing written twice."""
        pause = 0.1
        while True:
            self.connection.close()
            try:
                self.connection = self._connect()
                self._settling.forget_written(self.connection)
                held = self._store.held(self.connection)
                self._settling.give_back_unknown(held, "claimed by a commit whose answer was lost")
            except (psycopg.Error, EnvironmentFault) as error:
                self._outage.failed(error)
                self._pause(pause)
                pause = min(_LONGEST_RECONNECT_PAUSE, pause * 2)
            else:
                self._outage.over()
                return
