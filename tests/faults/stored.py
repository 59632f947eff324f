"""Whatever the database holds, as text: for tests of what must be nowhere in it."""

from __future__ import annotations

from psycopg import Connection, sql
from psycopg.rows import TupleRow

_TABLES = "select table_name from information_schema.tables where table_schema = %s and table_type = 'BASE TABLE'"


def tables_with(connection: Connection[TupleRow], text: str, schema: str = "batchproc") -> list[str]:
    """The tables in which a row holds ``text`` in any column, also in bytea."""
    found = []
    for (table,) in connection.execute(_TABLES, [schema]).fetchall():
        rows = sql.SQL(
            "select exists (select from {} r where strpos(r::text, %(text)s) > 0 or strpos(r::text, %(hex)s) > 0)"
        ).format(sql.Identifier(schema, table))
        row = connection.execute(rows, {"text": text, "hex": text.encode().hex()}).fetchone()
        if row is not None and row[0]:
            found.append(table)
    return sorted(found)
