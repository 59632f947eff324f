"""Queues that gave nothing at a price rest for a while: those full of jobs for other nodes' languages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.fairness import Queue, Turn
from batchproc.core.floors import FRONT, Place
from batchproc.core.job import Claim, KindSpec
from batchproc.engine import ready
from batchproc.engine.news import Hinted
from batchproc.engine.ready import DEAR, LONGEST_REST, PIECE, ReadyQueues, Scope
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


def test_past_jobs_for_other_nodes_a_claim_that_was_dear_goes_on_from_where_it_was() -> None:
    """Not past them all again with each claim, nor after each look, which finds them at the front."""
    queues = Queues()
    far, front = Claim(9_000_000, uuid4(), 1, "ocr", 1, 5, 1, 5, 0, 0, 0), Place(5, 1)
    found = [ReadyQueue(READ, 1.0, False, front)]
    queues.learn(found)
    turns = queues.choose(1, None)
    queues.claimed(turns, [far], seconds=0.3)
    for moved, expected in ((0.0, Place(5, 9_000_000)), (LONGEST_REST - 1, Place(5, 9_000_000)), (1.0, Place(5, 0))):
        queues.now += moved
        queues.learn(found)
        assert queues.floors(turns) == {READ: expected}
    queues.claimed(turns, [far], seconds=0.3)
    queues.hint([READ], priority=4)
    assert queues.floors(turns) == {READ: FRONT}, "what comes ahead of them is heard of"


def test_of_very_many_queues_some_are_taken_over_with_each_choice() -> None:
    queues = Queues()
    found = [ReadyQueue(Queue(1, tenant, "other"), 1.0, False) for tenant in range(1, 2 * PIECE + 2)]
    chosen: set[Queue] = set()
    queues.learn_in_pieces(found)
    for _ in range(3):
        turns = queues.choose(PIECE, None)
        chosen |= {turn.queue for turn in turns}
        queues.claimed(turns, [], seconds=0.0)
    assert len(chosen) == 2 * PIECE + 1
    queues.learn_in_pieces(found)
    queues.learn_in_pieces(found[:1])
    assert len(queues.choose(4 * PIECE, None)) == 2 * PIECE + 1, "an older look is taken over before the next"


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
