"""The node's lease: renewed on a connection and a thread of its own, which no job can block."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import BatchprocError
from batchproc.queue.node_store import NodeStore

# A lease is renewed three times before it would end, and given up this long before it does.
_RENEWALS_PER_LEASE = 3
_SAFETY = 0.15


class Lease:
    """Keeps the node's lease alive, or says in time that it could not.

    Args:
        connect: opens a fresh connection.
        seconds: the length of the lease.
        lost: called from the lease's thread, once, before the lease ends or as soon as it is known to have.
    """

    def __init__(
        self,
        store: NodeStore,
        connect: Callable[[], Connection[TupleRow]],
        seconds: float,
        lost: Callable[[], None],
    ) -> None:
        self._store = store
        self._connect = connect
        self._seconds = seconds
        self._lost = lost
        self._stop = Event()
        self._told = False
        self._held_until = time.monotonic() + seconds
        self._thread = Thread(target=self._keep, name="lease", daemon=True)

    def start(self) -> None:
        """Begins to renew; the node has just joined."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; the lease itself is left to end, or to the node's leaving."""
        self._stop.set()
        self._thread.join()

    def renewed(self) -> None:
        """The node has joined again, under a new id and with a full lease."""
        self._held_until = time.monotonic() + self._seconds
        self._told = False

    def _keep(self) -> None:
        connection: Connection[TupleRow] | None = None
        pause = 0.0
        while not self._stop.wait(pause):
            connection, renewed = self._renew(connection)
            in_danger = time.monotonic() > self._held_until - self._seconds * _SAFETY
            if (renewed is False or in_danger) and not self._told:
                logger.error("the lease of this node was lost: its jobs are stopped and it joins again")
                self._told = True
                self._lost()
            pause = self._seconds / _RENEWALS_PER_LEASE if renewed else min(1.0, self._seconds / 20)
        if connection is not None:
            connection.close()

    def _renew(self, connection: Connection[TupleRow] | None) -> tuple[Connection[TupleRow] | None, bool | None]:
        """One try: the connection (None when it is gone), and whether the lease lives (None when not known)."""
        asked = time.monotonic()
        try:
            connection = connection or self._connect()
            if not self._store.renew(connection, self._seconds):
                return connection, False
        except (psycopg.Error, BatchprocError) as error:
            logger.warning("the lease could not be renewed: {}", type(error).__name__)
            if connection is not None:
                connection.close()
            return None, None
        self._held_until = asked + self._seconds
        return connection, True
