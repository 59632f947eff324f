"""A node stepped by hand: a pool that does what the test says, everything else real."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any, cast
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import EnvironmentFault
from batchproc.core.job import KindSpec
from batchproc.core.outcome import Cancelled, Completed, Interrupted, Outcome
from batchproc.database import connect
from batchproc.engine.braking import Braking
from batchproc.engine.dispatch_options import DispatchOptions
from batchproc.engine.dispatcher import Dispatcher
from batchproc.engine.news import NewsBox
from batchproc.engine.pool.worker_pool import Ended, NoFreeSlot, Work, WorkerPool
from batchproc.engine.settling import Settling
from batchproc.queue.kind_store import KindStore
from batchproc.queue.node_store import NodeFacts, NodeStore
from tests.engine.running import Bench

SPECS = {
    "t_quick": KindSpec("t_quick", base=0.3, cap=0.3),
    "t_patient": KindSpec("t_patient", base=500, cap=500),
}


class SteppedPool:
    """Ends every job at once, or after as many looks as the test says, with the outcome that the test chose for it."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._ended: list[Ended] = []
        self.outcomes: dict[int, Outcome] = {}
        self.refusals = 0
        self.may_interrupt = False
        self.submitted: list[int] = []
        self.lasting: dict[int, int] = {}
        self.beside: dict[int, set[int]] = {}
        self.killed: dict[int, int] = {}
        """Jobs whose worker is killed when they end, and the backend that it leaves."""
        self._running: dict[int, Work] = {}

    def free(self) -> int:
        return self._slots - len(self._ended) - len(self._running)

    def room_ahead(self, most: int = 1) -> int:
        return 0

    def submit(self, *works: Work, expected: float = math.inf, ahead: bool = False) -> int:
        [work] = works
        assert self.free() > 0, "no more claims than free slots"
        if self.refusals:
            self.refusals -= 1
            raise NoFreeSlot("its worker died")
        self.submitted.append(work.job_id)
        self.beside[work.job_id] = set(self._running) | {end.work.job_id for end in self._ended}
        for other in self.beside[work.job_id]:
            self.beside[other].add(work.job_id)
        self._running[work.job_id] = work
        if not self.lasting.get(work.job_id):
            self._end(work.job_id)
        os.eventfd_write(self._wakeup, 1)
        return 0

    def poll(self) -> list[Ended]:
        ended, self._ended = self._ended, []
        for job_id in list(self._running):
            self.lasting[job_id] -= 1
            if not self.lasting[job_id]:
                self._end(job_id)
            os.eventfd_write(self._wakeup, 1)
        return ended

    def cancel(self, claim_id: UUID) -> bool:
        for job_id, work in self._running.items():
            if work.claim_id == claim_id:
                self.outcomes[job_id] = Cancelled()
                self._end(job_id)
                return True
        return False

    def _end(self, job_id: int) -> None:
        outcome = self.outcomes.get(job_id, Completed())
        backend = self.killed.pop(job_id, None)
        work = self._running.pop(job_id)
        self._ended.append(Ended(0, work, outcome, None, backend, 0.01, killed=backend is not None))

    def wakeup_fileno(self) -> int:
        return self._wakeup

    def running(self) -> list[Any]:
        return []

    def bundles(self) -> list[list[UUID]]:
        return [[work.claim_id] for work in self._running.values()]

    def fault(self) -> None:
        return None

    def interrupt(self, reason: str) -> None:
        assert self.may_interrupt, f"nothing runs: {reason}"
        for job_id, work in list(self._running.items()):
            del self._running[job_id]
            self._ended.append(Ended(0, work, Interrupted(reason), None, None, 0.01, killed=True))

    def drain(self) -> None:
        pass

    def close(self) -> None:
        os.close(self._wakeup)


class Stepped:
    """A joined node with a stepped pool, whose first connections are refused so many times."""

    def __init__(
        self,
        bench: Bench,
        slots: int,
        store_class: type[NodeStore],
        outage_limit: float,
        brake: int | None,
        refusals: int,
    ) -> None:
        self.pool = SteppedPool(slots)
        self.connect: Callable[[], Connection[TupleRow]] = self._connect
        self._url, self._refusals = bench.url, refusals
        self.store = store_class("batchproc", uuid4(), SPECS)
        facts = NodeFacts(self.store.node_id, "test", 1, slots, tuple(SPECS), (), "", "")
        self.store.join(bench.connection, facts, 60)
        run_id = self.store.runs.start(bench.connection, self.store.node_id, {})
        self.news = NewsBox()
        self.braking = Braking(KindStore("batchproc"), brake)
        settling = Settling(self.store, SPECS, 10, lambda *_: None, settled=self.braking.note)
        options = DispatchOptions(
            workers=slots, lane_weights={0: 4, 1: 1}, poll_interval=0.05, outage_limit=outage_limit
        )
        self.dispatcher = Dispatcher(
            self.store,
            lambda: self.connect(),
            cast(WorkerPool, self.pool),
            self.news,
            settling,
            SPECS,
            options,
            run_id,
            self.braking,
        )

    def _connect(self) -> Connection[TupleRow]:
        if self._refusals:
            self._refusals -= 1
            raise EnvironmentFault("cannot connect")
        return connect(self._url, application_name="stepped node")

    def close(self) -> None:
        self.dispatcher.close()
        self.news.close()
        self.pool.close()


class LostAnswer(NodeStore):
    """A store whose third tick is committed, but the connection dies before the answer comes."""

    ticks = 0

    def tick(self, connection: Connection[TupleRow], *arguments: Any, **options: Any) -> Any:
        self.ticks += 1
        answer = super().tick(connection, *arguments, **options)
        if self.ticks == 3:
            connection.close()
            raise psycopg.OperationalError("the connection was lost")
        return answer


Step = Callable[..., Stepped]


@pytest.fixture
def stepped(bench: Bench) -> Iterator[Step]:
    made: list[Stepped] = []

    def make(
        slots: int = 2,
        store_class: type[NodeStore] = NodeStore,
        outage_limit: float = 10,
        brake: int | None = None,
        refusals: int = 0,
    ) -> Stepped:
        made.append(Stepped(bench, slots, store_class, outage_limit, brake, refusals))
        return made[-1]

    yield make
    for one in made:
        one.close()
