"""The dispatcher's connection to the database, and what becomes of its claims and endings when that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.counted import counted
from batchproc.core.errors import EnvironmentFault
from batchproc.engine.outage import Outage
from batchproc.engine.settling import Settling, Written
from batchproc.queue.node_store import NodeStore

T = TypeVar("T")

# Short beside a lease: whoever is back first takes back the jobs of those who are not back within one.
_LONGEST_RECONNECT_PAUSE = 1.0
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
        self._outage = self.outage = Outage(outage_limit)
        self._pause = pause
        self._apply = apply
        self._connection: Connection[TupleRow] | None = None

    @property
    def connection(self) -> Connection[TupleRow]:
        """The connection, which may be broken.

        Raises:
            psycopg.OperationalError: it was not opened yet.
        """
        if self._connection is None:
            raise psycopg.OperationalError("not connected yet")
        return self._connection

    def open(self) -> None:
        """Connects, unless that was done before; raises as ``mend``."""
        if self._connection is None:
            self._reconnect()

    def works(self) -> None:
        """The database committed what it was asked to."""
        if self._outage.over():
            self._settling.stuck.try_all_now()

    def write_stuck(self) -> None:
        """Tries endings again that the database did not take before.

        Raises:
            psycopg.Error: it failed as a whole.
        """
        if self._settling.stuck.due:
            self._apply(self._settling.write_stuck(self.connection))

    def check_stuck(self, *, stopping: bool) -> None:
        """For a node that has nothing else to do: gives up what has been stuck for too long, or for a due stop.

        Raises:
            EnvironmentFault: it was given up.
        """
        stuck = self._settling.stuck
        if self._settling.is_stuck and (stopping or stuck.seconds > self._outage.limit):
            raise EnvironmentFault(
                f"{counted(len(stuck), 'ended job')} could not be settled for {stuck.seconds:.0f} s",
                "see the log for the errors of the database; they are taken back by the next run",
            )

    def keep(self) -> None:
        """Connects again when somebody found the connection broken."""
        if self._is_broken():
            self.mend(psycopg.OperationalError("the connection is lost"))

    def mend(self, error: psycopg.Error) -> None:
        """After an error of the database: connects again if need be, else writes each ending for itself.

        Raises:
            EnvironmentFault: it has failed for too long, or the node was stopped meanwhile.
        """
        self._outage.failed(error)
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            # A session that began read-only stays so, and the server that can be written to may be another by now.
            self.close()
            self._pause(_PAUSE_AFTER_ERROR)
        if not self._is_broken():
            try:
                self._apply(self._settling.write_apart(self.connection))
            except psycopg.Error as again:
                self._outage.failed(again)
            # What is left met an error that passes: a lock timeout, a full disk.
            self._pause(_PAUSE_AFTER_ERROR)
        if self._is_broken():
            self._reconnect()

    def insist(self, action: Callable[[Connection[TupleRow]], T]) -> T:
        """Does something that may be done twice, again and again until it is done; raises as ``mend``."""
        self.open()
        while True:
            try:
                return action(self.connection)
            except psycopg.Error as error:
                self.mend(error)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _is_broken(self) -> bool:
        return self._connection is None or self._connection.closed or self._connection.broken

    def _reconnect(self) -> None:
        """Connects (again), then finds out what a broken commit did: nothing is lost, nothing written twice."""
        pause = 0.1
        while True:
            self.close()
            try:
                self._connection = self._connect()
                self._apply(self._settling.forget_written(self._connection))
                held = self._store.held(self._connection)
            except (psycopg.Error, EnvironmentFault) as error:
                self._outage.failed(error)
                self._pause(pause)
                pause = min(_LONGEST_RECONNECT_PAUSE, pause * 2)
            else:
                self._settling.give_back_unknown(held, "claimed by a commit whose answer was lost")
                self._settling.stuck.try_all_now()
                return
