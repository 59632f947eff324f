"""The checker of what must hold in the database after every test, and of what must not be there any more."""

from __future__ import annotations

from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

from tests.waiting import wait_until

_STATEMENT = Path(__file__).with_suffix(".sql").read_bytes()
_BACKENDS = b"""
    select application_name, state, query from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and application_name like 'batchproc %'
"""
_ADVISORY_LOCKS = b"""
    select l.objid from pg_locks l join pg_database d on d.oid = l.database
    where l.locktype = 'advisory' and d.datname = current_database()
"""


def violations(connection: Connection[TupleRow]) -> list[str]:
    """What is wrong in the database, empty when nothing is."""
    return [f"{violation}: {what}" for violation, what in connection.execute(_STATEMENT).fetchall()]


def assert_sound(connection: Connection[TupleRow]) -> None:
    """The tables agree with each other; holds at any moment, also while nodes run."""
    found = violations(connection)
    assert not found, found


def assert_left_alone(connection: Connection[TupleRow], deadline_seconds: float = 10.0) -> None:
    """No running job, backend or advisory lock is left; for when every node has ended or lost its lease."""
    running = connection.execute(b"select job_id from batchproc.processing_jobs where state = 'running'").fetchall()
    assert not running, f"still running: {running}"
    for what, statement in (("backend", _BACKENDS), ("advisory lock", _ADVISORY_LOCKS)):
        wait_until(
            lambda statement=statement: not connection.execute(statement).fetchall(),  # type: ignore[misc]
            deadline_seconds,
            f"no {what} left: {connection.execute(statement).fetchall()}",
        )
