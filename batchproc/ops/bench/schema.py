"""Where benches run: a schema of their own in the database in use, removed afterwards, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import EnvironmentFault
from batchproc.core.job import Claim
from batchproc.core.outcome import Outcome
from batchproc.database import SqlFolder, connect
from batchproc.engine.node import Node, RunOptions
from batchproc.ops.scratch_schema import drop_left as scratch_schema_left
from batchproc.ops.scratch_schema import scratch_schema
from batchproc.ops.stopped import Stopped
from batchproc.settings import Settings

WARM_UP_PRIORITY = 1
MEASURED_PRIORITY = 5
_WORD = "bench"

Observe = Callable[[Claim, Outcome, float], None]
Tell = Callable[[str], None]


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
            Stopped: not all of them have completed.
        """
        statement = SqlFolder("batchproc.ops.bench", self.name)["bench_times"]
        with self.connect() as connection:
            row = connection.execute(statement, {"kind": kind, "priority": MEASURED_PRIORITY}).fetchone()
        assert row is not None
        if row[0] != jobs:
            raise Stopped(f"the bench was stopped after {row[0]} of {jobs} jobs")
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
    with scratch_schema(urls.direct, _WORD) as name:
        own: dict[str, Any] = {
            "database": settings.database.model_copy(update={"schema_name": name}),
            "dispatch": settings.dispatch.model_copy(update={"reserved": 0}),
            "handlers": (),
            "kinds": {},
        }
        yield BenchSchema(settings.model_copy(update=own | changes), urls)


def drop_left(connection: Connection[TupleRow]) -> list[str]:
    """Drops the schemas of benches that were killed, as ``scratch_schema.drop_left``; their names."""
    return scratch_schema_left(connection, _WORD)
