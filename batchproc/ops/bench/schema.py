"""Where benches run: a schema of their own in the database in use, removed afterwards, whatever happens."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import psycopg
from loguru import logger
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from batchproc.core.errors import BatchprocError, EnvironmentFault
from batchproc.core.job import Claim
from batchproc.core.outcome import Outcome
from batchproc.database import SqlFolder, connect, require_session
from batchproc.engine.node import Node, RunOptions
from batchproc.queue import migrate
from batchproc.settings import Settings

WARM_UP_PRIORITY = 1
MEASURED_PRIORITY = 5

Observe = Callable[[Claim, Outcome, float], None]
Tell = Callable[[str], None]


class BenchStopped(BatchprocError):
    """A signal ended the bench; nothing of it is left in the database."""

    exit_code = 130


@dataclass(frozen=True, slots=True)
class Urls:
    """The database, and the same one past a transaction pooler."""

    database: str
    direct: str


@dataclass(frozen=True, slots=True)
class BenchSchema:
    """A migrated, empty schema; ``settings`` are those of the bench, and name it."""

    settings: Settings
    urls: Urls

    @property
    def name(self) -> str:
        return self.settings.database.schema_name

    def connect(self) -> Connection[TupleRow]:
        """A session of its own."""
        return connect(self.urls.direct, application_name="batchproc bench")

    def run(self, options: RunOptions, observe: Observe) -> None:
        """Runs a node of these settings until all is done.

        Raises:
            EnvironmentFault: a job failed.
        """
        node = Node(self.settings, self.urls.database, self.urls.direct, observe)
        counts = node.run(options).counts
        if counts.codes or counts.retried or counts.storage_unavailable:
            codes = ", ".join(counts.codes) or "some were tried again"
            raise EnvironmentFault(f"jobs of the bench failed: {codes}", "see the log with -v, and: batchproc doctor")

    def seconds(self, kind: str, jobs: int) -> float:
        """From the first claim to the last settle of the measured jobs of that kind, by the database's clock.

        Raises:
            BenchStopped: not all of them have completed.
        """
        statement = SqlFolder("batchproc.ops.bench", self.name)["bench_times"]
        with self.connect() as connection:
            row = connection.execute(statement, {"kind": kind, "priority": MEASURED_PRIORITY}).fetchone()
        assert row is not None
        if row[0] != jobs:
            raise BenchStopped(f"the bench was stopped after {row[0]} of {jobs} jobs")
        return float(row[1])


@contextmanager
def bench_schema(settings: Settings, urls: Urls, **changes: Any) -> Iterator[BenchSchema]:
    """A fresh schema ``batchproc_bench_<random>``, dropped at the end, also when an exception is that end.

    What killed benches have left is dropped before.

    Args:
        changes: sections of the settings that the bench replaces. Handlers, overrides of kinds and reserved workers
            of the settings are left out, so that they do not change what is measured.

    Raises:
        EnvironmentFault: the database cannot be reached, or the role may not create a schema.
    """
    name = f"batchproc_bench_{secrets.token_hex(6)}"
    own: dict[str, Any] = {
        "database": settings.database.model_copy(update={"schema_name": name}),
        "dispatch": settings.dispatch.model_copy(update={"reserved": 0}),
        "handlers": (),
        "kinds": {},
    }
    schema = BenchSchema(settings.model_copy(update=own | changes), urls)
    with _life(schema) as life:
        drop_left(life)
        try:
            with schema.connect() as connection:
                migrate.apply(connection, name)
            yield schema
        finally:
            _drop(schema)


@contextmanager
def _life(schema: BenchSchema) -> Iterator[Connection[TupleRow]]:
    """A session that holds the schema's advisory lock, by which other benches know that this one lives."""
    # Idle for as long as the bench goes on.
    unending = {"idle_session_timeout": "0"}
    with connect(schema.urls.direct, application_name="batchproc bench", settings=unending) as connection:
        require_session(connection, "a bench")
        connection.execute(SqlFolder("batchproc.ops.bench")["bench_lock_schema"], [schema.name])
        yield connection


def drop_left(connection: Connection[TupleRow]) -> list[str]:
    """Drops the schemas of benches that were killed, which are those whose advisory lock nobody holds; their names.

    Logs a warning of one that cannot be dropped, with the statement that does it.
    """
    statements = SqlFolder("batchproc.ops.bench")
    dropped = []
    for (name,) in connection.execute(statements["bench_schemas"]).fetchall():
        row = connection.execute(statements["bench_lock_schema"], [name]).fetchone()
        assert row is not None
        if not row[0]:
            continue
        try:
            _drop_schema(connection, name)
            dropped.append(name)
        except psycopg.Error as error:
            logger.warning(
                "the schema of a killed bench is left behind ({}): drop schema {} cascade", type(error).__name__, name
            )
        finally:
            connection.execute(statements["bench_unlock_schema"], [name])
    return dropped


def _drop(schema: BenchSchema) -> None:
    try:
        with schema.connect() as connection:
            _drop_schema(connection, schema.name)
    except (BatchprocError, psycopg.Error) as error:
        logger.error(
            "the bench's schema is left behind ({}): drop schema {} cascade", type(error).__name__, schema.name
        )


def _drop_schema(connection: Connection[TupleRow], name: str) -> None:
    # One notice for every table is of no use.
    connection.execute("set client_min_messages = warning")
    connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(name)))


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM raises BenchStopped, so that nothing is left behind; Ctrl-C raises KeyboardInterrupt anyhow."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise BenchStopped("the bench was stopped")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
