"""A worker's connection to the database: opened when first needed, lent to handlers, and cleared after each."""

from __future__ import annotations

import threading
from collections.abc import Callable

from batchproc.database import Session, connect
from batchproc.engine import lent_session
from batchproc.handlers.context import APPLICATION

CONNECT_SECONDS = 10

_SESSION = {
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "10min",
    "client_connection_check_interval": "5s",
    "default_transaction_isolation": "read committed",
}


class WorkerSession:
    """One connection at a time.

    Args:
        note_backend: told the process id of each one's backend, which is to be ended if the worker is killed; 0 where
            that is not known.
    """

    def __init__(self, database_url: str, note_backend: Callable[[int], None]) -> None:
        self._database_url = database_url
        self._note_backend = note_backend
        self._connection: Session | None = None
        self._lent = False

    def connect(self, within: int = CONNECT_SECONDS) -> Session:
        """The connection, opened when first needed, in so many seconds, and again when it broke."""
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = connect(
                self._database_url, application_name=APPLICATION, connect_timeout=within, settings=_SESSION
            )
            # A pooler's process ids are its own: on the server they may be those of anybody's backend.
            self._note_backend(0 if self._connection.pooled else self._connection.info.backend_pid)
        return self._connection

    def lend(self) -> Session:
        """The connection, for a handler: it may leave things in the session."""
        self._lent = True
        return self.connect()

    def take_back(self, job_id: int) -> None:
        """After a job: nothing is left in the session that its handler may have put there."""
        lent, self._lent = self._lent, False
        connection = self._connection
        if connection is None or not lent:
            return
        if threading.active_count() > 1:  # a thread that it left may go on using it
            connection.close()
        self._connection = lent_session.given_back(connection, job_id)

    def close(self) -> None:
        """The next one is a fresh one."""
        if self._connection is not None:
            self._connection.close()
