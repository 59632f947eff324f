"""What killed workers have left running in the database: it holds locks that a settle, or a retry, would wait for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from uuid import UUID

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.engine.pool.worker_pool import Ended
from batchproc.handlers.context import APPLICATION, transaction_name
from batchproc.queue.node_store import NodeStore

# Of a database that answers, but does not end them.
_MOST_TRIES = 3


class LeftBackends:
    """Remembers the backends of killed workers until they are ended, also through an outage."""

    def __init__(self, store: NodeStore) -> None:
        self._store = store
        self._left: dict[UUID, int | None] = {}
        self._since = 0.0
        self._tries = 0

    def note(self, ended: Sequence[Ended]) -> None:
        """Whose worker is dead may have left one."""
        killed = [end for end in ended if end.killed]
        if killed and not self._left:
            self._since, self._tries = time.monotonic(), 0
        self._left.update((end.work.claim_id, end.backend_pid) for end in killed)

    def end(self, connection: Connection[TupleRow]) -> None:
        """Ends them; after an error of the database they are kept for the next call, which makes it again."""
        if not self._left:
            return
        pids = [pid for pid in self._left.values() if pid]
        names = [transaction_name(claim_id) for claim_id in self._left]
        try:
            if self._tries and self._store.uptime(connection) < time.monotonic() - self._since:
                pids = []  # none has survived the server's restart, and their process ids may be other workers' now
            self._store.end_backends(connection, pids, APPLICATION, names)
        except psycopg.Error as error:
            logger.warning("the backend of a killed worker could not be ended: {}", type(error).__name__)
            self._tries += 1
            if connection.closed or self._tries < _MOST_TRIES:
                return
        self._left.clear()
