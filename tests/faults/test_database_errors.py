"""The database refuses statements while its connections live: locks, time limits, deadlocks, no room, only reading."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from loguru import logger
from psycopg import sql

from batchproc.queue.node_store import NodeStore
from tests.faults.faulty_server import HANDLERS, FaultyBench, FaultyServer, Nodes
from tests.waiting import wait_until

pytest_plugins = ["tests.faults.faulty_fixtures"]

HARMLESS = {("completed", None), ("interrupted", None)}
ON_ATTEMPTS = """
    create function fault() returns trigger language plpgsql as $$
    begin
        if exists (select from faults where new.job_id between first_job and last_job) then
            {};
        end if;
        return new;
    end $$;
    create table faults (first_job bigint, last_job bigint);
    create trigger fault before insert on batchproc.job_attempts for each row execute function fault()
"""


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What this process logs."""
    lines: list[str] = []
    number = logger.add(lines.append, format="{message}")
    yield lines
    logger.remove(number)


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of errors that this process's writes of endings have met, one for each try."""
    met: list[str] = []

    def watched(write: Callable[..., Any]) -> Callable[..., Any]:
        def tried(store: NodeStore, connection: Any, endings: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return write(store, connection, endings, *arguments, **options)
            except psycopg.Error as error:
                if endings:
                    met.append(type(error).__name__)
                raise

        return tried

    for name in ("tick", "settle"):
        monkeypatch.setattr(NodeStore, name, watched(getattr(NodeStore, name)))
    return met


def test_what_completed_once_is_judged_by_what_was_written(faulty_bench: FaultyBench) -> None:
    assert not faulty_bench.all_completed_once(), "nothing was done"
    job = faulty_bench.enqueue(faulty_bench.tenant("acme"), "d_quick")
    faulty_bench.run(handlers=[HANDLERS])
    assert faulty_bench.all_completed_once()
    again = (
        "insert into batchproc.job_attempts"
        " select (jsonb_populate_record(a, jsonb_build_object('claim_id', gen_random_uuid(), 'outcome', %s::text))).*"
        " from batchproc.job_attempts a where job_id = %s and outcome = 'completed' limit 1 returning claim_id"
    )
    for outcome, stays in (("interrupted", True), ("completed", False), ("failed", False)):
        with faulty_bench.connection.transaction(force_rollback=True):
            faulty_bench.rows(again, outcome, job)
            assert faulty_bench.all_completed_once() == stays, outcome
    with faulty_bench.connection.transaction(force_rollback=True):
        faulty_bench.rows("delete from batchproc.job_attempts where job_id = %s returning 1", job)
        assert not faulty_bench.all_completed_once(), "its completion was not written"


def begun(folder: Path) -> int:
    return len(list(folder.glob("begun-*")))


def said(lines: list[str], word: str) -> bool:
    return any(word in line for line in lines)


def test_a_job_row_that_somebody_holds_locked_stops_nobody_else(
    faulty_bench: FaultyBench, tmp_path: Path, logged: list[str]
) -> None:
    tenant = faulty_bench.tenant("acme")
    busy = faulty_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)})

    def hold() -> None:
        wait_until(lambda: begun(tmp_path) == 1, 20, "it is busy")
        with faulty_bench.connection.transaction():
            faulty_bench.rows("select from batchproc.processing_jobs where job_id = %s for update", busy)
            (tmp_path / "go").touch()
            wait_until(lambda: said(logged, "could not be settled: LockNotAvailable"), 10, "its settle has failed")
            others = faulty_bench.enqueue_apart(tenant, "d_brief", 20)
            wait_until(lambda: faulty_bench.done(others), 5, "the others go on")
        wait_until(lambda: faulty_bench.done([busy]), 10, "then it is settled, too")

    faulty_bench.run_during(hold)

    assert faulty_bench.all_completed_once(), faulty_bench.outcomes


@pytest.mark.long
def test_a_row_locked_to_the_end_does_not_keep_a_stopped_node(
    faulty_bench: FaultyBench, tmp_path: Path, nodes: Nodes
) -> None:
    tenant = faulty_bench.tenant("acme")
    busy = faulty_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)})
    settings = {"pool": {"shutdown_grace": 4.0}, "dispatch": {"lease": 2.0, "poll_interval": 0.2}}
    run = nodes.start(faulty_bench.url, "--forever", **settings)
    wait_until(lambda: begun(tmp_path) == 1, 30, "it is busy")

    with faulty_bench.connection.transaction():
        faulty_bench.rows("select from batchproc.processing_jobs where job_id = %s for update", busy)
        (tmp_path / "go").touch()
        run.terminate()
        _, errors = run.communicate(timeout=15)
    assert run.returncode == 3
    assert "1 ended job could not be settled" in errors.splitlines()[-1]

    assert nodes.start(faulty_bench.url, **settings).wait(30) == 0
    assert faulty_bench.endings(busy)[-1] == ("completed", None)


@pytest.mark.long
def test_statements_above_their_time_limit(
    faulty_bench: FaultyBench, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    """One job's settle takes longer than a statement may; the others go on, and it is settled when that is over."""
    monkeypatch.setattr("batchproc.engine.sessions._LEAST_PATIENCE", 1.0)
    faulty_bench.connection.execute(ON_ATTEMPTS.format("perform pg_sleep(60)").encode())
    tenant = faulty_bench.tenant("acme")
    slow = faulty_bench.enqueue(tenant, "d_brief")
    faulty_bench.rows("insert into faults values (%s, %s) returning 1", slow, slow)
    others = [faulty_bench.enqueue(tenant, "d_brief") for _ in range(10)]

    def relieve() -> None:
        wait_until(lambda: said(logged, "could not be settled: QueryCanceled (57014)"), 20, "it takes too long")
        wait_until(lambda: faulty_bench.done(others), 20, "the others go on")
        faulty_bench.connection.execute("delete from faults")
        wait_until(lambda: faulty_bench.done([slow]), 20, "then it is settled, too")

    faulty_bench.run_during(relieve, dispatch={"lease": 1.5})

    assert faulty_bench.all_endings() <= HARMLESS
    assert faulty_bench.endings(slow)[-1] == ("completed", None)


def test_the_victim_of_a_deadlock_tries_again(faulty_bench: FaultyBench, tmp_path: Path, logged: list[str]) -> None:
    tenant = faulty_bench.tenant("acme")
    job = faulty_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)})
    with faulty_bench.server.admin() as admin:
        admin.execute("alter system set deadlock_timeout = '600ms'")
        admin.execute("select pg_reload_conf()")

    def deadlock() -> None:
        wait_until(lambda: begun(tmp_path) == 1, 20, "it is busy")
        with faulty_bench.connection.transaction():
            faulty_bench.rows("select set_config('deadlock_timeout', '1min', true)")  # the node is to be the victim
            # A settle takes the job's row first, then that of the day's usage.
            usage = "insert into batchproc.usage_daily (tenant_id, day, kind) values (%s, %s, 'd_until') returning 1"
            faulty_bench.rows(usage, tenant, datetime.now(UTC).date())
            (tmp_path / "go").touch()
            waiting = "select count(*) from pg_locks where not granted and locktype = 'transactionid'"
            wait_until(lambda: faulty_bench.value(waiting) == 1, 10, "the node waits for the usage, having the job")
            faulty_bench.rows("select from batchproc.processing_jobs where job_id = %s for update", job)
        wait_until(lambda: faulty_bench.done([job]), 10, "it is settled")

    faulty_bench.run_during(deadlock)

    assert faulty_bench.all_endings() == {("completed", None)}
    assert said(logged, "DeadlockDetected 40P01")


@pytest.mark.long
def test_a_database_whose_transactions_are_isolated_otherwise(
    faulty_bench: FaultyBench, nodes: Nodes, logged: list[str]
) -> None:
    """By its default they are repeatable read: two nodes that write one row of usage would fail each other, and limits
    would be counted by snapshots that are older than their lock."""
    with faulty_bench.server.admin() as admin:
        isolation = sql.SQL("alter database {} set default_transaction_isolation to 'repeatable read'")
        admin.execute(isolation.format(sql.Identifier(faulty_bench.name)))
    tenant = faulty_bench.tenant("acme")
    faulty_bench.rows("update batchproc.tenants set max_running = 2 returning 1")

    def contend() -> None:
        nodes.start(faulty_bench.url, "--forever", "--workers", "4")
        wait_until(lambda: faulty_bench.value("select count(*) from batchproc.nodes") == 2, 30, "both have joined")
        jobs = [faulty_bench.enqueue(tenant, "d_brief") for _ in range(400)]
        wait_until(lambda: faulty_bench.done(jobs), 90, "all are completed")
        nodes.end()

    faulty_bench.run_during(contend)

    assert not said(logged, "SerializationFailure 40001")
    assert faulty_bench.all_endings() <= HARMLESS
    at_once = """
        select max(running) from (
            select (select count(*) from batchproc.job_attempts b
                    where b.started_at <= a.started_at and b.ended_at > a.started_at) as running
            from batchproc.job_attempts a) each
    """
    assert faulty_bench.value(at_once) <= 2


@pytest.mark.parametrize("how", ["role", pytest.param("server", marks=pytest.mark.long)])
def test_a_database_that_only_reads(faulty_bench: FaultyBench, tmp_path: Path, how: str, refusals: list[str]) -> None:
    """By its own setting, which only new sessions get, or by the server's, as after a change of the primary."""
    tenant = faulty_bench.tenant("acme")
    busy = [faulty_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)}) for _ in range(2)]
    waiting = [faulty_bench.enqueue(tenant, "d_write") for _ in range(20)]

    def only_reads(on: bool) -> None:
        with faulty_bench.server.admin() as admin:
            admin.execute("set default_transaction_read_only = off")
            if how == "server":
                admin.execute(sql.SQL("alter system set default_transaction_read_only = {}").format(sql.Literal(on)))
                admin.execute("select pg_reload_conf()")
            else:
                statement = sql.SQL("alter database {} set default_transaction_read_only = {}")
                admin.execute(statement.format(sql.Identifier(faulty_bench.name), sql.Literal(on)))
        if how == "role" and on:
            faulty_bench.terminate_all()

    def outage() -> None:
        wait_until(lambda: begun(tmp_path) == 2, 20, "two are busy")
        only_reads(True)
        (tmp_path / "go").touch()
        wait_until(lambda: refusals.count("ReadOnlySqlTransaction") >= 3, 20, "it has tried several times in vain")
        assert [faulty_bench.endings(job) for job in busy] == [[], []]
        only_reads(False)
        wait_until(lambda: faulty_bench.done([*busy, *waiting]), 30, "all are completed")

    report = faulty_bench.run_during(outage, workers=4)

    assert report.counts.discarded == 0
    for job in busy:
        assert faulty_bench.endings(job) == [("completed", None)]
    assert faulty_bench.all_endings() <= HARMLESS | {("failed", "transient")}


def test_no_outcome_is_lost_to_an_error_that_passes(faulty_bench: FaultyBench, refusals: list[str]) -> None:
    """The database says that its disk is full, for a while; what completed then is completed in the end."""
    raises = "raise exception 'no room' using errcode = 'disk_full'"
    faulty_bench.connection.execute(ON_ATTEMPTS.format(raises).encode())
    tenant = faulty_bench.tenant("acme")
    jobs = [faulty_bench.enqueue(tenant, "d_quick") for _ in range(10)]
    faulty_bench.rows("insert into faults values (%s, %s) returning 1", jobs[0], jobs[-1])

    def relieve() -> None:
        running = "select count(*) from batchproc.processing_jobs where state = 'running'"
        wait_until(lambda: faulty_bench.value(running) == 10, 20, "all are claimed, and none can be settled")
        wait_until(lambda: refusals.count("DiskFull") >= 2 * len(jobs), 20, "each has been tried again in vain")
        faulty_bench.connection.execute("delete from faults")
        wait_until(lambda: faulty_bench.done(jobs), 20, "all are completed")

    faulty_bench.run_during(relieve, workers=4)

    assert faulty_bench.all_completed_once(), faulty_bench.outcomes


@pytest.fixture
def small_disk(faulty_server: FaultyServer) -> Iterator[Path]:
    """A disk of 12 MB that the server has a tablespace on; skips where nothing may be mounted."""
    account = faulty_server.embedded.place.data.stat()
    options = f"size=12m,uid={account.st_uid},gid={account.st_gid},mode=0700"
    # Not below pytest's folder, into which the server's user may not look.
    with tempfile.TemporaryDirectory(prefix="bp-disk-", dir="/tmp") as parent:
        Path(parent).chmod(0o755)
        folder = Path(parent, "disk")
        folder.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], capture_output=True, check=False
        )
        if mounted.returncode:
            pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.long
def test_a_disk_that_is_really_full(faulty_bench: FaultyBench, small_disk: Path, refusals: list[str]) -> None:
    space = sql.Literal(str(small_disk))
    faulty_bench.connection.execute(sql.SQL("create tablespace small location {}").format(space))
    faulty_bench.connection.execute("alter table batchproc.job_attempts set tablespace small")
    tenant = faulty_bench.tenant("acme")
    jobs = [faulty_bench.enqueue(tenant, "d_quick") for _ in range(200)]
    filler = small_disk / "filler"

    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass

    def relieve() -> None:
        wait_until(lambda: refusals.count("DiskFull") >= 20, 20, "it has tried many times in vain")
        filler.unlink()
        wait_until(lambda: faulty_bench.done(jobs), 40, "all are completed")

    faulty_bench.run_during(relieve)

    assert faulty_bench.all_endings() <= HARMLESS
    faulty_bench.connection.execute("alter table batchproc.job_attempts set tablespace pg_default")
    faulty_bench.connection.execute("drop tablespace small")
