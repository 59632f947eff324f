"""A schema for a moment in the database in use: migrated, empty, dropped at the end, whatever that end is.

What goes on in it is seen by nobody else: no node claims its jobs, and no table of the archive is touched.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from loguru import logger
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from batchproc.core.errors import BatchprocError
from batchproc.database import SqlFolder, connect, require_session
from batchproc.queue import migrate

_FOLDER = "batchproc.ops"


@contextmanager
def scratch_schema(direct_url: str, word: str) -> Iterator[str]:
    """The name of a fresh schema ``batchproc_<word>_<random>``, dropped at the end.

    What killed processes have left of the same word is dropped before.

    Args:
        direct_url: the database, past a transaction pooler.
        word: what it is for, such as ``bench``.

    Raises:
        EnvironmentFault: the database cannot be reached.
        UsageError: the URL leads through a transaction pooler.
        psycopg.errors.InsufficientPrivilege: the role may not create a schema.
    """
    name = f"batchproc_{word}_{secrets.token_hex(6)}"
    with _life(direct_url, word, name) as life:
        drop_left(life, word)
        try:
            with connect(direct_url, application_name=f"batchproc {word}") as connection:
                migrate.apply(connection, name)
            yield name
        finally:
            _drop(direct_url, word, name)


def drop_left(connection: Connection[TupleRow], word: str) -> list[str]:
    """Drops what killed processes have left: the schemas of that word whose advisory lock nobody holds; their names.

    Logs a warning of one that cannot be dropped, with the statement that does it.
    """
    statements = SqlFolder(_FOLDER)
    dropped = []
    for (name,) in connection.execute(statements["scratch_schemas"], [word]).fetchall():
        row = connection.execute(statements["lock_scratch_schema"], [name]).fetchone()
        assert row is not None
        if not row[0]:
            continue
        try:
            _drop_schema(connection, name)
            dropped.append(name)
        except psycopg.Error as error:
            logger.warning(
                "the schema of a killed {} is left behind ({}): drop schema {} cascade",
                word,
                type(error).__name__,
                name,
            )
        finally:
            connection.execute(statements["unlock_scratch_schema"], [name])
    return dropped


@contextmanager
def _life(direct_url: str, word: str, name: str) -> Iterator[Connection[TupleRow]]:
    """A session that holds the schema's advisory lock, by which others know that this process lives."""
    # Idle for as long as the work in it goes on.
    unending = {"idle_session_timeout": "0"}
    with connect(direct_url, application_name=f"batchproc {word}", settings=unending) as connection:
        require_session(connection, f"a {word}")
        connection.execute(SqlFolder(_FOLDER)["lock_scratch_schema"], [name])
        yield connection


def _drop(direct_url: str, word: str, name: str) -> None:
    try:
        with connect(direct_url, application_name=f"batchproc {word}") as connection:
            _drop_schema(connection, name)
    except (BatchprocError, psycopg.Error) as error:
        logger.error("the {}'s schema is left behind ({}): drop schema {} cascade", word, type(error).__name__, name)


def _drop_schema(connection: Connection[TupleRow], name: str) -> None:
    # One notice for every table is of no use.
    connection.execute("set client_min_messages = warning")
    connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(name)))
