"""The physical limits that benches are held against, measured on the spot: what commits and bare claims cost here."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from batchproc.core.job import NewJob
from batchproc.database import SqlFolder
from batchproc.ops.bench.schema import BenchSchema
from batchproc.queue.store import JobStore

SECONDS = 1.0
_BARE_KIND = "bench_bare"
_BARE_TENANT = "bench-bare"
_BARE_COMMITS = 3000
"""More than one connection made in a second on any machine tried; with bundles up to 20,000 jobs."""
_BARE_JOBS = 20_000


def commits_per_second(schema: BenchSchema, connections: int = 1) -> float:
    """One-row inserts, each committed by itself, on so many connections at once (a thread each)."""
    statements = SqlFolder("batchproc.ops.bench", schema.name)
    with schema.connect() as connection:
        connection.execute(statements["bench_commit_table"])
    with ThreadPoolExecutor(connections) as pool:
        started = time.perf_counter()
        counts = list(pool.map(lambda _: _commit_until(schema, started + SECONDS), range(connections)))
        return sum(counts) / (time.perf_counter() - started)


def _commit_until(schema: BenchSchema, end: float) -> int:
    statement = SqlFolder("batchproc.ops.bench", schema.name)["bench_commit"]
    count = 0
    with schema.connect() as connection:
        while time.perf_counter() < end or count == 0:
            connection.execute(statement, [count])
            count += 1
    return count


def bare_claims_per_second(schema: BenchSchema, bundle: int = 1) -> float:
    """Jobs claimed and completed on one connection, ``bundle`` at a time, by two bare statements in one commit.

    On the same table with the same indexes, in one round trip; no attempts, no usage, no worker.
    """
    statements, store = SqlFolder("batchproc.ops.bench", schema.name), JobStore(schema.name)
    jobs = min(_BARE_COMMITS * bundle, _BARE_JOBS)
    with schema.connect() as connection:
        with connection.transaction():
            tenant_id = store.add_tenant(connection, _BARE_TENANT).tenant_id
            store.enqueue_many(connection, (NewJob(tenant_id, _BARE_KIND) for _ in range(jobs)))
        values = {"tenant_id": tenant_id, "kind": _BARE_KIND, "count": bundle, "node_id": uuid4()}
        done = 0
        started = time.perf_counter()
        while done < jobs and time.perf_counter() - started < SECONDS:
            with connection.pipeline():
                connection.execute(statements["bench_take"], values)
                completed = connection.execute(statements["bench_complete"], values)
            done += completed.rowcount
        return done / (time.perf_counter() - started)
