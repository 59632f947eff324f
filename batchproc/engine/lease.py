"""The node's lease: renewed on a connection and a thread of its own, which no job can block.

A second thread watches the clock: a renewal that hangs in a silent network must not keep anybody from noticing that
the lease is about to end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Condition, Thread

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import BatchprocError
from batchproc.core.job import Claim
from batchproc.engine.calm import Calm
from batchproc.queue.node_store import NodeStore

# A lease is renewed three times before it would end, and given up this part of it before it does.
_RENEWALS_PER_LEASE = 3
_SAFETY = 0.15
JOIN_SECONDS = 2.0
"""A renewal may hang in a network that swallows everything; the thread is left to end by itself then."""


class Lease:
    """Keeps the node's lease alive, or says in time that it could not.

    Args:
        connect: opens a fresh connection.
        seconds: the length of the lease.
        lost: called once, from a thread of the lease, before the lease ends or as soon as it is known to have;
            again only after ``renewed``.
        held: told with each renewal which claims the node holds by the database's word.
        calm: is told of every renewal.
        also: renews what the node holds besides, on the same connection; False when that is lost, and with it the
            lease.
    """

    def __init__(
        self,
        store: NodeStore,
        connect: Callable[[], Connection[TupleRow]],
        seconds: float,
        lost: Callable[[], None],
        held: Callable[[list[Claim]], None] = lambda _: None,
        calm: Calm | None = None,
        also: Callable[[Connection[TupleRow]], bool] = lambda _: True,
    ) -> None:
        self._also = also
        self._store = store
        self._connect = connect
        self._seconds = seconds
        self._lost = lost
        self._held = held
        self._calm = calm or Calm(seconds)
        self._changed = Condition()
        self._stopped = False
        self._told = False
        self._held_until = time.monotonic() + seconds
        self._threads = [
            Thread(target=self._keep, name="lease", daemon=True),
            Thread(target=self._watch, name="lease-watch", daemon=True),
        ]

    def start(self) -> None:
        """Begins to renew; the node has just joined."""
        for thread in self._threads:
            thread.start()

    def stop(self, most: float = JOIN_SECONDS) -> None:
        """Ends the threads, or leaves them to it after so many seconds; the lease itself is left to end, or to the
        node's leaving.
        """
        until = time.monotonic() + most
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def renewed(self, asked: float | None = None) -> None:
        """The node has joined again, under a new id and with a full lease, for which it asked at that time."""
        with self._changed:
            self._held_until = (time.monotonic() if asked is None else asked) + self._seconds
            self._told = False
            self._changed.notify_all()

    def _watch(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                left = self._held_until - self._seconds * _SAFETY - time.monotonic()
                if self._told or left > 0:
                    self._changed.wait(None if self._told else left)
                    continue
                self._told = True
            logger.error("the lease of this node was lost: its jobs are stopped and it joins again")
            self._lost()

    def _keep(self) -> None:
        connection: Connection[TupleRow] | None = None
        while not self._stopped:
            connection = self._renew(connection)
            pause = self._seconds / _RENEWALS_PER_LEASE if connection else min(1.0, self._seconds / 20)
            with self._changed:
                self._changed.wait_for(lambda: self._stopped, pause)
        if connection is not None:
            connection.close()

    def _renew(self, connection: Connection[TupleRow] | None) -> Connection[TupleRow] | None:
        """One try; returns the connection, None when it is gone."""
        asked, node_id = time.monotonic(), self._store.node_id
        try:
            with self._calm.asking("lease"):
                connection = connection or self._connect()
                lives = self._also(connection) and self._store.renew(connection, self._seconds)
                held = self._store.held(connection) if lives else []
        except (psycopg.Error, BatchprocError) as error:
            logger.warning("the lease could not be renewed: {}", type(error).__name__)
            if connection is not None:
                connection.close()
            return None
        with self._changed:
            if node_id == self._store.node_id:  # else the answer is about a lease that was given up meanwhile
                self._held_until = asked + self._seconds if lives else asked
                self._changed.notify_all()
        self._held(held)
        return connection
