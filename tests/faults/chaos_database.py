"""The chaos command's own database: made, filled, watched and dropped."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from batchproc.core.job import NewJob
from batchproc.database import connect
from batchproc.embedded import EmbeddedServer
from batchproc.queue import migrate
from batchproc.queue.store import JobStore
from tests.faults.chaos_handlers import ENDLESS, KIND
from tests.faults.chaos_ledger import Attempt
from tests.faults.invariants import violations

TENANTS = ("acme", "borealis", "cumulus", "delta", "esker")
_WITNESS = Path(__file__).with_name("chaos_witness.sql").read_bytes()
_VERDICT = Path(__file__).with_name("chaos_verdict.sql").read_bytes()
# The sum of few rows, which every settle keeps: asking often costs next to nothing.
_PROGRESS = b"select coalesce(sum(completed), 0)::bigint from batchproc.usage_daily"
_ATTEMPTS = b"select claim_id, job_id, outcome, error_class from batchproc.job_attempts"
_BACKENDS = b"""
    select pid from pg_stat_activity where datname = current_database() and application_name like 'batchproc %'
"""
# The tests' own prefix: what a killed run leaves is removed by the next run of the tests.
_HOME_PREFIX = "batchproc-test-"


@dataclass(frozen=True)
class Verdict:
    """The jobs as they are in the end; ``settles`` by the witness, ``attempts`` by batchproc itself."""

    jobs: int
    completed: int
    unfinished: int
    settled_twice: int
    settles: int
    attempts: int


class ChaosDatabase:
    """A connection to the database of one chaos run, beside the nodes'."""

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self.name = name
        self._connection: Connection[TupleRow] = connect(url, application_name="chaos")

    def prepare(self, jobs: int) -> None:
        """Migrates, sets up the witness and enqueues that many jobs over the tenants."""
        migrate.apply(self._connection)
        self._connection.execute(_WITNESS)
        store = JobStore("batchproc")
        with self._connection.transaction():
            ids = [store.add_tenant(self._connection, slug).tenant_id for slug in TENANTS]
            store.enqueue_many(self._connection, (_job(ids[number % len(ids)]) for number in range(jobs)))
        self._connection.execute(b"analyze batchproc.processing_jobs")

    def completed(self) -> int:
        """How many jobs have completed so far."""
        return int(self._rows(_PROGRESS)[0][0])

    def end_backend(self, chance: random.Random) -> bool:
        """Ends the session of a random node or worker; False when there is none."""
        pids = [row[0] for row in self._rows(_BACKENDS)]
        return bool(pids) and bool(
            self._connection.execute(b"select pg_terminate_backend(%s)", [chance.choice(pids)]).fetchone()
        )

    def verdict(self) -> Verdict:
        return Verdict(*self._rows(_VERDICT)[0])

    def attempts(self) -> dict[UUID, Attempt]:
        return {row[0]: Attempt(*row[1:]) for row in self._rows(_ATTEMPTS)}

    def violations(self) -> list[str]:
        return violations(self._connection)

    def close(self) -> None:
        self._connection.close()

    def _rows(self, statement: bytes) -> list[TupleRow]:
        return self._connection.execute(statement).fetchall()


def _job(tenant_id: int) -> NewJob:
    return NewJob(tenant_id, KIND, {}, max_attempts=ENDLESS)


@contextlib.contextmanager
def database(server_url: str | None) -> Iterator[ChaosDatabase]:
    """A fresh database on that server, or on an embedded one in a temp folder; removed in the end."""
    if server_url is not None:
        with _database_on(server_url) as made:
            yield made
        return
    server = EmbeddedServer(Path(tempfile.mkdtemp(prefix=f"{_HOME_PREFIX}{os.getpid()}-", dir="/tmp")))
    try:
        server.start()
        with _database_on(server.url) as made:
            yield made
    finally:
        server.stop("immediate")
        for folder in {server.place.base, server.place.home}:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _database_on(server_url: str) -> Iterator[ChaosDatabase]:
    name = f"batchproc_chaos_{uuid4().hex[:12]}"
    with connect(server_url, application_name="chaos") as server:
        server.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            made = ChaosDatabase(_url_of(server_url, name), name)
            try:
                yield made
            finally:
                made.close()
        finally:
            server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _url_of(server_url: str, name: str) -> str:
    """The URL of another database of the same server."""
    scheme, _, rest = server_url.partition("://")
    address, _, query = rest.partition("?")
    return f"{scheme}://{address.partition('/')[0]}/{name}" + (f"?{query}" if query else "")
