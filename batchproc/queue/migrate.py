"""Numbered plain-SQL migrations, applied in order under an advisory lock."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from importlib import resources

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.database import SCHEMA, SqlFolder, require_session

# The oldest schema this code can work with, and the newest it knows.
CODE_VERSION = 4
_FILE = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
BUSY_SECONDS = 120.0
_BUSY = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
_LOCK_TIMEOUT = "500ms"  # less than a server waits before it looks for deadlocks, and than a node's own patience
_PAUSE = 0.3
_LOCK_KEY = 0x6261746368  # "batch": any fixed number, the same in every release


@dataclass(frozen=True, slots=True)
class Migration:
    """One file ``NNNN_name.sql``. ``min_code_version`` is the oldest code that may use the database after it."""

    version: int
    name: str
    min_code_version: int


# What older code cannot live with raises its floor here; everything else keeps the floor before it.
_MIN_CODE_VERSIONS = {
    1: 1,
    3: 2,  # older code would discard jobs with new args, and claim what it has no languages for
    4: 3,  # older code would discard the ranges of pages of a large document
}


def known_migrations() -> list[Migration]:
    """The migrations that come with this code, oldest first."""
    folder = resources.files("batchproc.queue").joinpath("migrations")
    found = sorted(match.groups() for entry in folder.iterdir() if (match := _FILE.match(entry.name)))
    floor = 1
    migrations = []
    for number, name in found:
        version = int(number)
        floor = max(floor, _MIN_CODE_VERSIONS.get(version, floor))
        migrations.append(Migration(version, name, floor))
    return migrations


def applied_versions(connection: Connection[TupleRow], schema: str = SCHEMA) -> dict[int, int]:
    """Version to ``min_code_version`` of what is applied; empty for a database without the schema."""
    table = sql.Identifier(schema, "schema_migrations")
    row = connection.execute("select to_regclass(%s)", [table.as_string(connection)]).fetchone()
    if row is None or row[0] is None:
        return {}
    rows = connection.execute(sql.SQL("select version, min_code_version from {}").format(table))
    return dict(rows.fetchall())


def pending(connection: Connection[TupleRow], schema: str = SCHEMA) -> list[Migration]:
    """What ``apply`` would apply.

    Raises:
        EnvironmentFault: the database needs newer code than this.
    """
    applied = applied_versions(connection, schema)
    _refuse_newer(applied)
    return [migration for migration in known_migrations() if migration.version not in applied]


def require_current(connection: Connection[TupleRow], schema: str = SCHEMA) -> None:
    """Raises UsageError when migrations are pending, EnvironmentFault when the database needs newer code."""
    missing = pending(connection, schema)
    if missing:
        raise UsageError(
            f"the database lacks {len(missing)} migration(s), next {missing[0].version:04}_{missing[0].name}",
            "run: batchproc migrate",
        )


def apply(
    connection: Connection[TupleRow], schema: str = SCHEMA, *, busy_limit: float = BUSY_SECONDS
) -> list[Migration]:
    """Applies what is pending, each migration in a transaction of its own, and returns it.

    Two at once wait for each other. While nodes work, it tries for ``busy_limit`` seconds to find a moment in which it
    gets what it has to lock, and gives way each time: no node waits longer than a second, and none is a deadlock's
    victim. ``connection`` has to be a session of its own (not behind a
    transaction pooler) in autocommit mode.

    Raises:
        UsageError: ``connection`` is behind a transaction pooler.
        EnvironmentFault: the database needs newer code, or refuses a statement.
    """
    require_session(connection, "migrations")
    connection.execute("select pg_advisory_lock(%s)", [_LOCK_KEY])
    try:
        missing = pending(connection, schema)
        for migration in missing:
            _apply_beside_nodes(connection, migration, schema, busy_limit)
    except _BUSY as error:
        raise EnvironmentFault(
            f"a migration of schema {schema} found its tables busy for {busy_limit:g} s, and changed nothing",
            "something holds them locked (a node, a dump, an open transaction): run batchproc migrate again when less"
            " goes on, or stop the nodes for it",
        ) from error
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        raise EnvironmentFault(
            f"a migration of schema {schema} failed and was rolled back: {reason}",
            "the role must own the schema or be allowed to create it; mend that and run: batchproc migrate",
        ) from error
    finally:
        if not connection.closed:
            connection.execute("select pg_advisory_unlock(%s)", [_LOCK_KEY])
    return missing


def _apply_beside_nodes(connection: Connection[TupleRow], migration: Migration, schema: str, busy_limit: float) -> None:
    give_up = time.monotonic() + busy_limit
    while True:
        try:
            return _apply_one(connection, migration, schema)
        except _BUSY:
            if time.monotonic() > give_up:
                raise
            time.sleep(_PAUSE)


def _apply_one(connection: Connection[TupleRow], migration: Migration, schema: str) -> None:
    migrations = SqlFolder("batchproc.queue", schema, "migrations")
    statements = SqlFolder("batchproc.queue", schema)
    with connection.transaction():
        if not _has_schema(connection, schema):
            # Not "if not exists": that asks for the right to create even where there is nothing to.
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
        connection.execute(statements["set_lock_timeout"], [_LOCK_TIMEOUT])
        connection.execute(migrations[f"{migration.version:04}_{migration.name}"])
        connection.execute(
            statements["record_migration"], [migration.version, migration.name, migration.min_code_version]
        )


def _has_schema(connection: Connection[TupleRow], schema: str) -> bool:
    return connection.execute("select from pg_namespace where nspname = %s", [schema]).fetchone() is not None


def _refuse_newer(applied: dict[int, int]) -> None:
    needed = max(applied.values(), default=0)
    if needed > CODE_VERSION:
        raise EnvironmentFault(
            f"the database needs code version {needed} or newer, this is {CODE_VERSION}",
            "upgrade batchproc on this host",
        )
