"""EXPLAIN pins of what is asked and done of a campaign: by its own index, whatever else the table holds.

60,000 jobs of forty campaigns and of none, interleaved, after 20,000 that are over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from psycopg import sql

from batchproc.database import connect
from tests.database import database_on
from tests.queue.helpers import Conn
from tests.queue.test_plans import STATEMENTS, Plan, explained, nodes

CAMPAIGN = 2
_CAMPAIGNS = "insert into batchproc.campaigns (command, documents) select 'import', 0 from generate_series(1, 40)"
_JOBS = """
    insert into batchproc.processing_jobs
        (tenant_id, kind, state, max_attempts, campaign_id, claim_id, node_id, claimed_at, finished_at)
    select 1, 'work', s.state, 5, nullif(mod(n, 41), 0),
           case when s.state = 'running' then gen_random_uuid() end,
           case when s.state = 'running' then gen_random_uuid() end,
           case when s.state = 'running' then now() end,
           case when s.state in ('completed', 'discarded', 'cancelled') then now() end
    from generate_series(1, 60000) n
    cross join lateral (
        select case when mod(n, 9973) < 5 then 'running' when mod(n, 501) < 5 then 'discarded'
                    when mod(n, 1003) < 5 then 'cancelled' when n < 20000 then 'completed' else 'available' end as state
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
                connection.execute("insert into batchproc.tenants (slug) values ('acme')")
                for statement in (_CAMPAIGNS, _JOBS):
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


WAITING, HELD, RUNNING = "processing_jobs_campaign", "processing_jobs_held", "processing_jobs_running_(node|kind)"
DONE, FAILED = "processing_jobs_campaign_done", "processing_jobs_campaign_failed"
ONE = {"campaign_id": CAMPAIGN}
NEXT = ONE | {"after": 0, "limit": 500}
FAILURES = {"states": ["discarded", "cancelled"], "failure_codes": None, "tenant_id": None}
PINS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "campaign_unfinished": (NEXT, {WAITING, HELD, RUNNING}),
    "campaign_waiting": (NEXT, {WAITING}),
    "campaign_held": (ONE | {"before": 2**40, "limit": 500}, {HELD}),
    "campaign_failed": (NEXT | FAILURES, {FAILED}),
    "campaign_failures": (ONE, {FAILED}),
    "campaign_left": (ONE, {WAITING, HELD, RUNNING}),
    "finish_cancel": ({"campaign_ids": [CAMPAIGN]}, {WAITING, HELD, RUNNING}),
    "list_campaigns": (ONE | {"tenant": None, "before": None, "limit": 1}, {WAITING, HELD, RUNNING, DONE, FAILED}),
    "report_campaign": (ONE, {WAITING, HELD, RUNNING, DONE, FAILED}),
}


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("name", PINS)
def test_the_jobs_of_a_campaign_are_read_by_its_indexes(connection: Conn, name: str, generic: bool) -> None:
    values, expected = PINS[name]
    plan = explained(connection, name, values, generic=generic)
    scans = {node["Node Type"] for node in nodes(plan) if node.get("Relation Name") == "processing_jobs"}
    assert scans
    assert "Seq Scan" not in scans, json.dumps(plan, indent=1)
    used = {node["Index Name"] for node in nodes(plan) if "processing_jobs" in node.get("Index Name", "")}
    # Not by the primary key: in the order of the ids it meets the jobs of all others.
    assert all(re.fullmatch("|".join(expected), index) for index in used), used
    assert len(used) >= len(expected)


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
def test_what_a_broken_off_cancel_left_is_found_by_the_indexes(connection: Conn, generic: bool) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute("update batchproc.campaigns set cancelling = true where campaign_id = %s", [CAMPAIGN])
        plan = explained(connection, "strays", {"limit": 500, "skip": []}, generic=generic)
    scans = {node["Node Type"] for node in nodes(plan) if node.get("Relation Name") == "processing_jobs"}
    assert "Seq Scan" not in scans, json.dumps(plan, indent=1)
    used = {node["Index Name"] for node in nodes(plan) if "processing_jobs" in node.get("Index Name", "")}
    assert not used & {DONE, FAILED, "processing_jobs_finished"}, used


def buffers(connection: Conn, name: str, values: dict[str, Any]) -> int:
    """Pages that the statement touches."""
    row = connection.execute(b"explain (analyze, buffers, format json) " + STATEMENTS[name], values).fetchone()
    assert row is not None
    plan: Plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


@pytest.mark.parametrize("after", [0, 40_000])
def test_a_batch_of_what_is_left_costs_what_it_holds(connection: Conn, after: int) -> None:
    assert buffers(connection, "campaign_unfinished", NEXT | {"after": after, "limit": 100}) < 300


def test_a_claim_writes_nothing_for_the_campaign_of_its_job(connection: Conn) -> None:
    """An index enters a row anew each time it is claimed or settled, unless it leaves out the state that it gets."""
    lists = """
        select c.relname, c.oid::regclass from pg_index i join pg_class c on c.oid = i.indexrelid
        where indrelid = 'batchproc.processing_jobs'::regclass and pg_get_indexdef(c.oid) like '%campaign_id%'
    """
    entered = """
        select count(*) from pg_index
        where indexrelid = %s::regclass and pg_get_expr(indpred, indrelid) not like '%%running%%'
          and pg_get_expr(indpred, indrelid) like '%%state%%'
    """
    found: dict[str, str] = dict(connection.execute(lists).fetchall())
    assert set(found) == {WAITING, HELD, DONE, FAILED}
    for index in found.values():
        assert connection.execute(entered, [index]).fetchone() == (1,), index
