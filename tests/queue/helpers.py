"""What the tests of the queue share: tenants, jobs, nodes, claims, and waiting for conditions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

from psycopg import Connection
from psycopg.rows import TupleRow, dict_row

from batchproc.core.fairness import Queue, Turn
from batchproc.core.job import Claim, JobState, KindSpec, Lane, NewJob
from batchproc.core.outcome import Completed, ErrorClass, Failed, Outcome
from batchproc.core.settle import settle
from batchproc.core.transition import Transition
from batchproc.queue.campaigns import Campaigns
from batchproc.queue.changing import Changing
from batchproc.queue.node_store import Ended, NodeFacts, NodeStore, Settled
from batchproc.queue.pruning import Pruning
from batchproc.queue.store import JobStore

Conn = Connection[TupleRow]
T = TypeVar("T")

STORE = JobStore("batchproc")
CAMPAIGNS = Campaigns("batchproc")
SPECS = {spec.name: spec for spec in (KindSpec("work"), KindSpec("other"), KindSpec("once", unique_while_running=True))}
PATIENCE = 20.0


def add_tenant(connection: Conn, slug: str = "acme") -> int:
    return STORE.add_tenant(connection, slug).tenant_id


def add_document(connection: Conn, tenant_id: int, status: str = "pending", language: str | None = None) -> int:
    row = connection.execute(
        """
        insert into batchproc.documents (tenant_id, root, path, sha256, bytes, status, language)
        values (%s, '/nowhere', 'file', %s, 1, %s, %s) returning document_id
        """,
        [tenant_id, uuid4().bytes * 2, status, language],
    ).fetchone()
    assert row is not None
    return int(row[0])


def enqueue(connection: Conn, tenant_id: int, kind: str = "work", **more: Any) -> int:
    """A job's id; it must not be a duplicate."""
    enqueued = STORE.enqueue(connection, NewJob(tenant_id, kind, **more), SPECS.get(kind))
    assert not enqueued.duplicate
    return enqueued.job_id


def join(connection: Conn, *, lease: float = 3600.0, node_id: UUID | None = None) -> NodeStore:
    """A node that has joined."""
    store = NodeStore("batchproc", node_id or uuid4(), SPECS)
    store.join(connection, NodeFacts(store.node_id, "host", 1, 2, tuple(sorted(SPECS)), ("eng",), "5.5", "0.1"), lease)
    return store


def expire(connection: Conn, store: NodeStore) -> None:
    """The node was silent for longer than its lease."""
    connection.execute(
        "update batchproc.nodes set lease_until = clock_timestamp() - interval '1 second' where node_id = %s",
        [store.node_id],
    )


def queue_of(tenant_id: int, kind: str = "work", lane: int = Lane.BULK) -> Queue:
    return Queue(lane, tenant_id, kind)


def claim(
    connection: Conn, store: NodeStore, *turns: Turn, limited: bool = False, run_id: int | None = None
) -> list[Claim]:
    settled, claims = store.tick(connection, [], turns, limited=limited, run_id=run_id)
    assert settled == Settled({}, [])
    return claims


def claim_job(connection: Conn, store: NodeStore, job_id: int, run_id: int | None = None) -> Claim:
    claimed = store.claim_one(connection, job_id, run_id)
    assert claimed is not None
    return claimed


def running(connection: Conn, store: NodeStore, tenant_id: int, kind: str = "work", **more: Any) -> Claim:
    """The claim of a new job."""
    return claim_job(connection, store, enqueue(connection, tenant_id, kind, **more))


def retry(connection: Conn, job_ids: Sequence[int]) -> dict[int, str]:
    """What became of each, as ``batchproc jobs retry`` has it."""
    return Changing("batchproc").retry(connection, job_ids)


def prune(connection: Conn, older_than: timedelta) -> int:
    """How many jobs went, as with ``batchproc prune`` that nothing stops."""
    return sum(batch.jobs.total() for batch in Pruning("batchproc").batches(connection, older_than))


def decide(claimed: Claim, outcome: Outcome, spec: KindSpec | None = None) -> Transition:
    return settle(claimed, outcome, spec or KindSpec(claimed.kind), max_node_losses=3, jitter=0.0)


def ended(claimed: Claim, outcome: Outcome | None = None, spec: KindSpec | None = None) -> Ended:
    return Ended(decide(claimed, outcome or Completed(), spec), worker_pid=4711, seconds=1.5)


def failed(error_class: ErrorClass = ErrorClass.TRANSIENT, code: str = "own_code") -> Failed:
    return Failed(error_class, code, "ValueError at scan.py:12", "a safe detail")


def one(connection: Conn, query: str, values: Sequence[Any] = ()) -> Any:
    """The only value of a query's only row."""
    rows = connection.execute(query.encode(), values).fetchall()
    assert len(rows) == 1, rows
    return rows[0][0]


def rows_of(connection: Conn, query: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query.encode(), values).fetchall()


def job(connection: Conn, job_id: int) -> dict[str, Any]:
    """The job's row."""
    [row] = rows_of(connection, "select * from batchproc.processing_jobs where job_id = %s", [job_id])
    return row


def attempts(connection: Conn, job_id: int) -> list[dict[str, Any]]:
    return rows_of(connection, "select * from batchproc.job_attempts where job_id = %s order by ended_at", [job_id])


def state(connection: Conn, job_id: int) -> JobState:
    return JobState(job(connection, job_id)["state"])


def now(connection: Conn) -> Any:
    return one(connection, "select clock_timestamp()")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.005)


def wait_for_blocked(connection: Conn, count: int = 1) -> None:
    """Waits until so many backends of this database wait for a lock."""
    query = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    wait_until(lambda: one(connection, query) >= count, f"{count} backends that wait for a lock")


def at_once(work: Sequence[Callable[[], T]]) -> list[T]:
    """Runs each in a thread of its own and returns what they returned."""
    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result(PATIENCE) for future in [pool.submit(piece) for piece in work]]
