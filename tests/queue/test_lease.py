"""Nodes and their leases, and taking back what a dead node held."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from batchproc.core.fairness import Turn
from batchproc.core.job import Claim, JobState, KindSpec, Lane
from batchproc.core.outcome import ErrorClass
from batchproc.queue.nights import NightStore
from batchproc.queue.node_store import Ended, NodeFacts, NodeStore
from tests.queue.helpers import (
    PATIENCE,
    SPECS,
    STORE,
    Conn,
    add_tenant,
    at_once,
    attempts,
    claim,
    claim_job,
    decide,
    ended,
    enqueue,
    expire,
    failed,
    job,
    join,
    now,
    one,
    queue_of,
    rows_of,
    running,
    state,
    wait_until,
)

Opened = Callable[[], Conn]
LOST = failed(ErrorClass.LEASE_EXPIRED, "lease_expired")


def rescue(connection: Conn, rescuer: NodeStore) -> dict[UUID, JobState]:
    claims = rescuer.expired_claims(connection)
    return rescuer.settle(connection, [Ended(decide(claimed, LOST)) for claimed in claims], rescue=True).states


# -- the lease


def test_a_node_joins_with_what_it_knows(connection: Conn) -> None:
    before = now(connection)
    facts = NodeFacts(uuid4(), "host", 99, 4, ("once", "work"), ("eng", "deu"), "5.5.4", "0.1.0", ("deu",))
    NodeStore("batchproc", facts.node_id, SPECS).join(connection, facts, 30.0)
    [row] = rows_of(connection, "select * from batchproc.nodes")
    assert before <= row.pop("started_at") <= now(connection)
    assert 29 < (row.pop("lease_until") - before).total_seconds() < 31
    assert row == {
        "node_id": facts.node_id,
        "host": "host",
        "pid": 99,
        "slots": 4,
        "kinds": ["once", "work"],
        "languages": ["eng", "deu"],
        "default_languages": ["deu"],
        "engine_version": "5.5.4",
        "code_version": "0.1.0",
        "reads_ranges": True,
    }


def test_an_id_that_joins_again_has_a_fresh_lease_and_one_row(connection: Conn) -> None:
    """The answer to the first time may have been lost."""
    node = join(connection, lease=5.0)
    join(connection, node_id=node.node_id, lease=3600.0)
    assert one(connection, "select lease_until > clock_timestamp() + interval '50 min' from batchproc.nodes")


def test_a_limit_of_the_settings_is_stored_and_settings_without_one_leave_it(connection: Conn) -> None:
    def joined(**limits: int | None) -> dict[str, tuple[int | None, bool]]:
        node_id, specs = uuid4(), {kind: KindSpec(kind, limit=limit) for kind, limit in limits.items()}
        facts = NodeFacts(node_id, "host", 1, 1, tuple(specs), (), "", "")
        NodeStore("batchproc", node_id, specs).join(connection, facts, 30.0)
        rows = rows_of(connection, "select kind, declared_limit, paused from batchproc.kinds")
        return {row["kind"]: (row["declared_limit"], row["paused"]) for row in rows}

    assert joined(work=3, other=None) == {"work": (3, False), "other": (None, False)}
    connection.execute("update batchproc.kinds set paused = true")
    assert joined(work=5, other=1) == {"work": (5, True), "other": (1, True)}
    assert joined(work=None) == {"work": (5, True), "other": (1, True)}


def test_a_living_lease_is_renewed_and_an_expired_one_is_not(connection: Conn) -> None:
    node = join(connection, lease=5.0)
    assert node.renew(connection, 60.0)
    assert one(connection, "select lease_until > clock_timestamp() + interval '50 s' from batchproc.nodes")
    expire(connection, node)
    before = one(connection, "select lease_until from batchproc.nodes")
    assert not node.renew(connection, 60.0)
    assert one(connection, "select lease_until from batchproc.nodes") == before
    node.leave(connection)
    assert not node.renew(connection, 60.0)


def test_a_lease_ends_by_the_databases_clock(connection: Conn) -> None:
    node = join(connection, lease=0.05)
    wait_until(lambda: not node.renew(connection, 0.0), "a lease of no length to end")


def test_live_nodes_tell_the_kinds_that_can_be_run(connection: Conn) -> None:
    assert STORE.known_kinds(connection) == set()
    node = join(connection)
    assert STORE.known_kinds(connection) == {"work", "other", "once"}
    expire(connection, node)
    assert STORE.known_kinds(connection) == set()


def test_nodes_that_ended_long_ago_are_forgotten_unless_they_hold_a_job(connection: Conn) -> None:
    tenant = add_tenant(connection)
    old, holding, recent = join(connection), join(connection), join(connection)
    running(connection, holding, tenant)
    connection.execute("update batchproc.nodes set lease_until = clock_timestamp() - interval '2 days'")
    expire(connection, recent)
    newest = join(connection)
    known = {row["node_id"] for row in rows_of(connection, "select node_id from batchproc.nodes")}
    assert known == {holding.node_id, recent.node_id, newest.node_id}
    assert old.node_id not in known


# -- what a node holds


def test_a_node_knows_what_it_holds(connection: Conn) -> None:
    tenant, node, other = add_tenant(connection), join(connection), join(connection)
    mine = [running(connection, node, tenant) for _ in range(3)]
    running(connection, other, tenant)
    enqueue(connection, tenant)
    assert node.held(connection) == mine
    node.settle(connection, [ended(mine[0])])
    assert node.held(connection) == mine[1:]
    fresh = node.refreshed(connection, mine)
    assert fresh == {claimed.claim_id: claimed for claimed in mine[1:]}


# -- rescue


def test_only_claims_of_nodes_whose_lease_ended_are_expired(connection: Conn) -> None:
    tenant = add_tenant(connection)
    alive, silent, gone = join(connection), join(connection), join(connection)
    running(connection, alive, tenant)
    lost = [running(connection, silent, tenant), running(connection, gone, tenant)]
    assert alive.expired_claims(connection) == []
    expire(connection, silent)
    gone.leave(connection)
    assert sorted(alive.expired_claims(connection), key=lambda claimed: claimed.job_id) == lost


def test_a_rescued_job_is_available_at_once_with_its_attempt_given_back(connection: Conn) -> None:
    tenant, rescuer, dead = add_tenant(connection), join(connection), join(connection)
    claimed = running(connection, dead, tenant)
    expire(connection, dead)
    assert rescue(connection, rescuer) == {claimed.claim_id: JobState.AVAILABLE}
    stored = job(connection, claimed.job_id)
    assert (stored["attempt"], stored["node_losses"], stored["claim_id"]) == (0, 1, None)
    [attempt] = attempts(connection, claimed.job_id)
    assert (attempt["node_id"], attempt["error_class"], attempt["worker_pid"]) == (dead.node_id, "lease_expired", None)
    [again] = claim(connection, rescuer, Turn(queue_of(tenant), 1))
    assert again.attempt == 1


def test_a_rescue_checks_again_that_the_lease_has_ended(connection: Conn) -> None:
    tenant, rescuer, slow = add_tenant(connection), join(connection), join(connection)
    claimed = running(connection, slow, tenant)
    expire(connection, slow)
    found = rescuer.expired_claims(connection)
    connection.execute("update batchproc.nodes set lease_until = clock_timestamp() + interval '1 min'")
    assert rescuer.settle(connection, [Ended(decide(item, LOST)) for item in found], rescue=True).states == {}
    assert state(connection, claimed.job_id) is JobState.RUNNING


def test_a_rescue_checks_again_that_the_claim_is_the_same(connection: Conn) -> None:
    tenant, rescuer, dead = add_tenant(connection), join(connection), join(connection)
    claimed = running(connection, dead, tenant)
    expire(connection, dead)
    found = rescuer.expired_claims(connection)
    rescue(connection, rescuer)
    again = claim_job(connection, dead, claimed.job_id)
    assert rescuer.settle(connection, [Ended(decide(item, LOST)) for item in found], rescue=True).states == {}
    assert job(connection, claimed.job_id)["claim_id"] == again.claim_id


def test_a_dead_node_that_comes_back_writes_nothing(connection: Conn) -> None:
    tenant, rescuer, dead = add_tenant(connection), join(connection), join(connection)
    claimed = running(connection, dead, tenant)
    expire(connection, dead)
    rescue(connection, rescuer)
    assert dead.settle(connection, [ended(claimed)]).states == {}
    assert state(connection, claimed.job_id) is JobState.AVAILABLE


def test_of_several_that_rescue_together_one_does(connection: Conn, opened: Opened) -> None:
    tenant, dead = add_tenant(connection), join(connection)
    claims = [running(connection, dead, tenant) for _ in range(20)]
    expire(connection, dead)
    nodes = [(join(connection), opened()) for _ in range(4)]
    rescued = at_once([partial(rescue, own, node) for node, own in nodes])
    assert sum(len(states) for states in rescued) == 20
    assert one(connection, "select count(*) from batchproc.job_attempts") == 20
    losses = {job(connection, claimed.job_id)["node_losses"] for claimed in claims}
    assert losses == {1}


def test_a_rescue_takes_a_bounded_number_and_the_next_the_rest(connection: Conn) -> None:
    tenant, rescuer, dead = add_tenant(connection), join(connection), join(connection)
    for _ in range(130):
        enqueue(connection, tenant)
    claim(connection, dead, Turn(queue_of(tenant), 130))
    expire(connection, dead)
    assert [len(rescue(connection, rescuer)) for _ in range(3)] == [100, 30, 0]


def test_a_job_that_loses_too_many_nodes_is_poison(connection: Conn) -> None:
    tenant, rescuer = add_tenant(connection), join(connection)
    job_id = enqueue(connection, tenant)
    states: list[JobState] = []
    while state(connection, job_id) is JobState.AVAILABLE:
        dead = join(connection)
        claim_job(connection, dead, job_id)
        dead.leave(connection)
        states.extend(rescue(connection, rescuer).values())
    assert states == [JobState.AVAILABLE, JobState.AVAILABLE, JobState.DISCARDED]  # helpers.decide allows three
    assert job(connection, job_id)["failure_code"] == "poison"


def test_a_settle_and_a_rescue_at_once_record_one_ending(connection: Conn, opened: Opened) -> None:
    tenant, rescuer, slow, own = add_tenant(connection), join(connection), join(connection), opened()
    claims: list[Claim] = [running(connection, slow, tenant) for _ in range(30)]
    expire(connection, slow)
    with ThreadPoolExecutor(2) as pool:
        settling = [pool.submit(slow.settle, own, [ended(claimed)]) for claimed in claims]
        rescuing = [pool.submit(rescue, connection, rescuer) for _ in range(3)]
        settled = sum(len(item.result(PATIENCE).states) for item in settling)
        rescued = sum(len(item.result(PATIENCE)) for item in rescuing)
    assert settled + rescued == 30
    assert one(connection, "select count(*) from batchproc.job_attempts") == 30


# -- runs


def test_a_run_is_begun_and_finished(connection: Conn) -> None:
    node = join(connection)
    run_id = node.runs.start(connection, node.node_id, {"kinds": ["work"]})
    node.runs.finish(connection, run_id, 1, {"completed": 3})
    [row] = rows_of(connection, "select node_id, scope, exit_code, counts, finished_at from batchproc.runs")
    assert row.pop("finished_at") <= now(connection)
    [(handlers,)] = connection.execute("select to_jsonb(kinds) from batchproc.nodes").fetchall()
    scope = {"kinds": ["work"], "handlers": handlers}
    assert row == {"node_id": node.node_id, "scope": scope, "exit_code": 1, "counts": {"completed": 3}}


def test_a_run_waits_for_its_own_retries_that_are_due_soon(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    mine, other = node.runs.start(connection, node.node_id, {}), node.runs.start(connection, node.node_id, {})
    claimed = claim_job(connection, node, enqueue(connection, tenant), mine)
    assert node.undrained(connection, mine, 600.0) == (0, 0)
    node.settle(connection, [ended(claimed, failed())])
    assert node.undrained(connection, mine, 600.0) == (1, 0)
    connection.execute("update batchproc.tenants set max_running = 0")
    assert node.undrained(connection, mine, 600.0) == (0, 0), "nobody may run it then"
    connection.execute("update batchproc.tenants set max_running = null")
    connection.execute("update batchproc.kinds set max_running = 0")
    assert node.undrained(connection, mine, 600.0) == (0, 0)
    connection.execute("update batchproc.kinds set max_running = null")
    assert node.undrained(connection, mine, 0.0) == (0, 0), "due later than it waits for"
    assert node.undrained(connection, other, 600.0) == (0, 0)


def test_a_run_waits_for_the_rescue_of_a_dead_nodes_claims(connection: Conn) -> None:
    tenant, node, other = add_tenant(connection), join(connection), join(connection)
    run_id = node.runs.start(connection, node.node_id, {})
    running(connection, other, tenant)
    assert node.undrained(connection, run_id, 600.0) == (0, 0)
    expire(connection, other)
    assert node.undrained(connection, run_id, 600.0) == (0, 1)


def test_what_is_left_is_counted_within_the_scope(connection: Conn) -> None:
    one_, two, node = add_tenant(connection, "one"), add_tenant(connection, "two"), join(connection)
    enqueue(connection, one_)
    enqueue(connection, one_, "other", lane=Lane.INTERACTIVE)
    enqueue(connection, two, run_at=one(connection, "select clock_timestamp() + interval '1 day'"))
    running(connection, node, two)

    def left(**scope: list[Any]) -> int:
        return sum(found.jobs for found in NightStore("batchproc").left(connection, **scope).values())

    assert left(tenant_ids=[], kinds=[], lanes=[]) == 3
    assert left(tenant_ids=[one_], kinds=[], lanes=[]) == 2
    assert left(tenant_ids=[], kinds=["work"], lanes=[]) == 2
    assert left(tenant_ids=[], kinds=[], lanes=[0]) == 1
    assert left(tenant_ids=[one_, two], kinds=["work", "other"], lanes=[1]) == 2


# -- backends of killed workers


def test_only_backends_of_that_application_are_ended(connection: Conn, opened: Opened) -> None:
    node, worker, bystander = join(connection), opened(), opened()
    worker.execute("set application_name = 'batchproc worker'")
    pids = [worker.info.backend_pid, bystander.info.backend_pid]
    node.end_backends(connection, pids, "batchproc worker")
    query = "select count(*) from pg_stat_activity where pid = any(%s)"
    wait_until(lambda: one(connection, query, [pids]) == 1, "the worker's backend to end")
    bystander.execute("select 1")
    with pytest.raises(psycopg.OperationalError):
        worker.execute("select 1")


def test_the_uptime_of_the_server_is_in_seconds(connection: Conn) -> None:
    node = join(connection)
    first = node.uptime(connection)
    assert 0 < first < node.uptime(connection)
