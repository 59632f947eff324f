"""Queues that gave nothing at a price rest for a while: those full of jobs for other nodes' languages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.fairness import Queue, Turn
from batchproc.core.floors import FRONT, Place
from batchproc.core.job import Claim, KindSpec
from batchproc.core.limit_room import Room, Rooms
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


class Limited:
    """A node without a database: ``ocr`` has a limit, ``other`` has none; every queue always has jobs.

    Args:
        weights: of the tenants that have jobs of kind ``ocr``, in the bulk lane if not said otherwise.
        others: tenants that have jobs of the other kind.
        seconds: that a job of a tenant's takes.
    """

    def __init__(
        self,
        limit: int,
        weights: Mapping[int, float],
        *,
        lanes: Sequence[int] = (1,),
        others: Sequence[int] = (),
        seconds: Mapping[int, float] | None = None,
    ) -> None:
        self.queues = ReadyQueues({0: 4, 1: 1}, KINDS, Scope(), by_seconds=seconds is not None)
        self.limit, self.seconds = limit, seconds or {}
        self.numbers = count(1)
        self.running: list[Claim] = []
        self.got: Counter[Queue] = Counter()
        found = [
            ReadyQueue(Queue(lane, tenant, "ocr"), weight, True) for tenant, weight in weights.items() for lane in lanes
        ]
        found += [ReadyQueue(Queue(1, tenant, "other"), weights.get(tenant, 1.0), False) for tenant in others]
        self.queues.learn(found, self.rooms())

    def rooms(self) -> Rooms:
        return Rooms(kinds={"ocr": Room(self.limit - sum(claim.kind == "ocr" for claim in self.running))})

    def tick(self, free: int, *, without: Set[str] = frozenset()) -> list[Turn]:
        turns, claims = self.queues.choose(free, None, without=without), []
        for queue, jobs in turns:
            for _ in range(min(jobs, self.rooms().kinds["ocr"].jobs) if queue.kind == "ocr" else jobs):
                claim = Claim(next(self.numbers), uuid4(), queue.tenant_id, queue.kind, queue.lane, 5, 1, 5, 0, 0, 0)
                claims.append(claim)
                self.running.append(claim)
                self.got[queue] += 1
        asked = any(turn.queue.kind == "ocr" for turn in turns)
        self.queues.claimed(turns, claims, 0.001, self.rooms() if asked else Rooms())
        return turns

    def end(self, kind: str, number: int = 1) -> None:
        """The first of that kind."""
        for claim in [claim for claim in self.running if claim.kind == kind][:number]:
            self.running.remove(claim)
            self.queues.ended(claim, self.seconds.get(claim.tenant_id, 1.0))
            self.queues.freed([Queue(claim.lane, claim.tenant_id, claim.kind)])

    def jobs(self, tenant: int, kind: str = "ocr") -> int:
        return sum(jobs for queue, jobs in self.got.items() if (queue.tenant_id, queue.kind) == (tenant, kind))


def _run(node: Limited, ticks: int, free: int) -> Limited:
    """Of the kind with a limit a job ends now and then, of the other one they all do."""
    for _ in range(ticks):
        node.tick(free)
        node.end("other", 1000)
        node.end("ocr")
    return node


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(1, 8), st.sampled_from([(), (3,), (3, 4), (1, 2), (1, 2, 3)]))
@example(limit=1, free=2, others=())
@example(limit=1, free=8, others=(1,))
@example(limit=1, free=8, others=(2,))
def test_tenants_share_by_their_weights_what_a_limit_leaves(limit: int, free: int, others: tuple[int, ...]) -> None:
    """Whatever else they, and others, have running without a limit."""
    node = _run(Limited(limit, {1: 4.0, 2: 1.0}, others=others), 500, free)
    assert node.jobs(1) / (node.jobs(1) + node.jobs(2)) == pytest.approx(0.8, abs=0.04)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 8), st.sampled_from([(), (3,), (1, 3)]))
def test_and_by_their_seconds(free: int, others: tuple[int, ...]) -> None:
    seconds = {1: 300.0, 2: 1.0, 3: 1.0}
    node = _run(Limited(1, {1: 1.0, 2: 1.0}, others=others, seconds=seconds), 4000, free)
    spent = {tenant: node.jobs(tenant) * seconds[tenant] for tenant in (1, 2)}
    assert abs(spent[1] - spent[2]) <= 700, "one job of the long ones, and the one before its length was known"


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(1, 10))
def test_lanes_share_what_a_limit_leaves(limit: int, free: int) -> None:
    node = _run(Limited(limit, dict.fromkeys(range(1, 6), 1.0), lanes=(0, 1)), 400, free)
    lanes: Counter[int] = Counter()
    for queue, jobs in node.got.items():
        lanes[queue.lane] += jobs
    assert lanes[1] / lanes.total() == pytest.approx(0.2, abs=0.06)
    of_urgent = [node.got[Queue(0, tenant, "ocr")] for tenant in range(1, 6)]
    assert max(of_urgent) - min(of_urgent) <= 3


def test_what_a_limit_kept_from_a_tenant_is_no_credit_against_others() -> None:
    node = _run(Limited(1, {1: 1.0, 2: 1.0}, others=[3]), 200, free=8)
    before = node.jobs(3, "other")
    node.queues.hint([Queue(1, 1, "other")])
    _run(node, 50, free=8)
    assert node.jobs(1, "other") == pytest.approx(node.jobs(3, "other") - before, rel=0.2)


def test_ten_thousand_parked_queues_each_have_their_turn() -> None:
    node = _run(Limited(1, dict.fromkeys(range(10_000), 1.0)), 10_000, free=2)
    assert set(node.got.values()) == {1}


@pytest.mark.parametrize("tenants", [3, 3000])
def test_of_a_braked_kind_none_is_let_out_and_later_they_are_found_again(tenants: int) -> None:
    node = Limited(1, dict.fromkeys(range(tenants), 1.0))
    node.tick(1)
    assert node.tick(1, without={"ocr"}) == []
    node.end("ocr")
    assert node.tick(1, without={"ocr"}) == []
    assert node.queues.seconds_to_token() is None
    assert node.tick(1) == []
    node.queues.learn([ReadyQueue(Queue(1, tenant, "ocr"), 1.0, True) for tenant in range(tenants)], node.rooms())
    assert len(node.tick(1)) == 1


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
