"""Migrations beside nodes that work and people who look: leases are renewed and jobs written all the while."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from psycopg import sql

from batchproc.core.errors import EnvironmentFault
from batchproc.core.job import NewJob
from batchproc.database import SqlFolder, connect
from batchproc.queue import migrate
from batchproc.queue.store import JobStore
from tests.queue.helpers import Conn, join, one, wait_for_blocked
from tests.queue.test_migrate import only_before

LAST_IN_ONE_GO = 4
"""The last that altered and built in one transaction; it was released so."""
SMALL = {"tenants", "kinds", "campaigns", "runs"}
"""Of some thousand rows: an index takes no time."""
_BUILT = re.compile(r"index (?:concurrently )?(?:if not exists )?\w+\s+on batchproc\.(\w+)")


@pytest.fixture
def connection(empty_database_url: str) -> Iterator[Conn]:
    with connect(empty_database_url) as opened:
        yield opened


@pytest.fixture
def opened(empty_database_url: str) -> Iterator[Callable[[], Conn]]:
    """Further connections to that database."""
    made: list[Conn] = []

    def another() -> Conn:
        made.append(connect(empty_database_url))
        return made[-1]

    yield another
    for each in made:
        each.close()


def text_of(migration: migrate.Migration) -> str:
    return SqlFolder("batchproc.queue", folder="migrations")[migration.stem].decode().replace('"', "")


LATER = migrate.known_migrations()[LAST_IN_ONE_GO:]


@pytest.mark.parametrize("migration", LATER, ids=lambda migration: migration.stem)
def test_an_index_of_a_table_in_use_is_built_beside_those_who_write_to_it(migration: migrate.Migration) -> None:
    text = text_of(migration)
    if migration.builds_indexes:
        statements = [statement for statement in text.split(";") if statement.strip()]
        assert all(migrate._INDEX.match(statement.strip().encode()) for statement in statements)
    else:
        made = set(re.findall(r"create table batchproc\.(\w+)", text))
        assert set(_BUILT.findall(text)) <= made | SMALL


@pytest.mark.parametrize("migration", LATER, ids=lambda migration: migration.stem)
def test_nothing_is_altered_while_the_nodes_are_locked(migration: migrate.Migration) -> None:
    """A foreign key to them locks them, for as long as the transaction goes on."""
    _, _, afterwards = text_of(migration).partition("references batchproc.nodes")
    assert "alter table" not in afterwards


# What an open transaction has read, such as that of a report, with all else that a migration may want to lock.
READ = [
    "processing_jobs",
    "documents",
    *(
        pytest.param(table, marks=pytest.mark.long)
        for table in ("document_paths", "ocr_revisions", "runs", "campaigns", "job_attempts")
    ),
]


class Waits:
    """Does the same over and over in a thread of its own, and measures how long each time takes."""

    def __init__(self, connection: Conn, statement: str) -> None:
        self._connection = connection
        self._statement = statement.encode()
        self._ended = Event()
        self.each: list[float] = []

    def measure(self) -> None:
        while not self._ended.wait(0.01):
            began = time.monotonic()
            self._connection.execute(self._statement)
            self.each.append(time.monotonic() - began)

    def end(self) -> None:
        self._ended.set()


@pytest.mark.parametrize("read", READ)
def test_leases_are_renewed_and_jobs_written_while_somebody_reads(
    connection: Conn, opened: Callable[[], Conn], read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_before(connection, LAST_IN_ONE_GO + 1, monkeypatch)
    node = join(connection)
    connection.execute(
        "with tenant as (insert into batchproc.tenants (slug) values ('acme') returning tenant_id)"
        " insert into batchproc.processing_jobs (tenant_id, kind, state, max_attempts)"
        " select tenant_id, 'work', 'available', 5 from tenant"
    )
    monkeypatch.undo()
    reader = opened()
    renewals = Waits(opened(), "update batchproc.nodes set lease_until = lease_until + interval '1 s'")
    writes = Waits(opened(), "update batchproc.processing_jobs set priority = priority")
    limit = 0.8
    with ThreadPoolExecutor() as threads, reader.transaction():
        reader.execute(sql.SQL("lock table batchproc.{} in access share mode").format(sql.Identifier(read)))
        for waits in (renewals, writes):
            threads.submit(waits.measure)
        began = time.monotonic()
        try:
            migrate.apply(connection, busy_limit=limit)
        except EnvironmentFault as fault:
            assert "changed nothing" in str(fault)  # noqa: PT017 - or it needs nothing that a reader locks
        took = time.monotonic() - began
        for waits in (renewals, writes):
            waits.end()
    assert renewals.each
    assert writes.each
    assert sum(wait for wait in renewals.each if wait > 0.05) < 0.1 * max(took, limit), "they are locked last"
    assert max(writes.each) < 1.0
    assert sum(wait for wait in writes.each if wait > 0.05) < 0.5 * max(took, limit)
    migrate.apply(connection)
    migrate.require_current(connection)
    assert node.renew(connection, 30.0)


# -- indexes


INDEXES = 6


def unfinished(connection: Conn) -> int:
    return int(one(connection, "select count(*) from pg_index where not indisvalid"))


def test_others_write_while_an_index_is_built(
    connection: Conn, opened: Callable[[], Conn], monkeypatch: pytest.MonkeyPatch
) -> None:
    only_before(connection, INDEXES, monkeypatch)
    writer, other = opened(), opened()
    other.execute("set lock_timeout = '200ms'")
    with ThreadPoolExecutor() as threads:
        with writer.transaction():
            tenant = JobStore("batchproc").add_tenant(writer, "acme").tenant_id
            JobStore("batchproc").enqueue(writer, NewJob(tenant, "work"))
            migrating = threads.submit(migrate.apply, connection)
            wait_for_blocked(writer, 1)
            second = JobStore("batchproc").add_tenant(other, "beta").tenant_id
            assert JobStore("batchproc").enqueue(other, NewJob(second, "work")).job_id
            join(other)
        assert [migration.version for migration in migrating.result(30)] == [INDEXES]
    assert unfinished(connection) == 0


def test_one_that_somebody_waits_to_apply_too_is_applied(
    connection: Conn, opened: Callable[[], Conn], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build waits for every statement that is older: it would wait for the one that waits for it."""
    only_before(connection, INDEXES, monkeypatch)
    writer, second = opened(), opened()
    with ThreadPoolExecutor() as threads:
        with writer.transaction():
            writer.execute("lock table batchproc.processing_jobs in row exclusive mode")
            first = threads.submit(migrate.apply, connection)
            wait_for_blocked(writer, 1)
            other = threads.submit(migrate.apply, second)
        assert [len(first.result(30)), len(other.result(30))] == [1, 0]


def test_one_that_was_not_finished_is_built_again(
    connection: Conn, opened: Callable[[], Conn], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old snapshot, as a dump has it, keeps a build from ending; a kill leaves the same behind."""
    only_before(connection, INDEXES, monkeypatch)
    old = opened()
    before = connection.execute("select name, setting from pg_settings where name like '%_timeout'").fetchall()
    with old.transaction():
        old.execute("set transaction isolation level repeatable read")
        old.execute("select from batchproc.tenants")
        with pytest.raises(EnvironmentFault, match=r"0006_operations_indexes .* is not finished"):
            migrate.apply(connection, busy_limit=0.3)
        assert unfinished(connection) == 1
    assert connection.execute("select name, setting from pg_settings where name like '%_timeout'").fetchall() == before
    assert [migration.version for migration in migrate.apply(connection)] == [INDEXES]
    assert unfinished(connection) == 0


def test_what_was_built_is_not_built_again(
    connection: Conn, opened: Callable[[], Conn], monkeypatch: pytest.MonkeyPatch
) -> None:
    last = only_before(connection, INDEXES, monkeypatch)
    first = text_of(last).split(";")[0]
    connection.execute(first.encode())
    indexes = "select oid from pg_class where relname = 'processing_jobs_campaign_done'"
    built = one(connection, indexes)
    migrate.apply(connection)
    assert one(connection, indexes) == built
