"""Named resource slots: so many jobs at once, over all nodes, may use a thing such as a provider's API.

A slot is a session-level advisory lock on the worker's own connection, so a killed worker leaks none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from batchproc.database import SqlFolder

_POLL_SECONDS = 0.1


@contextmanager
def resource_slot(
    connection: Connection[TupleRow], schema: str, name: str, slots: int, waiting: Callable[[], None]
) -> Iterator[None]:
    """Holds one of ``slots`` slots of the resource ``name``; waits for one while all are taken.

    Args:
        connection: a session of its own (not behind a transaction pooler), in autocommit mode.
        waiting: called about every 0.1 s of the wait; what it raises ends it.
    """
    statements = SqlFolder("batchproc.queue", schema)
    keys = [f"batchproc resource {schema} {name} {slot}" for slot in range(slots)]
    while True:
        held = next((key for key in keys if _take(connection, statements, key)), None)
        if held is not None:
            break
        waiting()
        time.sleep(_POLL_SECONDS)
    try:
        yield
    except BaseException:
        with suppress(psycopg.Error):  # what ended it is what the caller has to see
            _give_back(connection, statements, held)
        raise
    _give_back(connection, statements, held)


def _give_back(connection: Connection[TupleRow], statements: SqlFolder, key: str) -> None:
    """In a transaction that failed nothing can be executed: the slot is given back with the job then."""
    if not connection.closed and connection.info.transaction_status is not TransactionStatus.INERROR:
        connection.execute(statements["unlock_resource"], [key])


def _take(connection: Connection[TupleRow], statements: SqlFolder, key: str) -> bool:
    row = connection.execute(statements["lock_resource"], [key]).fetchone()
    return bool(row and row[0])
