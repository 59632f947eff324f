"""Migrations: once, together, in another schema, and never over a database that needs newer code."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from psycopg import sql

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.core.fairness import Turn
from batchproc.core.job import NewJob
from batchproc.core.outcome import Completed, FollowUp
from batchproc.database import connect
from batchproc.queue import migrate
from batchproc.queue.hints import Hint
from batchproc.queue.inspection import Inspection
from batchproc.queue.listener import Heard, Listener
from batchproc.queue.node_store import NodeFacts, NodeStore
from batchproc.queue.store import JobStore
from tests.queue.helpers import SPECS, Conn, at_once, ended, one, queue_of, wait_for_blocked


def versions() -> list[int]:
    return [migration.version for migration in migrate.known_migrations()]


def advisory_locks(connection: Conn) -> int:
    query = """
        select count(*) from pg_locks
        where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())
    """
    return int(one(connection, query))


def test_the_files_are_numbered_without_a_gap_and_their_floors_never_sink() -> None:
    known = migrate.known_migrations()
    assert versions() == list(range(1, len(known) + 1))
    floors = [migration.min_code_version for migration in known]
    assert floors == sorted(floors)
    assert floors[-1] <= migrate.CODE_VERSION


def test_a_second_migration_changes_nothing(empty_database_url: str) -> None:
    with connect(empty_database_url) as connection:
        assert [migration.version for migration in migrate.pending(connection)] == versions()
        with pytest.raises(UsageError, match=r"lacks .* next 0001_initial: run: batchproc migrate"):
            migrate.require_current(connection)
        assert [migration.version for migration in migrate.apply(connection)] == versions()
        assert migrate.apply(connection) == []
        assert migrate.pending(connection) == []
        migrate.require_current(connection)
        assert list(migrate.applied_versions(connection)) == versions()
        assert advisory_locks(connection) == 0


def test_several_at_once_apply_each_migration_once(empty_database_url: str) -> None:
    def migrated() -> list[int]:
        with connect(empty_database_url) as connection:
            return [migration.version for migration in migrate.apply(connection)]

    applied = at_once([migrated] * 4)
    assert sorted(applied, key=len) == [[], [], [], versions()]


@pytest.mark.parametrize("schema", ["archive", 'We"ird Schema-1', "x" * 63])
def test_another_schema_works_from_end_to_end(empty_database_url: str, schema: str) -> None:
    with connect(empty_database_url) as connection, connect(empty_database_url) as ears:
        migrate.apply(connection, schema)
        migrate.require_current(connection, schema)
        assert one(connection, "select count(*) from pg_namespace where nspname = 'batchproc'") == 0
        jobs, node = JobStore(schema), NodeStore(schema, uuid4(), SPECS)
        listener = Listener(ears, schema)
        tenant = jobs.add_tenant(connection, "acme").tenant_id
        job_id = jobs.enqueue(connection, NewJob(tenant, "work")).job_id
        assert listener.wait(10) == Heard([Hint(queue_of(tenant), 5)])
        assert jobs.enqueue_many(connection, [NewJob(tenant, "other")]) == 1
        node.join(connection, NodeFacts(node.node_id, "host", 1, 1, ("work",), (), "", "1"), 30.0)
        _, [claim] = node.tick(connection, [], [Turn(queue_of(tenant), 1)], limited=True, run_id=None)
        assert claim.job_id == job_id
        ending = ended(claim, Completed(follow_ups=(FollowUp("other"),)))
        settled, _ = node.tick(connection, [ending], [], limited=False, run_id=None)
        assert settled.followed == [queue_of(tenant, "other")]
        assert Inspection(schema).totals(connection)["completed"] == 1


TABLES_AND_INDEXES = [5, 6]
"""The newest migration that changes tables in use, and the newest that builds indexes on them."""


def only_before(connection: Conn, version: int, patch: pytest.MonkeyPatch) -> migrate.Migration:
    """The database as it was before that migration, which is returned, and is the newest until ``patch`` is undone."""
    known = migrate.known_migrations()
    with patch.context() as before:
        before.setattr(migrate, "known_migrations", lambda: known[: version - 1])
        migrate.apply(connection)
    patch.setattr(migrate, "known_migrations", lambda: known[:version])
    return known[version - 1]


@pytest.mark.parametrize("version", TABLES_AND_INDEXES)
def test_a_migration_gives_way_to_what_nodes_hold_and_comes_through(
    empty_database_url: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(empty_database_url) as connection, connect(empty_database_url) as node:
        last = only_before(connection, version, monkeypatch)
        with ThreadPoolExecutor() as threads:
            with node.transaction():
                # As a settle and then a claim of the same tick lock the tables.
                node.execute("update batchproc.processing_jobs set attempt = attempt where job_id = -1")
                migrating = threads.submit(migrate.apply, connection)
                for _ in range(3):
                    wait_for_blocked(node, 1)
                    node.execute("select from batchproc.kinds")
            assert [migration.version for migration in migrating.result(30)] == [last.version]


@pytest.mark.parametrize(
    ("version", "told"), list(zip(TABLES_AND_INDEXES, ["changed nothing", "is not finished"], strict=True))
)
def test_a_migration_that_finds_no_moment_says_so(
    empty_database_url: str, version: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(empty_database_url) as connection, connect(empty_database_url) as dump:
        last = only_before(connection, version, monkeypatch)
        with dump.transaction():
            dump.execute("lock table batchproc.processing_jobs in row exclusive mode")
            with pytest.raises(EnvironmentFault, match=rf"found its tables busy for 0\.5 s, and {told}") as fault:
                migrate.apply(connection, busy_limit=0.5)
            assert "stop the nodes" in str(fault.value.hint)
        assert [migration.version for migration in migrate.apply(connection)] == [last.version]


def test_schemas_of_one_database_are_apart(empty_database_url: str) -> None:
    with connect(empty_database_url) as connection, connect(empty_database_url) as ears:
        migrate.apply(connection)
        migrate.apply(connection, "second")
        listener = Listener(ears, "second")
        tenant = JobStore("batchproc").add_tenant(connection, "acme").tenant_id
        JobStore("batchproc").enqueue(connection, NewJob(tenant, "work"))
        assert listener.wait(0.2) == Heard([])
        assert JobStore("second").tenants(connection) == []


def needs(connection: Conn, code_version: int) -> None:
    connection.execute(
        "insert into batchproc.schema_migrations (version, name, min_code_version) values (9999, 'later', %s)",
        [code_version],
    )


def test_a_database_that_needs_newer_code_is_refused_with_advice(database_url: str) -> None:
    with connect(database_url) as connection:
        needs(connection, migrate.CODE_VERSION + 1)
        for refused in (migrate.pending, migrate.require_current, migrate.apply):
            with pytest.raises(EnvironmentFault, match=r"needs code version 5 or newer, this is 4: upgrade batchproc"):
                refused(connection)
        assert advisory_locks(connection) == 0


def test_a_newer_database_that_older_code_can_live_with_is_not(database_url: str) -> None:
    with connect(database_url) as connection:
        needs(connection, migrate.CODE_VERSION)
        migrate.require_current(connection)
        assert migrate.apply(connection) == []


def test_a_migration_that_fails_leaves_nothing_and_says_what_to_do(empty_database_url: str) -> None:
    with connect(empty_database_url) as connection:
        connection.execute("create schema batchproc")
        connection.execute("create table batchproc.job_signals ()")
        with pytest.raises(
            EnvironmentFault, match=r"was rolled back: relation .*job_signals.* exists.*batchproc migrate"
        ):
            migrate.apply(connection)
        assert one(connection, "select count(*) from pg_tables where schemaname = 'batchproc'") == 1
        connection.execute("drop table batchproc.job_signals")
        assert [migration.version for migration in migrate.apply(connection)] == versions()


def test_the_owner_of_the_schema_needs_no_right_to_create_one(empty_database_url: str) -> None:
    role = f"batchproc_test_{uuid4().hex[:12]}"
    name = sql.Identifier(role)
    with connect(empty_database_url) as connection:
        connection.execute(sql.SQL("create role {}").format(name))
        try:
            connection.execute(sql.SQL("set role {}").format(name))
            with pytest.raises(EnvironmentFault, match=r"permission denied.* the role must own the schema"):
                migrate.apply(connection)
            connection.execute("reset role")
            connection.execute(sql.SQL("create schema batchproc authorization {}").format(name))
            connection.execute(sql.SQL("set role {}").format(name))
            assert [migration.version for migration in migrate.apply(connection)] == versions()
        finally:
            connection.execute("reset role")
            connection.execute(sql.SQL("drop owned by {}").format(name))
            connection.execute(sql.SQL("drop role {}").format(name))


def test_a_limit_that_was_declared_before_people_could_set_one_is_still_a_declared_one(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrate.known_migrations()
    with connect(empty_database_url) as connection:
        monkeypatch.setattr(migrate, "known_migrations", lambda: known[:1])
        migrate.apply(connection)
        connection.execute("insert into batchproc.kinds (kind, max_running) values ('work', 3), ('other', null)")
        monkeypatch.undo()
        migrate.apply(connection)
        limits = connection.execute("select kind, max_running, declared_limit from batchproc.kinds order by kind")
        assert limits.fetchall() == [("other", None, None), ("work", None, 3)]


def test_jobs_that_wait_are_given_what_they_ask_for_and_the_others_stay_untouched(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrate.known_migrations()
    jobs = "select job_id, xmin::text from batchproc.processing_jobs order by job_id"
    with connect(empty_database_url) as connection:
        monkeypatch.setattr(migrate, "known_migrations", lambda: known[:2])
        migrate.apply(connection)
        connection.execute(
            """
            with tenant as (insert into batchproc.tenants (slug) values ('acme') returning tenant_id)
            insert into batchproc.documents (tenant_id, root, path, sha256, bytes, language)
            select tenant_id, '', '', sha256(int8send(n)), 0, case when n = 2 then 'deu+eng' end
            from tenant, generate_series(1, 2) n
            """
        )
        connection.execute(
            """
            insert into batchproc.processing_jobs (tenant_id, document_id, kind, state, max_attempts, args)
            select d.tenant_id, d.document_id, 'ocr', 'available', 5, asked.args::jsonb
            from batchproc.documents d, unnest(array['{}', '{"languages": ["fra"]}', '{"languages": []}']) asked(args)
            order by d.document_id, asked.args
            """
        )
        before = connection.execute(jobs).fetchall()
        monkeypatch.undo()
        migrate.apply(connection)
        after = connection.execute(jobs).fetchall()
        found = connection.execute(
            "select document_id, args ->> 'languages', languages from batchproc.processing_jobs order by job_id"
        ).fetchall()
    asked: list[Any] = [
        (1, None, None),
        (1, "[]", None),
        (1, '["fra"]', ["fra"]),
        (2, None, ["deu", "eng"]),
        (2, "[]", ["deu", "eng"]),
        (2, '["fra"]', ["fra"]),
    ]
    assert sorted(found, key=str) == sorted(asked, key=str)
    rewritten = [now != was for now, was in zip(after, before, strict=True)]
    assert rewritten == [languages is not None for _, _, languages in found]
