"""Waiting for notifications on a connection of its own."""

from __future__ import annotations

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from batchproc.core.fairness import Queue
from batchproc.queue import hints


class Listener:
    """LISTENs on the schema's channel. Polling is the truth; this only makes it sooner."""

    def __init__(self, connection: Connection[TupleRow], schema: str) -> None:
        self._connection = connection
        connection.execute(sql.SQL("listen {}").format(sql.Identifier(hints.channel(schema))))

    def wait(self, timeout: float) -> tuple[list[Queue], bool]:
        """Waits up to ``timeout`` seconds for hints.

        Returns:
            The queues that were named, without doubles, and whether a refresh was asked for.

        Raises:
            psycopg.OperationalError: the connection is gone.
        """
        queues: dict[Queue, None] = {}
        refresh = False
        for notification in self._connection.notifies(timeout=timeout, stop_after=1):
            queue = hints.parse(notification.payload)
            if queue is None:
                refresh = True
            else:
                queues[queue] = None
        return list(queues), refresh
