"""The database goes away in the middle of a run, and comes back: what had ended is recorded, and work goes on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from loguru import logger

from batchproc.core.errors import EnvironmentFault
from batchproc.database import connect
from tests.database import database_on
from tests.faults.faulty_server import HANDLERS, FaultyBench, FaultyServer, Nodes
from tests.faults.outages import (
    HARMLESS,
    assert_listens,
    assert_wrote_once,
    begun,
    wait_for_failures,
    wait_for_refusals,
)
from tests.waiting import wait_until

pytest_plugins = ["tests.faults.faulty_fixtures"]

LONG_POLL = {"poll_interval": 60.0, "lease": 10.0}
LOST = ("failed", "transient")


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What this process logs."""
    lines: list[str] = []
    number = logger.add(lines.append, format="{message}")
    yield lines
    logger.remove(number)


@pytest.mark.parametrize("mode", ["fast", pytest.param("immediate", marks=pytest.mark.long)])
def test_a_restart_in_mid_run_costs_no_attempt(faulty_bench: FaultyBench, tmp_path: Path, mode: str) -> None:
    tenant = faulty_bench.tenant("acme")
    brief = [faulty_bench.enqueue(tenant, "d_brief") for _ in range(100)]
    busy = [faulty_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)}) for _ in range(2)]

    def restart() -> None:
        wait_until(lambda: begun(tmp_path) == 2, 20, "both are busy")
        faulty_bench.server.embedded.stop(mode)  # type: ignore[arg-type]
        (tmp_path / "go").touch()  # they end while there is no database
        faulty_bench.server.start()
        faulty_bench.reconnect()
        wait_until(lambda: faulty_bench.done(brief + busy), 30, "all are completed")
        assert_listens(faulty_bench, tenant)

    report = faulty_bench.run_during(restart, dispatch=LONG_POLL)

    assert report.counts.discarded == 0
    for job in busy:
        assert faulty_bench.endings(job) == [("completed", None)]
    assert faulty_bench.all_endings() <= HARMLESS


def test_connections_ended_again_and_again_lose_nothing_and_do_not_fail_the_run(faulty_bench: FaultyBench) -> None:
    tenant = faulty_bench.tenant("acme")
    jobs = [faulty_bench.enqueue(tenant, kind) for _ in range(40) for kind in ("d_quick", "d_brief", "d_write")]
    over = threading.Event()

    def terminate() -> None:
        # Until the run has ended, so that its last statements are hit, too.
        while not over.wait(0.2):
            faulty_bench.terminate_all()

    terminating = threading.Thread(target=terminate)
    terminating.start()
    try:
        report = faulty_bench.run(handlers=[HANDLERS], retry={"base": 0.05, "cap": 0.2}, dispatch={"drain_wait": 10.0})
    finally:
        over.set()
        terminating.join()

    assert (report.exit_code, report.left) == (0, 0)
    assert faulty_bench.done(jobs)
    assert_wrote_once(faulty_bench, jobs[2::3])
    assert faulty_bench.value("select count(*) from batchproc.processing_jobs where kind = 'd_follow_up'") == 40
    assert faulty_bench.all_endings() <= HARMLESS | {LOST}


@pytest.mark.parametrize("long", [False, pytest.param(True, marks=pytest.mark.long)], ids=["a moment", "a lease"])
def test_no_new_connections_for_a_while(faulty_bench: FaultyBench, tmp_path: Path, long: bool) -> None:
    tenant = faulty_bench.tenant("acme")
    brief = [faulty_bench.enqueue(tenant, "d_brief") for _ in range(40)]
    busy = faulty_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)})

    def refuse() -> None:
        wait_until(lambda: begun(tmp_path) == 1, 20, "one is busy")
        faulty_bench.allow_connections(False)
        faulty_bench.terminate_all()
        (tmp_path / "go").touch()
        wait_for_refusals(faulty_bench.server, 6, f'database "{faulty_bench.name}" is not currently accepting')
        if long:
            expired = "select bool_and(lease_until < clock_timestamp()) from batchproc.nodes"
            wait_until(lambda: faulty_bench.value(expired), 40, "every lease has ended, after 20 s at least")
        faulty_bench.allow_connections(True)
        faulty_bench.reconnect()
        wait_until(lambda: faulty_bench.done([*brief, busy]), 30, "all are completed")
        assert_listens(faulty_bench, tenant)

    faulty_bench.run_during(refuse, dispatch=LONG_POLL | {"lease": 30.0})

    # Ended during the outage, recorded after it, also by a node that has lost its lease in between.
    assert faulty_bench.endings(busy) == [("completed", None)]
    assert faulty_bench.all_endings() <= HARMLESS


@pytest.fixture
def small_server(faulty_server: FaultyServer) -> Iterator[FaultyServer]:
    """Takes few connections."""
    with faulty_server.admin() as admin:
        admin.execute("alter system set max_connections = 20")
    faulty_server.restart("fast")
    yield faulty_server
    with faulty_server.admin() as admin:
        admin.execute("alter system set max_connections = 200")


@contextlib.contextmanager
def every_connection(server: FaultyServer) -> Iterator[None]:
    """All that the server has left are taken."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(EnvironmentFault):
            while True:
                stack.enter_context(connect(database_on(server.embedded.url, "postgres")))
        yield


@pytest.mark.long
def test_too_many_clients_for_the_node(small_server: FaultyServer, faulty_bench: FaultyBench, tmp_path: Path) -> None:
    tenant = faulty_bench.tenant("acme")
    brief = [faulty_bench.enqueue(tenant, "d_brief") for _ in range(20)]
    busy = faulty_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)})

    def crowd() -> None:
        wait_until(lambda: begun(tmp_path) == 1, 20, "one is busy")
        faulty_bench.terminate_all()
        with every_connection(small_server):
            (tmp_path / "go").touch()
            wait_for_refusals(small_server, 6, "too many clients")
        wait_until(lambda: faulty_bench.done([*brief, busy]), 30, "all are completed")
        assert_listens(faulty_bench, tenant)

    faulty_bench.run_during(crowd, dispatch=LONG_POLL)

    assert faulty_bench.endings(busy) == [("completed", None)]
    assert faulty_bench.all_endings() <= HARMLESS


def test_too_many_clients_for_the_workers_alone(small_server: FaultyServer, faulty_bench: FaultyBench) -> None:
    """Claims and settles work, but no worker can load its job: no attempt is used up for that."""
    tenant = faulty_bench.tenant("acme")

    def crowd() -> None:
        wait_until(lambda: faulty_bench.value("select count(*) from batchproc.nodes") == 1, 10, "it has joined")
        wait_until(
            lambda: (
                faulty_bench.value(
                    "select count(*) from pg_stat_activity where datname = %s and application_name = 'batchproc node'",
                    faulty_bench.name,
                )
                == 3
            ),
            10,
            "it is connected",
        )
        with every_connection(small_server):
            jobs = [faulty_bench.enqueue(tenant, "d_quick") for _ in range(3)]
            running = "select count(*) from batchproc.processing_jobs where state = 'running'"
            wait_until(lambda: faulty_bench.value(running) == 3, 10, "claimed")
            wait_for_refusals(small_server, 6, "too many clients")
        wait_until(lambda: faulty_bench.done(jobs), 20, "all are completed")

    faulty_bench.run_during(crowd)

    assert faulty_bench.all_completed_once(), faulty_bench.outcomes


# -- giving up


def test_a_run_gives_up_after_the_limit_and_the_next_finishes_all(
    faulty_bench: FaultyBench, nodes: Nodes, tmp_path: Path
) -> None:
    tenant = faulty_bench.tenant("acme")
    jobs = [faulty_bench.enqueue(tenant, "d_brief") for _ in range(30)]
    busy = faulty_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)})
    settings = {"database": {"outage_limit": 1.5}, "dispatch": {"lease": 2.0, "poll_interval": 0.2}}
    run = nodes.start(faulty_bench.url, "--workers", "2", **settings)
    wait_until(lambda: begun(tmp_path) == 1, 30, "it is busy")

    faulty_bench.server.embedded.stop("fast")
    (tmp_path / "go").touch()
    out, errors = run.communicate(timeout=20)

    assert (run.returncode, out) == (3, "")
    [line] = errors.splitlines()
    assert line.startswith("batchproc: the database failed for 1.5 s (cannot connect to the database")
    assert "start it when the database is mended" in line
    faulty_bench.server.start()
    faulty_bench.reconnect()
    again = nodes.start(faulty_bench.url, "--workers", "2", **settings)
    assert again.wait(30) == 0
    assert faulty_bench.done([*jobs, busy])
    assert faulty_bench.all_endings() <= HARMLESS | {("failed", "lease_expired")}


# -- the worker's own connection


def end_backends(bench: FaultyBench, application: str) -> None:
    with bench.server.admin() as admin:
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and application_name = %s",
            [bench.name, application],
        )


def test_a_connection_lost_in_a_handlers_transaction_costs_that_attempt(
    faulty_bench: FaultyBench, tmp_path: Path
) -> None:
    tenant = faulty_bench.tenant("acme")
    job = faulty_bench.enqueue(tenant, "d_holds", {"folder": str(tmp_path)})

    def lose() -> None:
        wait_until(lambda: begun(tmp_path) == 1, 20, "it is in its transaction")
        end_backends(faulty_bench, "batchproc worker")
        (tmp_path / "go").touch()
        wait_until(lambda: faulty_bench.done([job]), 20, "it is completed")

    faulty_bench.run_during(lose)

    assert faulty_bench.endings(job) == [LOST, ("completed", None)]
    code = "select failure_code from batchproc.job_attempts where outcome = 'failed'"
    assert faulty_bench.value(code) == "database_lost"
    assert_wrote_once(faulty_bench, [job])


@pytest.mark.long
def test_a_connection_lost_between_checkpoints_costs_no_page(faulty_bench: FaultyBench, tmp_path: Path) -> None:
    tenant = faulty_bench.tenant("acme")
    job = faulty_bench.enqueue(tenant, "d_pages", {"folder": str(tmp_path), "pages": 5, "stop_at": 3})

    def lose() -> None:
        wait_until(lambda: begun(tmp_path) == 1, 20, "it has done two pages")
        end_backends(faulty_bench, "batchproc worker")
        (tmp_path / "go").touch()
        wait_until(lambda: faulty_bench.done([job]), 20, "it is completed")

    faulty_bench.run_during(lose)

    pages = faulty_bench.rows("select page from written where job_id = %s order by page", job)
    assert [page for (page,) in pages] == [1, 2, 3, 4, 5]
    assert faulty_bench.all_endings() <= {("completed", None), LOST}


@pytest.mark.long
def test_an_outage_costs_each_busy_worker_one_attempt_at_most(
    faulty_bench: FaultyBench, tmp_path: Path, logged: list[str]
) -> None:
    """Nobody can claim during it, so a night's jobs do not use up their attempts."""
    tenant = faulty_bench.tenant("acme")
    jobs = [faulty_bench.enqueue(tenant, "d_holds", {"folder": str(tmp_path)}) for _ in range(8)]

    def outage() -> None:
        wait_until(lambda: begun(tmp_path) == 4, 20, "four are in their transactions")
        faulty_bench.server.embedded.stop("fast")
        (tmp_path / "go").touch()
        wait_for_failures(logged, 4)
        faulty_bench.server.start()
        faulty_bench.reconnect()
        wait_until(lambda: faulty_bench.done(jobs), 30, "all are completed")

    faulty_bench.run_during(outage, dispatch={"brake": 3})

    endings = [faulty_bench.endings(job) for job in jobs]
    assert sorted(len(ending) for ending in endings) == [1] * 4 + [2] * 4
    assert_wrote_once(faulty_bench, jobs)
