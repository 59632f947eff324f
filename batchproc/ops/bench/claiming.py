"""What the benches of claims share: tables full of jobs, and a node that only chooses and claims."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import uuid4

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.fairness import Queue
from batchproc.core.floors import Place
from batchproc.core.job import KindSpec
from batchproc.core.limit_room import Rooms
from batchproc.database import SqlFolder
from batchproc.engine.ready import ReadyQueues, Scope
from batchproc.ops.bench.schema import BenchSchema
from batchproc.ops.stopped import Stopped
from batchproc.queue.node_store import NodeFacts, NodeStore, ReadyQueue

KIND, LIMITED_KIND = "bench_noop", "bench_limited"
_POLL_INTERVAL = 1.0
_LANES = {0: 4.0, 1: 1.0}


class Table:
    """The jobs of one schema, and a node on them. Close it by the ``with`` of ``table``."""

    def __init__(self, schema: BenchSchema, connection: Connection[TupleRow], kinds: Sequence[KindSpec]) -> None:
        self.schema = schema
        self.connection = connection
        self.specs: Mapping[str, KindSpec] = {spec.name: spec for spec in kinds}
        self._sql = SqlFolder("batchproc.ops.bench", schema.name)
        self.tenant_ids: list[int] = []
        self.node = NodeStore(schema.name, uuid4(), self.specs)
        facts = NodeFacts(self.node.node_id, "bench", 1, 64, tuple(self.specs), (), "", "")
        self.node.join(connection, facts, lease=86400.0)

    def add_tenants(self, count: int) -> None:
        rows = self.connection.execute(self._sql["bench_many_tenants"], {"tenants": count}).fetchall()
        self.tenant_ids = [row[0] for row in rows]

    def add_jobs(
        self,
        jobs: int,
        kinds: Sequence[str] = (KIND,),
        *,
        share: float = 0.0,
        priority: int = 5,
        tenants: slice = slice(None),
    ) -> None:
        """Jobs that wait; ``share`` of them are the first tenant's, the others of ``tenants`` in turn."""
        values = {"jobs": jobs, "kinds": list(kinds), "share": share, "priority": priority}
        self.connection.execute(self._sql["bench_available_jobs"], values | {"tenant_ids": self.tenant_ids[tenants]})

    def add_finished(self, jobs: int) -> None:
        values = {"tenant_ids": self.tenant_ids, "jobs": jobs}
        self.connection.execute(self._sql["bench_finished_jobs"], values)

    def vacuum(self) -> None:
        """So that autovacuum does not begin in the middle of one side."""
        self.connection.execute(self._sql["bench_vacuum_jobs"])

    def look_up(self, queues: Sequence[Queue]) -> float:
        """Seconds in which the index gives the first job of each of these queues."""
        lanes, tenants, kinds = (list(column) for column in zip(*queues, strict=True))
        begun = time.perf_counter()
        self.connection.execute(self._sql["bench_look_ups"], {"lanes": lanes, "tenants": tenants, "kinds": kinds})
        return time.perf_counter() - begun


@contextmanager
def table(schema: BenchSchema, *kinds: KindSpec) -> Iterator[Table]:
    """An empty table with a node that knows these kinds."""
    with schema.connect() as connection:
        yield Table(schema, connection, kinds or (KindSpec(KIND),))


class Claimer:
    """Chooses and claims as a dispatcher does, and settles nothing.

    Args:
        found: the ready queues, as a look found them.
    """

    def __init__(self, filled: Table, found: Sequence[ReadyQueue], rooms: Rooms | None = None) -> None:
        self._table = filled
        self.ready = ReadyQueues(_LANES, filled.specs, Scope())
        self.ready.learn(found, rooms)
        self.claimed = 0
        self._look_at = 0.0

    def look_if_due(self) -> None:
        """Once in a poll interval of a second, as housekeeping does; the choices then take over what it found."""
        if time.monotonic() >= self._look_at:
            node, connection = self._table.node, self._table.connection
            self.ready.learn_in_pieces(node.ready(connection), node.rooms(connection))
            self._look_at = time.monotonic() + _POLL_INTERVAL

    def claim(self, slots: int, *, from_the_front: bool = False) -> float:
        """Seconds of one choice and claim, with its commit.

        Args:
            from_the_front: without the floors of the queues.

        Raises:
            Stopped: there was nothing left to claim.
        """
        begun, rooms = time.perf_counter(), Rooms()
        turns = self.ready.choose(slots, None)
        after: dict[Queue, Place] = {} if from_the_front else self.ready.floors(turns)
        limited = self.ready.limited(turns)
        claim_begun = time.perf_counter()
        _, claims = self._table.node.tick(
            self._table.connection, [], turns, limited=limited, run_id=None, after=after, rooms=rooms
        )
        self.ready.claimed(turns, claims, time.perf_counter() - claim_begun, rooms)
        took = time.perf_counter() - begun
        self.claimed += len(claims)
        if not turns:
            raise Stopped("there were too few jobs for the bench: give more --jobs")
        return took

    def claim_often(self, times: int, slots: int) -> list[float]:
        """The seconds of each."""
        return [self.claim(slots) for _ in range(times)]
