"""Several statements that see the database as of one moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import Connection, IsolationLevel
from psycopg.rows import TupleRow


@contextmanager
def one_moment(connection: Connection[TupleRow]) -> Iterator[None]:
    """A transaction whose statements all see what the first one saw.

    Raises:
        psycopg.ProgrammingError: a transaction is open already.
    """
    before, connection.isolation_level = connection.isolation_level, IsolationLevel.REPEATABLE_READ
    try:
        with connection.transaction():
            yield
    finally:
        connection.isolation_level = before
