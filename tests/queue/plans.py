"""What the EXPLAIN pins share: a crowded database, and the plans of the queue's statements."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import sql

from batchproc.database import SqlFolder, connect
from batchproc.testing.databases import Databases
from tests.queue.helpers import Conn

STATEMENTS = SqlFolder("batchproc.queue")
Plan = dict[str, Any]


@contextmanager
def crowded_database(databases: Databases, fill: Callable[[Conn], object]) -> Iterator[Conn]:
    """A database with what ``fill`` adds; nothing but the test decides when there are statistics of it."""
    with databases.new() as url, connect(url) as connection:
        connection.execute("alter table batchproc.processing_jobs set (autovacuum_enabled = off)")
        # No look for what each row's foreign keys name: half of the time of the filling.
        connection.execute("set session_replication_role = replica")
        fill(connection)
        connection.execute("reset session_replication_role")
        yield connection


def explained(connection: Conn, name: str, values: Any, *, generic: bool) -> Plan:
    """The plan of a statement, named as its file, with what stands after a comma to tell two apart.

    Args:
        generic: the plan for any parameters, made once and kept, where there are parameters.
    """
    statement = STATEMENTS[name.partition(",")[0]]
    if not generic or values is None:
        row = connection.execute(b"explain (format json) " + statement, values).fetchone()
    else:
        row = _explained_generic(connection, statement, values)
    assert row is not None
    plan: Plan = row[0][0]["Plan"]
    return plan


def _explained_generic(connection: Conn, statement: bytes, values: Any) -> Any:
    named = dict.fromkeys(re.findall(rb"%\((\w+)\)s", statement))
    ordered = [values[name.decode()] for name in named] if named else values
    with connection.transaction(force_rollback=True):
        connection.execute(statement, values, prepare=True)
        known = connection.execute(
            "select name from pg_prepared_statements order by prepare_time desc limit 1"
        ).fetchone()
        assert known is not None
        connection.execute("set local plan_cache_mode = force_generic_plan")
        arguments = sql.SQL(", ").join(sql.Literal(value) for value in ordered)
        execute = sql.SQL("explain (format json) execute {} ({})").format(sql.Identifier(known[0]), arguments)
        return connection.execute(execute).fetchone()


def nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def indexes_of_jobs(plan: Plan) -> set[str]:
    """The indexes by which the job table is read; fails where it is read from end to end, or not at all."""
    scans = {node["Node Type"] for node in nodes(plan) if node.get("Relation Name") == "processing_jobs"}
    assert "Seq Scan" not in scans, json.dumps(plan, indent=1)
    used = {node["Index Name"] for node in nodes(plan) if "processing_jobs" in node.get("Index Name", "")}
    assert scans or used
    return used


def buffers(connection: Conn, name: str, values: dict[str, Any]) -> int:
    """Pages that the statement touches, hits included."""
    row = connection.execute(b"explain (analyze, buffers, format json) " + STATEMENTS[name], values).fetchone()
    assert row is not None
    return touched(row[0][0]["Plan"])


def touched(plan: Plan) -> int:
    """Pages, of a plan that was carried out with ``buffers``."""
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])
