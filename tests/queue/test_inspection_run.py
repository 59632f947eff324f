"""What a run is told that it has before it: what could be claimed, and what of it waits for another attempt."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from batchproc.core.job import Lane
from batchproc.queue.campaign_listing import LeftJobs
from batchproc.queue.inspection_run import Due, Retries, RunInspection, RunningJob
from tests.queue.helpers import (
    Conn,
    add_document,
    add_tenant,
    claim_job,
    ended,
    enqueue,
    expire,
    failed,
    join,
    now,
    running,
)


def looking(
    *,
    tenants: tuple[int, ...] = (),
    kinds: tuple[str, ...] = (),
    lanes: tuple[int, ...] = (),
    able: Mapping[str, Any] | None = None,
) -> RunInspection:
    return RunInspection("batchproc", tenants, kinds, lanes, able)


def pause_tenant(connection: Conn, tenant_id: int) -> None:
    connection.execute("update batchproc.tenants set paused = true where tenant_id = %s", [tenant_id])


def pause_kind(connection: Conn, kind: str) -> None:
    connection.execute("update batchproc.kinds set paused = true where kind = %s", [kind])


def test_what_could_begin_is_counted_within_the_scope(connection: Conn) -> None:
    first, second = add_tenant(connection, "one"), add_tenant(connection, "two")
    enqueue(connection, first)
    enqueue(connection, second, "other", lane=Lane.INTERACTIVE)
    enqueue(connection, second, run_at=now(connection).replace(year=9999))
    scopes = [
        looking(),
        looking(tenants=(first,)),
        looking(kinds=("other",)),
        looking(lanes=(Lane.INTERACTIVE,)),
        looking(tenants=(first,), kinds=("other",)),
    ]
    assert [scope.due(connection).waiting for scope in scopes] == [2, 1, 1, 1, 0]
    assert [sum(work.jobs for work in scope.due_work(connection)) for scope in scopes] == [2, 1, 1, 1, 0]


def test_what_nobody_will_claim_is_neither_counted_nor_work(connection: Conn) -> None:
    acme, beta, node, dead = add_tenant(connection), add_tenant(connection, "beta"), join(connection), join(connection)
    enqueue(connection, acme)
    for tenant, kind in ((beta, "work"), (acme, "once"), (acme, "nobody_knows_it")):
        enqueue(connection, tenant, kind)
    running(connection, node, acme, "other")
    running(connection, dead, acme, "other")
    known = looking(kinds=("work", "once", "other"))
    assert known.due(connection) == Due(3, 2)

    pause_tenant(connection, beta)
    pause_kind(connection, "once")
    expire(connection, dead)
    assert known.due(connection) == Due(1, 1)
    assert known.due_work(connection) == [LeftJobs(acme, "work", 1, 0, 0, None)]
    assert [job.kind for job in known.running_work(connection)] == ["other"]

    connection.execute("update batchproc.kinds set max_running = 0 where kind = 'work'")
    assert known.due(connection) == Due(0, 1)
    assert known.due_work(connection) == []
    connection.execute("update batchproc.kinds set max_running = null where kind = 'work'")
    connection.execute("update batchproc.tenants set max_running = 0 where tenant_id = %s", [acme])
    assert known.due(connection) == Due(0, 1)
    assert known.due_work(connection) == []


def test_nodes_that_hold_jobs_are_told_with_what_is_left_of_their_lease(connection: Conn) -> None:
    acme, own, dead, gone = add_tenant(connection), join(connection), join(connection), join(connection)
    run_id = own.runs.start(connection, own.node_id, {})
    for node in (own, dead, dead, gone):
        running(connection, node, acme)
    expire(connection, dead)
    connection.execute("delete from batchproc.nodes where node_id = %s", [gone.node_id])
    found = {node.node_id: node for node in looking().at_work(connection, run_id)}
    assert {node_id: (node.own, node.jobs) for node_id, node in found.items()} == {
        own.node_id: (True, 1), dead.node_id: (False, 2), gone.node_id: (False, 1)
    }  # fmt: skip
    assert found[own.node_id].seconds > 0
    assert (found[dead.node_id].seconds, found[gone.node_id].seconds) == (0.0, 0.0)
    assert found[gone.node_id].lease_until is None


def test_what_no_node_has_the_languages_for_is_counted(connection: Conn) -> None:
    acme, beta = add_tenant(connection), add_tenant(connection, "beta")
    connection.execute(
        "update batchproc.tenants set settings = %s where tenant_id = %s", [Jsonb({"languages": ["fra"]}), beta]
    )
    join(connection)
    connection.execute("update batchproc.nodes set languages = '{eng,deu}', default_languages = '{eng}'")
    for tenant in (acme, beta, beta):
        enqueue(connection, tenant)
    assert looking().unserved(connection, ["work"]) == 2
    enqueue(connection, acme, languages=("chi_sim", "deu"))
    assert looking().unserved(connection, ["work"]) == 3
    assert looking(tenants=(acme,)).unserved(connection, ["work"]) == 1
    assert looking().unserved(connection, ["other"]) == 0


def test_the_next_that_is_due_is_one_that_nobody_keeps_back(connection: Conn) -> None:
    acme, beta, gamma = (add_tenant(connection, name) for name in ("acme", "beta", "gamma"))
    join(connection)
    assert looking().next_due(connection) is None
    wanted = [(beta, "work"), (gamma, "work"), (acme, "once"), (acme, "other"), (acme, "work")]
    begin = now(connection)
    ids = [
        enqueue(connection, tenant, kind, run_at=begin + timedelta(minutes=minute))
        for minute, (tenant, kind) in enumerate(wanted, 1)
    ]
    enqueue(connection, acme)
    pause_tenant(connection, beta)
    connection.execute("update batchproc.tenants set max_running = 0 where tenant_id = %s", [gamma])
    pause_kind(connection, "once")
    connection.execute("update batchproc.kinds set max_running = 0 where kind = 'other'")
    later = looking().next_due(connection)
    assert later is not None
    assert (later.job_id, later.kind, later.tenant) == (ids[-1], "work", "acme")
    assert 240 < later.seconds <= 300
    assert looking(kinds=("once",)).next_due(connection) is None


def test_what_runs_comes_with_its_pages_and_with_what_it_told_in_this_attempt(connection: Conn) -> None:
    acme, node = add_tenant(connection), join(connection)
    document = add_document(connection, acme)
    connection.execute("update batchproc.documents set page_count = 40")
    claimed = running(connection, node, acme, document_id=document, args={"mode": "force"})
    connection.execute("update batchproc.processing_jobs set claimed_at = claimed_at - interval '90 seconds'")

    [job] = looking().running_work(connection)
    assert 90 <= job.seconds < 150
    told = RunningJob(acme, "work", "force", 40, 0, None, None, job.seconds)
    assert job == told
    node.write_progress(connection, [(claimed.job_id, claimed.claim_id, 3, 40)])
    [job] = looking().running_work(connection)
    assert (job.done, job.total) == (3, 40)
    connection.execute("update batchproc.processing_jobs set claimed_at = clock_timestamp()")
    [job] = looking().running_work(connection)
    assert (job.done, job.total) == (None, None), "that was another attempt's"


@pytest.mark.parametrize(
    ("args", "pages", "unknown"),
    [({}, 7, 0), ({"range": [2, 4]}, 3, 0), ({"range": "join"}, 0, 0)],
    ids=["a document", "a range of it", "its join"],
)
def test_pages_are_told_alike_before_and_while_it_runs(
    connection: Conn, args: dict[str, object], pages: int, unknown: int
) -> None:
    acme, node = add_tenant(connection), join(connection)
    document = add_document(connection, acme)
    connection.execute("update batchproc.documents set page_count = 7")
    job_id = enqueue(connection, acme, document_id=document)
    connection.execute("update batchproc.processing_jobs set args = %s", [Jsonb(args)])
    [waits] = looking().due_work(connection)
    claim_job(connection, node, job_id)
    [runs] = looking().running_work(connection)
    assert (waits.pages, waits.pages_unknown) == (runs.pages, runs.pages_unknown) == (pages, unknown)


def test_retries_are_those_of_the_run_and_it_waits_for_what_is_due_soon(connection: Conn) -> None:
    acme, beta, node = add_tenant(connection), add_tenant(connection, "beta"), join(connection)
    run_id, other = node.runs.start(connection, node.node_id, {}), node.runs.start(connection, node.node_id, {})

    def fail(tenant: int, kind: str, run: int, seconds: float) -> None:
        claimed = claim_job(connection, node, enqueue(connection, tenant, kind), run)
        node.settle(connection, [ended(claimed, failed())])
        connection.execute(
            "update batchproc.processing_jobs set run_at = clock_timestamp() + make_interval(secs => %s)"
            " where job_id = %s",
            [seconds, claimed.job_id],
        )

    def seen() -> tuple[int, float | None]:
        jobs, soon = looking().retries(connection, run_id, 60.0)
        return jobs, None if soon is None else round(soon / 10) * 10

    assert looking().retries(connection, run_id, 60.0) == Retries(0, None)
    fail(acme, "work", other, 10.0)
    enqueue(connection, acme, run_at=now(connection).replace(year=9999))
    fail(acme, "other", run_id, 3000.0)
    assert seen() == (1, None), "nobody waits so long"
    fail(acme, "work", run_id, 50.0)
    fail(acme, "once", run_id, 30.0)
    fail(beta, "work", run_id, 20.0)
    assert seen() == (4, 20.0)
    pause_tenant(connection, beta)
    assert seen() == (4, 30.0)
    pause_kind(connection, "once")
    assert seen() == (4, 50.0)
    connection.execute("update batchproc.kinds set max_running = 0 where kind = 'work'")
    assert seen() == (4, None), "the run does not wait for what nobody may run"
