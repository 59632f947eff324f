"""Waiting for notifications on a connection of its own."""

from __future__ import annotations

import time
from typing import NamedTuple

from loguru import logger
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from batchproc.database import is_pooled
from batchproc.queue import hints
from batchproc.queue.hints import Hint


class Heard(NamedTuple):
    """What was told of queues, without doubles; whether a refresh, and a look for cancel requests, was asked for."""

    hints: list[Hint]
    refresh: bool = False
    cancel: bool = False


class Listener:
    """LISTENs on the schema's channel. Polling is the truth; this only makes it sooner.

    Behind a transaction pooler there is no session to listen in: nothing is ever heard.
    """

    def __init__(self, connection: Connection[TupleRow], schema: str) -> None:
        self._connection = connection
        self._is_deaf = is_pooled(connection)
        if self._is_deaf:
            logger.info("the database is behind a transaction pooler and database.direct_url is not set: polling")
            return
        connection.execute(sql.SQL("listen {}").format(sql.Identifier(hints.channel(schema))))

    def wait(self, timeout: float) -> Heard:
        """Waits up to ``timeout`` seconds for hints.

        Raises:
            psycopg.OperationalError: the connection is gone.
        """
        if self._is_deaf:
            time.sleep(timeout)
            return Heard([])
        heard: dict[Hint, None] = {}
        refresh = cancel = False
        for notification in self._connection.notifies(timeout=timeout, stop_after=1):
            hint = hints.parse(notification.payload)
            if hint is not None:
                heard[hint] = None
            elif notification.payload == hints.CANCEL:
                cancel = True
            else:
                refresh = True
        return Heard(list(heard), refresh, cancel)
