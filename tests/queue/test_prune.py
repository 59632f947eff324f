"""Pruning deletes what ended long ago, and nothing that anybody still needs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from uuid import uuid4

import psycopg
import pytest

from batchproc.core.job import JobState
from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Outcome
from batchproc.database import SqlFolder
from batchproc.queue import pruning
from batchproc.queue.node_store import NodeStore
from tests.queue.helpers import (
    Conn,
    add_document,
    add_tenant,
    at_once,
    ended,
    enqueue,
    failed,
    join,
    one,
    prune,
    rows_of,
    running,
    state,
)

Opened = Callable[[], Conn]
DAY = timedelta(days=1)
SQL = SqlFolder("batchproc.queue", "batchproc")
ENDINGS: list[Outcome] = [Completed(), failed(ErrorClass.PERMANENT), Cancelled()]


def over(connection: Conn, node: NodeStore, tenant: int, outcome: Outcome | None = None, days: float = 2) -> int:
    """A job that ended so many days ago."""
    claimed = running(connection, node, tenant)
    node.settle(connection, [ended(claimed, outcome)])
    connection.execute(
        "update batchproc.processing_jobs set finished_at = clock_timestamp() - make_interval(secs => %s)"
        " where job_id = %s",
        [days * 86400, claimed.job_id],
    )
    return claimed.job_id


def left(connection: Conn) -> list[int]:
    return [
        row["job_id"] for row in rows_of(connection, "select job_id from batchproc.processing_jobs order by job_id")
    ]


def test_what_ended_before_goes_and_all_else_stays(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    for outcome in ENDINGS:
        over(connection, node, tenant, outcome)
    kept = [over(connection, node, tenant, outcome, days=0.99) for outcome in ENDINGS]
    kept += [running(connection, node, tenant).job_id, enqueue(connection, tenant)]
    kept.append(enqueue(connection, tenant, run_at=one(connection, "select now() - interval '9 days'")))
    connection.execute("update batchproc.processing_jobs set created_at = created_at - interval '9 days'")
    assert prune(connection, DAY) == 3
    assert left(connection) == kept
    assert prune(connection, DAY) == 0


def test_attempts_and_signals_go_with_their_job_and_usage_stays(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    old, young = over(connection, node, tenant), over(connection, node, tenant, days=0)
    for job_id in (old, young):
        connection.execute("insert into batchproc.job_signals (job_id, tenant_id) values (%s, %s)", [job_id, tenant])
    usage = rows_of(connection, "select * from batchproc.usage_daily")
    assert prune(connection, DAY) == 1
    for table in ("job_attempts", "job_signals"):
        assert rows_of(connection, f"select job_id from batchproc.{table}") == [{"job_id": young}]
    assert rows_of(connection, "select * from batchproc.usage_daily") == usage


def test_a_document_and_its_text_outlive_the_job_that_read_it(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    document = add_document(connection, tenant)
    old = over(connection, node, tenant)
    connection.execute("update batchproc.processing_jobs set document_id = %s", [document])
    connection.execute(
        """
        insert into batchproc.ocr_revisions
            (tenant_id, document_id, engine, engine_version, data_hash, profile, languages, source_sha256, page_count,
             job_id, claim_id)
        values (%s, %s, 'e', '1', 'h', '{}', '{eng}', '', 1, %s, %s)
        """,
        [tenant, document, old, uuid4()],
    )
    assert prune(connection, DAY) == 1
    assert one(connection, "select count(*) from batchproc.documents") == 1
    assert one(connection, "select job_id from batchproc.ocr_revisions") == old, "it still tells who wrote it"


def test_only_what_goes_with_a_job_points_at_it(connection: Conn) -> None:
    """A new table that needs its job must say what becomes of it when that is pruned."""
    query = """
        select r.relname::text as "table", c.confdeltype::text as on_delete
        from pg_constraint c join pg_class r on r.oid = c.conrelid
        where contype = 'f' and confrelid = 'batchproc.processing_jobs'::regclass order by 1
    """
    assert rows_of(connection, query) == [
        {"table": "job_attempts", "on_delete": "c"},
        {"table": "job_signals", "on_delete": "c"},
    ]


@pytest.mark.parametrize(("revision_state", "kept"), [("open", 2), ("complete", 0), ("abandoned", 0)])
def test_ranges_stay_as_long_as_their_revision_is_open(connection: Conn, revision_state: str, kept: int) -> None:
    """Whoever joins them asks each how it ended. A revision that is gone keeps none."""
    tenant, node = add_tenant(connection), join(connection)
    revision = one(
        connection,
        """
        insert into batchproc.ocr_revisions
            (tenant_id, document_id, engine, engine_version, data_hash, profile, languages, source_sha256, page_count,
             state)
        values (%s, %s, 'tesseract', '5.5', '', '{}', '{eng}', '', 20, %s) returning revision_id
        """,
        [tenant, add_document(connection, tenant), revision_state],
    )
    alone, gone, *ranges = (over(connection, node, tenant) for _ in range(4))
    belong = "update batchproc.processing_jobs set range_of = %s where job_id = any(%s)"
    connection.execute(belong, [revision, ranges])
    connection.execute(belong, [revision + 1, [gone]])
    until = one(connection, "select clock_timestamp()")
    raced = connection.execute(SQL["prune_jobs"], {"job_ids": [alone, *ranges], "until": until}).fetchall()
    assert len(raced) == 3 - kept, "judged anew when they are locked"
    assert prune(connection, DAY) == 1
    assert left(connection) == ranges[:kept]


def test_many_are_pruned_in_batches(connection: Conn) -> None:
    tenant = add_tenant(connection)
    count = 2 * pruning._BATCH + 5
    connection.execute(
        """
        insert into batchproc.processing_jobs (tenant_id, kind, state, max_attempts, finished_at)
        select %s, 'work', 'completed', 5, '2020-01-01' from generate_series(1, %s)
        """,
        [tenant, count],
    )
    assert prune(connection, DAY) == count, "at one and the same time, too"
    assert left(connection) == []


def test_what_somebody_holds_is_left_to_the_next_prune(connection: Conn, opened: Opened) -> None:
    tenant, node, other = add_tenant(connection), join(connection), opened()
    held, free = over(connection, node, tenant, Cancelled()), over(connection, node, tenant)
    with other.transaction():
        other.execute(SQL["retry_jobs"], [[held]])
        assert prune(connection, DAY) == 1
        assert left(connection) == [held]
    assert (prune(connection, DAY), state(connection, held)) == (0, JobState.AVAILABLE)
    assert free not in left(connection)


def test_several_prune_together(connection: Conn, opened: Opened) -> None:
    tenant, node = add_tenant(connection), join(connection)
    for _ in range(40):
        over(connection, node, tenant)
    pruned = at_once([partial(prune, opened(), DAY) for _ in range(4)])
    assert sum(pruned) == 40
    assert left(connection) == []


@pytest.mark.parametrize("older_than", [timedelta(days=36_500), timedelta.max])
def test_an_age_beyond_all_times_prunes_nothing(connection: Conn, older_than: timedelta) -> None:
    tenant, node = add_tenant(connection), join(connection)
    over(connection, node, tenant)
    assert prune(connection, older_than) == 0


def test_a_prune_commits_by_itself_and_looks_back(connection: Conn) -> None:
    with pytest.raises(ValueError, match="outside transactions"), connection.transaction():
        prune(connection, DAY)
    with pytest.raises(ValueError, match="in the future"):
        prune(connection, -DAY)


def test_a_server_that_only_reads_is_told(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    over(connection, node, tenant)
    connection.execute("set default_transaction_read_only = on")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        prune(connection, DAY)
