"""What the database does for a node, measured as seconds of its server's cores: the costs that a simulation goes by."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from uuid import uuid4

import psutil
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import EnvironmentFault
from batchproc.core.fairness import Queue, Turn
from batchproc.core.job import Claim, KindSpec, Lane, NewJob
from batchproc.core.outcome import Completed
from batchproc.core.settle import settle
from batchproc.database import SqlFolder
from batchproc.ops.bench.queue import KIND
from batchproc.ops.bench.schema import BenchSchema
from batchproc.ops.bench.simulation import Costs
from batchproc.queue import hints
from batchproc.queue.listener import Listener
from batchproc.queue.node_store import Ended, NodeFacts, NodeStore
from batchproc.queue.store import JobStore

_SPEC = KindSpec(KIND)
_LISTENERS = 16
_BATCH = 64
_PATIENCE = 5.0
_LEAST_SPENT = 0.1
"""Seconds of a core, that a cost is told by: the system counts them in hundredths."""


def measure_costs(schema: BenchSchema, *, queues: int, seconds: float) -> Costs:
    """Measures each cost for about so many seconds, with as many ready queues.

    Of a server on this machine it is the CPU time of its backends; of another one, which does not show that, the time
    until it answers. Not in it: what the server does by itself (write-ahead log writer, checkpoints, vacuum).

    Raises:
        EnvironmentFault: the machine was so busy that the costs could not be told.
    """
    with schema.connect() as connection:
        return _Measuring(schema, connection, queues, seconds).costs()


class _Measuring:
    def __init__(self, schema: BenchSchema, connection: Connection[TupleRow], queues: int, seconds: float) -> None:
        self._schema, self._connection, self._seconds = schema, connection, seconds
        self._sql = SqlFolder("batchproc.ops.bench", schema.name)
        self._jobs = JobStore(schema.name)
        self._node = NodeStore(schema.name, uuid4(), {KIND: _SPEC})
        facts = NodeFacts(self._node.node_id, "bench", 1, _BATCH, (KIND,), (), "", "")
        self._node.join(connection, facts, lease=86400.0)
        rows = connection.execute(self._sql["bench_many_tenants"], {"tenants": max(queues, _BATCH)}).fetchall()
        self._tenant_ids = [row[0] for row in rows]
        self._enqueue(1)
        connection.execute(self._sql["analyze_jobs"])

    def costs(self) -> Costs:
        one, one_took = self._tick(1)
        many, _ = self._tick(_BATCH)
        each = (many - one) / (_BATCH - 1)
        if each <= 0:
            raise EnvironmentFault(
                f"the cost of a claim could not be told: {_BATCH} took no more of the server than one",
                "try again while the machine is quiet, with more --seconds",
            )
        return Costs(
            tick=max(0.0, one - each),
            settle_and_claim=each,
            refresh_queue=self._refresh(),
            notify_listener=self._notify(),
            lease=self._spent(lambda: self._node.renew(self._connection, 86400.0)),
            promote=self._promote(),
            latency=max(0.0, one_took - one),
        )

    def _enqueue(self, each: int) -> None:
        jobs = (NewJob(tenant_id, KIND) for tenant_id in self._tenant_ids for _ in range(each))
        self._jobs.enqueue_many(self._connection, jobs)

    def _tick(self, batch: int) -> tuple[float, float]:
        """Core seconds of a tick that settles and claims so many jobs, each of another tenant; and how long it took."""
        claims: list[Claim] = []
        place, took = 0, 0.0

        def tick() -> None:
            nonlocal claims, place, took
            tenant_ids = [self._tenant_ids[(place + n) % len(self._tenant_ids)] for n in range(batch)]
            place += batch
            turns = [Turn(Queue(Lane.BULK, tenant_id, KIND), 1) for tenant_id in tenant_ids]
            endings = [
                Ended(settle(claim, Completed(), _SPEC, max_node_losses=3, jitter=0.0), worker_pid=1, seconds=0.001)
                for claim in claims
            ]
            begun = time.perf_counter()
            _, claims = self._node.tick(self._connection, endings, turns, limited=False, run_id=None)
            took += time.perf_counter() - begun

        spent, times, until = 0.0, 0, time.monotonic() + 2 * self._seconds
        give_up = until + _PATIENCE
        while time.monotonic() < (until if spent >= _LEAST_SPENT else give_up):
            self._enqueue(1)
            rounds = max(1, len(self._tenant_ids) // batch)
            with _spending([self._connection]) as meter:
                for _ in range(rounds):
                    tick()
            spent, times = spent + meter.seconds, times + rounds
        return spent / times, took / times

    def _refresh(self) -> float:
        self._enqueue(1)
        return self._spent(lambda: self._node.ready(self._connection)) / len(self._tenant_ids)

    def _notify(self) -> float:
        values = [hints.channel(self._schema.name), hints.REFRESH]
        notify = SqlFolder("batchproc.queue", self._schema.name)["notify"]
        with contextlib.ExitStack() as stack:
            sessions = [stack.enter_context(self._schema.connect()) for _ in range(_LISTENERS)]
            alone = self._spent(lambda: self._connection.execute(notify, values))
            listeners = [Listener(session, self._schema.name) for session in sessions]

            def heard() -> None:
                self._connection.execute(notify, values)
                for listener in listeners:
                    listener.wait(_PATIENCE)

            with _spending([self._connection, *sessions]) as meter:
                times = self._repeat(heard)
            return max(0.0, meter.seconds / times - alone) / _LISTENERS

    def _promote(self) -> float:
        spent, promoted, until = 0.0, 0, time.monotonic() + self._seconds
        while promoted == 0 or time.monotonic() < until:
            values = {"tenant_ids": self._tenant_ids, "jobs": 2000}
            self._connection.execute(self._sql["bench_due_jobs"], values)
            with _spending([self._connection]) as meter:
                while self._node.promote(self._connection):
                    pass
            spent, promoted = spent + meter.seconds, promoted + 2000
        return spent / promoted

    def _spent(self, action: Callable[[], object]) -> float:
        with _spending([self._connection]) as meter:
            times = self._repeat(action)
        return meter.seconds / times

    def _repeat(self, action: Callable[[], object]) -> int:
        times, until = 0, time.monotonic() + self._seconds
        while times == 0 or time.monotonic() < until:
            action()
            times += 1
        return times


class _Meter:
    """Seconds, once what they were spent on is over."""

    seconds = 0.0


@contextlib.contextmanager
def _spending(connections: Sequence[Connection[TupleRow]]) -> Iterator[_Meter]:
    """Measures what the backends of these connections spend within."""
    meter = _Meter()
    backends = [_backend(connection) for connection in connections]
    before, begun = [_cpu_seconds(backend) for backend in backends], time.perf_counter()
    yield meter
    elapsed = time.perf_counter() - begun
    after = [_cpu_seconds(backend) for backend in backends]
    pairs = [(new, old) for new, old in zip(after, before, strict=True) if new is not None and old is not None]
    meter.seconds = sum(new - old for new, old in pairs) if len(pairs) == len(backends) else elapsed


def _backend(connection: Connection[TupleRow]) -> psutil.Process | None:
    """The server's process, if it is one of this machine: reached by a socket or at this host, and called postgres."""
    host = connection.info.host
    if not (host.startswith("/") or host in ("", "localhost", "127.0.0.1", "::1")):
        return None
    try:
        process = psutil.Process(connection.info.backend_pid)
        return process if "postgres" in process.name() else None
    except psutil.Error:
        return None


def _cpu_seconds(process: psutil.Process | None) -> float | None:
    if process is None:
        return None
    try:
        times = process.cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)
