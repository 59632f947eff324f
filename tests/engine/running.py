"""A real node on a real database, for tests of whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import Claim, KindSpec, NewJob
from batchproc.core.outcome import Outcome
from batchproc.database import connect
from batchproc.engine.node import Node, RunOptions, RunReport
from batchproc.engine.ready import Scope
from batchproc.queue.inspection import Inspection
from batchproc.queue.store import JobStore
from batchproc.settings import Settings

HANDLERS = "tests.engine.job_handlers"


def settings(**sections: Any) -> Settings:
    """Settings with the tests' handlers and short waits."""
    dispatch = {"poll_interval": 0.2, "lease": 10.0, "drain_wait": 5.0} | sections.pop("dispatch", {})
    pool = {"shutdown_grace": 5.0} | sections.pop("pool", {})
    return Settings.model_validate({"handlers": [HANDLERS], "dispatch": dispatch, "pool": pool, **sections})


@dataclass
class Bench:
    """One test's database, with short ways to fill it, run it and look at it."""

    url: str
    connection: Connection[TupleRow]
    jobs: JobStore = field(default_factory=lambda: JobStore("batchproc"))
    outcomes: list[tuple[Claim, Outcome]] = field(default_factory=list)

    def tenant(self, slug: str) -> int:
        return self.jobs.add_tenant(self.connection, slug).tenant_id

    def enqueue(self, tenant_id: int, kind: str, args: dict[str, Any] | None = None, **fields: Any) -> int:
        spec = KindSpec(kind, max_attempts=fields.pop("max_attempts", 5))
        job = NewJob(tenant_id, kind, args or {}, **fields)
        return self.jobs.enqueue(self.connection, job, spec).job_id

    def run(self, options: RunOptions | None = None, **sections: Any) -> RunReport:
        node = Node(settings(**sections), self.url, self.url, lambda claim, outcome, _: self._note(claim, outcome))
        return node.run(options or RunOptions(workers=2))

    def job(self, job_id: int) -> dict[str, Any]:
        return Inspection("batchproc").job(self.connection, job_id)

    def states(self, job_ids: Sequence[int]) -> dict[str, int]:
        counted: dict[str, int] = {}
        for job_id in job_ids:
            state = self.job(job_id)["state"]
            counted[state] = counted.get(state, 0) + 1
        return counted

    def rows(self, statement: str, *values: Any) -> list[TupleRow]:
        return self.connection.execute(statement.encode(), values).fetchall()

    def _note(self, claim: Claim, outcome: Outcome) -> None:
        self.outcomes.append((claim, outcome))


def bench_on(url: str) -> Bench:
    return Bench(url, connect(url))


def only(*tenant_ids: int) -> Scope:
    return Scope(tenant_ids=frozenset(tenant_ids))


def alive(pid: int) -> bool:
    """Whether that process runs; a dead one that its parent has not buried yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
