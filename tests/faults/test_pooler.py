"""A transaction pooler between batchproc and its database: everything works by polling, the rest past the pooler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from batchproc.core.errors import AnotherRun, UsageError
from batchproc.database import Session, connect, is_pooled
from batchproc.engine.node import Node, RunOptions
from batchproc.ops.watching_status import StatusWatch
from batchproc.queue import migrate
from batchproc.queue.exclusive import ExclusiveRun
from batchproc.queue.inspection_waiting import look_at_waiting
from tests.engine.running import settings
from tests.faults.faulty_server import HANDLERS, FaultyBench
from tests.faults.pooler import PROGRAM, pgbouncer
from tests.waiting import wait_until

pytest_plugins = ["tests.faults.faulty_fixtures"]
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no pgbouncer is installed here")

HARMLESS = {("completed", None), ("interrupted", None)}


@pytest.fixture
def pooled_url(faulty_bench: FaultyBench) -> Iterator[str]:
    """The bench's database through a pooler."""
    with pgbouncer(faulty_bench) as url:
        yield url


def setting(connection: Session, name: str) -> str:
    [[value]] = connection.execute("select current_setting(%s)", [name]).fetchall()
    return str(value)


@pytest.mark.parametrize("more", ["", "ignore_startup_parameters = options"], ids=["refuses", "ignores"])
def test_a_pooler_is_noticed_and_settings_are_those_of_each_transaction(faulty_bench: FaultyBench, more: str) -> None:
    with pgbouncer(faulty_bench, more) as url:
        with connect(url, settings={"lock_timeout": "7s", "statement_timeout": "9s"}) as session:
            assert session.pooled
            for _ in range(7):  # more often than psycopg takes to prepare a statement
                assert setting(session, "lock_timeout") == "7s"
            with session.transaction():
                assert setting(session, "statement_timeout") == "9s"
                with session.transaction():
                    assert setting(session, "lock_timeout") == "7s"
            with session.pipeline():
                found = session.execute("select current_setting('lock_timeout')")
            assert found.fetchall() == [("7s",)]
            with connect(url) as other:
                assert setting(other, "lock_timeout") == "0", "nothing is left in the backend"
        with psycopg.connect(url) as foreign:
            assert is_pooled(foreign)
    with connect(faulty_bench.url, settings={"lock_timeout": "7s"}) as session:
        assert not session.pooled
        assert setting(session, "lock_timeout") == "7s"


def test_a_run_through_a_pooler_polls(faulty_bench: FaultyBench, pooled_url: str, tmp_path: Path) -> None:
    """Claims, settles, leases, workers, their transactions, follow-ups; and other jobs found by polling."""
    tenant = faulty_bench.tenant("acme")
    jobs = [faulty_bench.enqueue(tenant, kind) for _ in range(20) for kind in ("d_quick", "d_brief", "d_write")]
    pages = faulty_bench.enqueue(tenant, "d_pages", {"folder": str(tmp_path), "pages": 20, "stop_at": 0})

    def watch() -> None:
        wait_until(lambda: faulty_bench.done([*jobs, pages]), 40, "all are completed")
        late = faulty_bench.enqueue(tenant, "d_quick")
        wait_until(lambda: faulty_bench.done([late]), 10, "found by polling")
        renewed = "select lease_until from batchproc.nodes"
        before = faulty_bench.value(renewed)
        wait_until(lambda: faulty_bench.value(renewed) > before, 10, "the lease is renewed")

    faulty_bench.run_during(watch, url=pooled_url, dispatch={"poll_interval": 0.3, "lease": 4.0})

    assert faulty_bench.all_completed_once(), faulty_bench.outcomes
    assert faulty_bench.value("select count(*) from written where job_id = %s", pages) == 20


def test_what_the_slots_are_at_is_seen_through_a_pooler(
    faulty_bench: FaultyBench, pooled_url: str, tmp_path: Path
) -> None:
    """By those who watch, and who ask why a job waits; also behind a pooler."""
    tenant = faulty_bench.tenant("acme")
    busy, waiting = (faulty_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)}) for _ in range(2))

    def watch() -> None:
        with connect(pooled_url) as session:
            looking = StatusWatch("batchproc")
            told = wait_until(lambda: [slot for slot in looking.look(session).slots if slot["slot"] is not None], 30)
            assert [slot["job_id"] for slot in told] == [busy]
            assert looking.look(session).nodes[0]["ended"] == 0
            facts = look_at_waiting(session, "batchproc", waiting)
            assert [node.running for node in facts.nodes] == [1]
        (tmp_path / "go").touch()
        wait_until(lambda: faulty_bench.done([busy, waiting]), 20, "both are completed")

    faulty_bench.run_during(watch, url=pooled_url, workers=1)


@pytest.mark.long
def test_limits_hold_through_a_pooler(faulty_bench: FaultyBench, pooled_url: str) -> None:
    tenant = faulty_bench.tenant("acme")
    faulty_bench.jobs.set_tenant(faulty_bench.connection, "acme", max_running=1)
    jobs = [faulty_bench.enqueue(tenant, "d_brief") for _ in range(20)]
    most = 0

    def watch() -> None:
        nonlocal most
        running = "select count(*) from batchproc.processing_jobs where state = 'running'"
        while not faulty_bench.done(jobs):
            most = max(most, faulty_bench.value(running))

    faulty_bench.run_during(watch, url=pooled_url)

    assert most == 1


def test_a_killed_workers_transaction_is_ended_and_nobody_elses(
    faulty_bench: FaultyBench, pooled_url: str, tmp_path: Path
) -> None:
    """The pooler's process ids are not the server's: what is ended is the transaction by its name."""
    tenant = faulty_bench.tenant("acme")
    innocent = faulty_bench.enqueue(tenant, "d_holds", {"folder": str(tmp_path)})
    hanging = faulty_bench.enqueue(tenant, "d_sleeps_in_database")

    def watch() -> None:
        wait_until(lambda: len(list(tmp_path.glob("begun-*"))) == 1, 20, "one is in its transaction")
        wait_until(lambda: faulty_bench.state(hanging) == "discarded", 6, "the other is killed and settled at once")
        sleeping = "select count(*) from pg_stat_activity where query like '%%pg_sleep(600)%%' and state = 'active'"
        wait_until(lambda: faulty_bench.value(sleeping + " and pid <> pg_backend_pid()") == 0, 2, "and its query ended")
        (tmp_path / "go").touch()
        wait_until(lambda: faulty_bench.done([innocent]), 10, "nothing happened to the first")

    faulty_bench.run_during(watch, url=pooled_url)

    assert faulty_bench.endings(hanging) == [("failed", "timeout")]
    assert faulty_bench.endings(innocent) == [("completed", None)]


@pytest.mark.long
def test_a_pooler_that_restarts_and_a_database_behind_it(faulty_bench: FaultyBench, tmp_path: Path) -> None:
    tenant = faulty_bench.tenant("acme")
    brief = [faulty_bench.enqueue(tenant, "d_brief") for _ in range(40)]
    busy = faulty_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)})

    def restart() -> None:
        wait_until(lambda: len(list(tmp_path.glob("begun-*"))) == 1, 20, "one is busy")
        faulty_bench.server.restart("fast")
        (tmp_path / "go").touch()
        faulty_bench.reconnect()
        wait_until(lambda: faulty_bench.done([*brief, busy]), 40, "all are completed")

    with pgbouncer(faulty_bench, "server_login_retry = 1") as url:
        faulty_bench.run_during(restart, url=url)

    assert faulty_bench.all_endings() <= HARMLESS
    assert faulty_bench.endings(busy) == [("completed", None)]


# -- past the pooler


def test_with_a_direct_url_notifications_are_heard_and_resources_held(
    faulty_bench: FaultyBench, pooled_url: str
) -> None:
    tenant = faulty_bench.tenant("acme")

    def watch() -> None:
        wait_until(lambda: faulty_bench.value("select count(*) from batchproc.nodes") == 1, 10, "it has joined")
        for _ in range(2):  # the first look may have found the first
            job = faulty_bench.enqueue(tenant, "d_slot")
            wait_until(lambda job=job: faulty_bench.done([job]), 10, "long before it polls")  # type: ignore[misc]

    faulty_bench.run_during(
        watch,
        url=pooled_url,
        direct_url=faulty_bench.url,
        database={"direct_url": faulty_bench.url},
        resources={"ai": 1},
        dispatch={"poll_interval": 60.0},
    )


def test_without_a_direct_url_resources_are_refused(faulty_bench: FaultyBench, pooled_url: str) -> None:
    faulty_bench.url = pooled_url
    with pytest.raises(UsageError, match=r"pooler, where resources cannot work: set database\.direct_url"):
        faulty_bench.run(handlers=[HANDLERS], resources={"ai": 1})
    assert faulty_bench.rows("select from batchproc.nodes") == []


def test_without_a_direct_url_migrate_is_refused(faulty_bench: FaultyBench, pooled_url: str) -> None:
    with (
        connect(pooled_url) as session,
        pytest.raises(UsageError, match=r"pooler, where migrations cannot work: set database\.direct_url"),
    ):
        migrate.apply(session)
    command = [sys.executable, "-m", "batchproc", "--database", pooled_url, "migrate"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 2
    assert "database.direct_url" in refused.stderr


def test_exclusive_runs_exclude_each_other(faulty_bench: FaultyBench, pooled_url: str) -> None:
    """By rows: a session-level lock would be held by whatever backend the pooler happened to use."""
    scope: dict[str, list[int]] = {"tenant_ids": [], "lanes": []}
    first, second = (ExclusiveRun("batchproc", scope, lease=60.0) for _ in range(2))
    with connect(pooled_url) as one, connect(pooled_url) as other:
        assert one.pooled
        first.take(one)
        with pytest.raises(AnotherRun):
            second.take(other)
        assert first.renew(other), "whatever connection it comes by"
        first.release(other)
        second.take(one)


def test_an_exclusive_run_through_a_pooler_leaves_nothing_behind(faulty_bench: FaultyBench, pooled_url: str) -> None:
    tenant = faulty_bench.tenant("acme")
    jobs = [faulty_bench.enqueue(tenant, "d_quick") for _ in range(3)]
    node = Node(settings(handlers=[HANDLERS]), pooled_url, pooled_url, lambda *_: None)

    report = node.run(RunOptions(workers=1, exclusive=True))

    assert report.exit_code == 0
    assert faulty_bench.done(jobs)
    assert faulty_bench.value("select count(*) from batchproc.exclusive_runs") == 0
