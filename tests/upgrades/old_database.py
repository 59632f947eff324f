"""Databases as earlier releases left them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from psycopg import ClientCursor, sql

from batchproc.queue import migrate
from tests.handlers.running_job import Conn

RELEASED = [1, 2, 3, 4]
"""Schemas that were released. Their migrations are never changed; the next release adds its own here, and a file of
what it brought to be filled."""
IN_WORK = [5, 6]
"""Those of the next release."""

_HERE = Path(__file__).parent
_COLUMNS = """
    select table_name, column_name, data_type, is_nullable, column_default, is_generated, is_identity
    from information_schema.columns where table_schema = 'batchproc' order by table_name, column_name
"""


def make(connection: Conn, version: int, patch: pytest.MonkeyPatch) -> None:
    """Applies the migrations up to ``version``, and nothing that came later."""
    known = migrate.known_migrations()
    with patch.context() as only:
        only.setattr(migrate, "known_migrations", lambda: known[:version])
        migrate.apply(connection)


def fill(connection: Conn, version: int, original: Path) -> None:
    """Puts into it what nodes of that release had. ``original`` is the file of document 1."""
    content = original.read_bytes()
    values = {
        "root": bytes(original.parent),
        "path": original.name.encode(),
        "sha256": hashlib.sha256(content).digest(),
        "bytes": len(content),
    }
    for number in range(1, version + 1):
        statements = (_HERE / f"fill_{number:04}.sql").read_text("utf-8").encode()
        with connection.transaction(), ClientCursor(connection) as cursor:
            # Parameters are put in here, so that the server may be sent many statements at once.
            cursor.execute(statements, values if number == 1 else None)


def columns(connection: Conn) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Table and column to the column's type, whether it may be null, its default, and whether it is generated."""
    return {(table, name): tuple(facts) for table, name, *facts in connection.execute(_COLUMNS).fetchall()}


def content(connection: Conn, of: dict[tuple[str, str], tuple[Any, ...]]) -> dict[str, list[str]]:
    """The rows of all tables, as text and sorted: of each row the columns ``of`` names."""
    tables: dict[str, list[str]] = {}
    for table, name in of:
        tables.setdefault(table, []).append(name)
    return {
        table: sorted(
            row[0]
            for row in connection.execute(
                sql.SQL("select row({})::text from {}").format(
                    sql.SQL(", ").join(map(sql.Identifier, names)), sql.Identifier("batchproc", table)
                )
            ).fetchall()
        )
        for table, names in tables.items()
    }
