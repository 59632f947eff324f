"""What a run waits for before it ends: nodes that may be dead, and rows that somebody holds locked."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from psycopg import sql

from batchproc.core.job import KindSpec
from batchproc.core.outcome import ErrorClass, Failed
from batchproc.core.settle import settle
from batchproc.database import connect
from batchproc.engine.braking import Braking
from batchproc.queue.kind_store import KindStore
from batchproc.queue.node_store import NodeFacts, NodeStore
from tests.engine.running import Bench
from tests.waiting import wait_until

_LOCK = sql.SQL("select from batchproc.kinds where kind = %s for update")


def _other_node(bench: Bench, job_id: int, lease: float) -> NodeStore:
    """A node that holds the job, and of which nothing else is there."""
    store = NodeStore("batchproc", uuid4(), {"t_quick": KindSpec("t_quick")})
    facts = NodeFacts(store.node_id, "elsewhere", 1, 1, ("t_quick",), (), "", "")
    store.join(bench.connection, facts, lease)
    assert store.claim_one(bench.connection, job_id, None) is not None
    return store


def test_a_run_right_after_a_kill_waits_for_the_lease_of_the_dead_node(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_quick")
    _other_node(bench, job, lease=3.0)

    report = bench.run(dispatch={"lease": 1.0})

    assert (report.counts.rescued, report.counts.completed, report.left) == (1, 1, 0)
    assert bench.job(job)["state"] == "completed"


def test_a_node_that_gives_signs_of_life_is_not_waited_for(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_quick")
    other = _other_node(bench, job, lease=60.0)
    over = threading.Event()

    def renew() -> None:
        with connect(bench.url) as connection:
            while not over.wait(0.1):
                other.renew(connection, 60.0)

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        report = bench.run(dispatch={"lease": 1.0})
    finally:
        over.set()
        renewing.join()

    assert report.seconds < 30
    assert bench.job(job)["state"] == "running"


def test_a_kind_whose_row_is_held_locked_is_paused_later_and_holds_nothing_up(bench: Bench) -> None:
    kinds = KindStore("batchproc")
    bench.enqueue(bench.tenant("acme"), "t_quick")
    bench.run()
    job = bench.enqueue(1, "t_quick")
    store = NodeStore("batchproc", uuid4(), {"t_quick": KindSpec("t_quick")})
    claim = store.claim_one(bench.connection, job, None)
    assert claim is not None
    failed = settle(
        claim,
        Failed(ErrorClass.TRANSIENT, "internal_error"),
        KindSpec("t_quick"),
        max_node_losses=10,
        jitter=0.0,
    )
    braking = Braking(kinds, 1)
    braking.note(claim, failed)
    with connect(bench.url) as other, other.transaction():
        other.execute(_LOCK, ["t_quick"])
        braking.pause(bench.connection)

        assert not braking.due
        assert kinds.kinds(bench.connection, "t_quick")[0]["paused"] is False

    wait_until(lambda: braking.due, what="the brake's next try")
    braking.pause(bench.connection)
    assert kinds.kinds(bench.connection, "t_quick")[0]["paused"] is True


def test_a_node_joins_while_somebody_holds_the_row_of_its_kind_locked(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_quick")
    bench.run()
    job = bench.enqueue(1, "t_quick")
    with connect(bench.url) as other, other.transaction():
        other.execute(_LOCK, ["t_quick"])

        report = bench.run(database={"outage_limit": 3})

    assert report.counts.completed == 1
    assert bench.job(job)["state"] == "completed"


def test_due_jobs_that_somebody_holds_locked_are_waited_for(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_quick") for _ in range(6)]
    asked = "select count(*) from pg_stat_activity where query like %s and datname = current_database()"
    with connect(bench.url) as operator, connect(bench.url) as looking, ThreadPoolExecutor(1) as pool:

        def let_go() -> None:
            seen = ["with lockable as materialized%"]
            wait_until(lambda: looking.execute(asked, seen).fetchone() != (0,), 30, "the run asks who is locked")
            operator.execute("commit")

        operator.execute("begin")
        operator.execute("select from batchproc.processing_jobs where job_id = any(%s) for update", [jobs[3:]])
        letting_go = pool.submit(let_go)
        report = bench.run()
        letting_go.result(10)
    assert (report.counts.completed, report.left) == (6, 0)


def test_what_stays_locked_is_waited_for_as_long_as_a_retry(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_quick")
    with connect(bench.url) as operator, operator.transaction():
        operator.execute("select from batchproc.processing_jobs where job_id = %s for update", [job])
        report = bench.run(dispatch={"drain_wait": 1.0})
    assert (report.counts.completed, report.left) == (0, 1)
    assert report.seconds > 1
