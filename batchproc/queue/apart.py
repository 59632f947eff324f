"""Writing many rows so that one which cannot be written stops no other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeVar

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

Written = TypeVar("Written")

# SQLSTATE classes of what would fail with every other row too: a server that only reads, a right or a table that is
# missing, a full disk, a shutdown.
_NOT_OF_A_ROW = ("25", "42", "53", "57P", "58")


def write_apart(
    connection: Connection[TupleRow], job_ids: Sequence[int], write: Callable[[list[int]], Sequence[Written]]
) -> tuple[list[Written], list[int]]:
    """Writes rows in one go and, where that fails, each half for itself: a bad row costs log n tries, not n.

    Args:
        connection: in autocommit mode and outside a transaction, so that what was written stays.
        write: writes the jobs with these ids, all or none, and returns what it has to tell of them.

    Returns:
        What the writes told, and the ids that could not be written.

    Raises:
        psycopg.Error: the connection is gone, or the error is of the database, not of a row.
    """
    told: list[Written] = []
    refused: list[int] = []
    pieces = [list(job_ids)] if job_ids else []
    while pieces:
        piece = pieces.pop()
        try:
            told.extend(write(piece))
        except psycopg.Error as error:
            if is_of_the_database(connection, error):
                raise
            if len(piece) > 1:
                half = len(piece) // 2
                pieces += [piece[half:], piece[:half]]
                continue
            refused += piece
            logger.error("job {} cannot be written: {} ({})", piece[0], type(error).__name__, error.sqlstate)
    return told, refused


def is_of_the_database(connection: Connection[TupleRow], error: psycopg.Error) -> bool:
    """Whether every other row would meet the error too: there is no use in trying them apart."""
    return connection.closed or (error.sqlstate or "57P").startswith(_NOT_OF_A_ROW)


def require_own_transactions(connection: Connection[TupleRow], what: str) -> None:
    """Raises ValueError unless each statement on the connection commits by itself."""
    if not connection.autocommit or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        raise ValueError(
            f"{what} commits batch by batch: it needs a connection in autocommit mode, outside transactions"
        )


class SetAside:
    """Jobs whose rows could not be written a moment ago: left out for a while, so that no batch is full of them.

    Args:
        seconds: how long each is left out.
        most: of more than so many the oldest are tried again sooner.
    """

    def __init__(self, seconds: float = 60.0, most: int = 1000) -> None:
        self._seconds = seconds
        self._most = most
        self._until: dict[int, float] = {}
        self._lock = Lock()

    def add(self, job_ids: Sequence[int]) -> None:
        until = time.monotonic() + self._seconds
        with self._lock:
            for job_id in job_ids:
                self._until.pop(job_id, None)
                self._until[job_id] = until
            while len(self._until) > self._most:
                del self._until[next(iter(self._until))]

    def job_ids(self) -> list[int]:
        """What is left out at this moment."""
        now = time.monotonic()
        with self._lock:
            self._until = {job_id: until for job_id, until in self._until.items() if until > now}
            return list(self._until)
