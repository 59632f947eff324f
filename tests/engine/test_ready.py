"""Queues that gave nothing at a price rest for a while: those full of jobs for other nodes' languages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.fairness import Queue, Turn
from batchproc.core.job import Claim, KindSpec
from batchproc.engine import ready
from batchproc.engine.news import Hinted
from batchproc.engine.ready import DEAR, LONGEST_REST, ReadyQueues, Scope
from batchproc.queue.node_store import NodeStore, ReadyQueue
from tests.engine.running import Bench
from tests.engine.stepped import SPECS, Step

READ, OTHER = Queue(1, 1, "ocr"), Queue(1, 1, "other")
KINDS = {"ocr": KindSpec("ocr", needs_languages=True), "other": KindSpec("other")}
FOUND = [ReadyQueue(queue, 1.0, limited=False) for queue in (READ, OTHER)]


class Queues(ReadyQueues):
    """With a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        super().__init__({0: 4, 1: 1}, KINDS, Scope(), clock=lambda: self.now)

    def tried(self, claims: Sequence[Claim] = (), seconds: float = 0.3) -> set[Queue]:
        """The queues chosen after a refresh; a claim for two jobs of each then gives these."""
        self.learn(FOUND)
        turns = [Turn(turn.queue, 2) for turn in self.choose(2, None)]
        self.claimed(turns, claims, seconds)
        return {turn.queue for turn in turns}


def test_after_a_dear_claim_of_nothing_refreshes_pass_the_queue_over() -> None:
    queues = Queues()
    assert queues.tried() == {READ, OTHER}
    assert queues.tried() == {OTHER}, "a kind that needs no languages never rests"
    queues.now += LONGEST_REST - 1
    assert queues.tried() == {OTHER}
    queues.now += 1
    assert queues.tried() == {READ, OTHER}


@pytest.mark.parametrize("wake", [lambda queues: queues.hint([READ]), lambda queues: queues.wake()])
def test_a_hint_ends_the_rest_and_so_does_the_end_of_a_run(wake: Any) -> None:
    queues = Queues()
    queues.tried()
    queues.tried()
    wake(queues)
    assert queues.tried() == {READ, OTHER}


def test_a_cheap_claim_or_one_that_gave_something_is_tried_again() -> None:
    queues = Queues()
    queues.tried(seconds=DEAR)
    got = Claim(1, uuid4(), 1, "ocr", 1, 5, 1, 5, 0, 0, 0)
    assert queues.tried([got]) == {READ, OTHER}
    assert queues.tried() == {READ, OTHER}


class SpokenToLater(NodeStore):
    """A store after whose first tick the tenant's languages are those of the node, of which nobody hints."""

    ticks = 0

    def tick(self, connection: Connection[TupleRow], *arguments: Any, **options: Any) -> Any:
        answer = super().tick(connection, *arguments, **options)
        self.ticks += 1
        if self.ticks == 1:
            connection.execute("update batchproc.tenants set settings = '{}'")
        return answer


def test_a_run_tries_what_rests_before_it_ends(bench: Bench, stepped: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "DEAR", -1.0)
    monkeypatch.setitem(SPECS, "t_quick", KindSpec("t_quick", needs_languages=True))
    tenant = bench.tenant("acme")
    bench.jobs.set_tenant(bench.connection, "acme", settings={"languages": ["fra"]})
    job = bench.enqueue(tenant, "t_quick")
    node = stepped(store_class=SpokenToLater)
    node.news.tell(Hinted(Queue(1, tenant, "t_quick")))

    node.dispatcher.run()

    assert bench.states([job]) == {"completed": 1}
