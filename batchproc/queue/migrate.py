"""Numbered plain-SQL migrations, applied in order under an advisory lock.

Each is one transaction, and gives way to nodes that work. One that is named ``..._indexes`` builds indexes on tables of
any size, each beside those who write to its table, and so outside a transaction.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from importlib import resources
from itertools import cycle

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
# Tries to get the tables, in seconds: less than a server waits before it looks for deadlocks, and than a node's own
# patience. Whoever wants a table that a try waits for waits behind it: each is followed by a pause of four times that.
_TRIES = (0.1, 0.1, 0.2, 0.5)
_PAUSES_PER_TRY = 4.0
_LOCK_KEY = 0x6261746368  # "batch": any fixed number, the same in every release
_LOCK_PAUSE = 0.1
_INDEX = re.compile(rb"create (?:unique )?index concurrently if not exists (\w+)\s")


@dataclass(frozen=True, slots=True)
class Migration:
    """One file ``NNNN_name.sql``. ``min_code_version`` is the oldest code that may use the database after it."""

    version: int
    name: str
    min_code_version: int

    @property
    def stem(self) -> str:
        """The file's name without its ending."""
        return f"{self.version:04}_{self.name}"

    @property
    def builds_indexes(self) -> bool:
        """It builds indexes beside those who write, and does nothing else."""
        return self.name.endswith("_indexes")


# What older code cannot live with raises its floor here; everything else keeps the floor before it.
_MIN_CODE_VERSIONS = {
    1: 1,
    3: 2,  # older code would discard jobs with new args, and claim what it has no languages for
    4: 3,  # older code would discard the ranges of pages of a large document
    5: 4,  # older code would discard the jobs of pilots
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
            f"the database lacks {len(missing)} migration(s), next {missing[0].stem}",
            "run: batchproc migrate",
        )


def apply(
    connection: Connection[TupleRow], schema: str = SCHEMA, *, busy_limit: float = BUSY_SECONDS
) -> list[Migration]:
    """Applies what is pending, each migration in a transaction of its own, and returns it.

    Two at once wait for each other. While nodes work, it tries for ``busy_limit`` seconds to find a moment in which it
    gets what it has to lock, and gives way each time: what waits behind a try waits half a second for each table, and a
    fifth of the time at most; none is a deadlock's victim. Indexes are built beside all others, which nobody waits for;
    they wait for transactions that are older, for ``busy_limit`` seconds each. ``connection`` has to be a session of
    its own (not behind a transaction pooler) in autocommit mode.

    Raises:
        UsageError: ``connection`` is behind a transaction pooler.
        EnvironmentFault: the database needs newer code, or refuses a statement.
    """
    require_session(connection, "migrations")
    _lock(connection)
    try:
        missing = pending(connection, schema)
        for migration in missing:
            _apply_or_tell(connection, migration, schema, busy_limit)
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


def _lock(connection: Connection[TupleRow]) -> None:
    # Asking again and again: a statement that waits has a snapshot, and an index that is built waits for all of those.
    while True:
        row = connection.execute("select pg_try_advisory_lock(%s)", [_LOCK_KEY]).fetchone()
        if row is not None and row[0]:
            return
        time.sleep(_LOCK_PAUSE)


def _apply_or_tell(connection: Connection[TupleRow], migration: Migration, schema: str, busy_limit: float) -> None:
    try:
        if migration.builds_indexes:
            _build_indexes(connection, migration, schema, busy_limit)
        else:
            _apply_beside_nodes(connection, migration, schema, busy_limit)
    except _BUSY as error:
        done = "is not finished" if migration.builds_indexes else "changed nothing"
        raise EnvironmentFault(
            f"migration {migration.stem} of schema {schema} found its tables busy for {busy_limit:g} s, and {done}",
            "something holds them locked (a node, a dump, an open transaction): run batchproc migrate again when less"
            " goes on, or stop the nodes for it",
        ) from error


def _apply_beside_nodes(connection: Connection[TupleRow], migration: Migration, schema: str, busy_limit: float) -> None:
    give_up = time.monotonic() + busy_limit
    for patience in cycle(_TRIES):
        try:
            _apply_one(connection, migration, schema, patience)
            return
        except _BUSY:
            if time.monotonic() > give_up:
                raise
            time.sleep(_PAUSES_PER_TRY * patience)


def _build_indexes(connection: Connection[TupleRow], migration: Migration, schema: str, busy_limit: float) -> None:
    """Builds those that are not there yet; may be ended at any point, and begins there again."""
    statements = SqlFolder("batchproc.queue", schema)
    building = SqlFolder("batchproc.queue", schema, "migrations")[migration.stem].split(b";")
    connection.execute(statements["set_session_timeouts"], [f"{round(busy_limit * 1000)}ms"])
    try:
        for statement in filter(bytes.strip, building):
            named = _INDEX.match(statement.strip())
            if named is None:
                raise ValueError(f"{migration.stem}: not an index that is built concurrently, unless it exists")
            if _is_unfinished(connection, schema, named[1].decode()):
                # Of one that was killed or gave up: it is kept up to date, but nothing is looked for in it.
                index = sql.Identifier(schema, named[1].decode())
                connection.execute(sql.SQL("drop index concurrently {}").format(index))
            connection.execute(statement)
    finally:
        if not connection.closed:
            connection.execute("reset lock_timeout")
            connection.execute("reset statement_timeout")
    connection.execute(statements["record_migration"], [migration.version, migration.name, migration.min_code_version])


def _is_unfinished(connection: Connection[TupleRow], schema: str, index: str) -> bool:
    found = connection.execute(SqlFolder("batchproc.queue", schema)["index_is_unfinished"], [schema, index])
    return found.fetchone() is not None


def _apply_one(connection: Connection[TupleRow], migration: Migration, schema: str, patience: float) -> None:
    migrations = SqlFolder("batchproc.queue", schema, "migrations")
    statements = SqlFolder("batchproc.queue", schema)
    with connection.transaction():
        if not _has_schema(connection, schema):
            # Not "if not exists": that asks for the right to create even where there is nothing to.
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
        connection.execute(statements["set_lock_timeout"], [f"{round(patience * 1000)}ms"])
        connection.execute(migrations[migration.stem])
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
