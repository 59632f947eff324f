"""EXPLAIN pins of what promotes and prunes: by index, never more than a step, with and without statistics.

60,000 jobs of 200 tenants: half are over, a third is scheduled for later, and of each tenant a few are due.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from psycopg import sql

from batchproc.database import connect
from tests.database import database_on
from tests.queue.helpers import Conn
from tests.queue.test_plans import STATEMENTS, Plan, explained, nodes

YEAR_ONE = datetime(1, 1, 1, tzinfo=UTC)
_TENANTS = "insert into batchproc.tenants (slug) select 't' || n from generate_series(1, 200) n"
_JOBS = """
    insert into batchproc.processing_jobs (tenant_id, kind, state, run_at, max_attempts, finished_at)
    select 1 + mod(n, 200), 'work', s.state,
           case when s.state = 'scheduled' and n > 6000 then now() + interval '1 day' else now() end, 5,
           case when s.state = 'completed' then now() - make_interval(secs => n) end
    from generate_series(1, 60000) n
    cross join lateral (
        select case when mod(n, 6) < 3 then 'completed' when mod(n, 6) < 5 then 'scheduled'
                    else 'available' end as state
    ) s
"""


@pytest.fixture(scope="module")
def crowded(server_url: str, template_database: str) -> Iterator[Conn]:
    name = f"batchproc_test_{uuid4().hex[:12]}"
    with connect(server_url) as server:
        server.execute(
            sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template_database))
        )
        try:
            with connect(database_on(server_url, name)) as connection:
                # Nothing but the test decides when there are statistics.
                connection.execute("alter table batchproc.processing_jobs set (autovacuum_enabled = off)")
                for statement in (_TENANTS, _JOBS):
                    connection.execute(statement.encode())
                yield connection
        finally:
            server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture(scope="module", params=["without statistics", "analysed"])
def connection(crowded: Conn, request: pytest.FixtureRequest) -> Conn:
    """The crowded database; pytest runs all tests without statistics before those with."""
    if request.param == "analysed":
        crowded.execute("analyze")
    return crowded


LATER = datetime.now(UTC) + timedelta(days=1)
LOOK = {"until": LATER, "after_time": YEAR_ONE, "after_id": 0, "limit": 5000, "kinds": []}
PINS: dict[str, tuple[dict[str, Any], str]] = {
    "prunable": (LOOK | {"states": ["completed"], "tenant_id": None}, "processing_jobs_finished"),
    "prunable, of one tenant": (LOOK | {"states": ["discarded"], "tenant_id": 7}, "processing_jobs_finished"),
    "prune_jobs": ({"job_ids": list(range(1000, 1500)), "until": LATER}, "processing_jobs_pkey"),
    "due_jobs": ({"skip": [], "limit": 1000}, "processing_jobs_due"),
    "due_by_tenant": ({"after": 0, "per_tenant": 5, "limit": 1000, "skip": []}, "processing_jobs_promote"),
    "promote_jobs": ({"job_ids": list(range(1000, 1500))}, "processing_jobs_pkey"),
}


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("name", PINS)
def test_the_job_table_is_read_by_index(connection: Conn, name: str, generic: bool) -> None:
    values, expected = PINS[name]
    plan = explained(connection, name, values, generic=generic)
    scans = {node["Node Type"] for node in nodes(plan) if node.get("Relation Name") == "processing_jobs"}
    assert scans
    assert "Seq Scan" not in scans, json.dumps(plan, indent=1)
    assert expected in {node.get("Index Name") for node in nodes(plan)}, json.dumps(plan, indent=1)


def buffers(connection: Conn, name: str, values: dict[str, Any]) -> int:
    """Pages that the statement touches."""
    row = connection.execute(b"explain (analyze, buffers, format json) " + STATEMENTS[name], values).fetchone()
    assert row is not None
    plan: Plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def test_a_look_reads_what_it_may_take_and_no_more(connection: Conn) -> None:
    """2,000 jobs are due and 18,000 are scheduled for later: those cost nothing."""
    with connection.transaction(force_rollback=True):
        assert buffers(connection, "due_jobs", {"skip": [], "limit": 100}) < 200
        few = {"after": 0, "per_tenant": 1, "limit": 10, "skip": []}
        assert buffers(connection, "due_by_tenant", few) < 200, "the limit ends the walk over the tenants"
        connection.execute("delete from batchproc.processing_jobs where state = 'scheduled' and run_at <= now()")
        connection.execute("set local enable_seqscan = off")  # for the plan of the first look
        buffers(connection, "due_jobs", {"skip": [], "limit": 1000})
        assert buffers(connection, "due_jobs", {"skip": [], "limit": 1000}) < 300, "the deleted are not gone yet"


def test_a_look_for_old_jobs_of_a_small_tenant_ends_with_its_stretch(connection: Conn) -> None:
    one = LOOK | {"states": ["discarded"], "tenant_id": 7, "limit": 500}
    assert buffers(connection, "prunable", one) < 1500, "three pages a job at most"
