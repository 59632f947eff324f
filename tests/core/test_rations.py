"""Kinds and tenants at their limit: their queues are parked, none is forgotten, and no room stays unused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchproc.core.fairness import Queue
from batchproc.core.limit_room import Room, Rooms
from batchproc.core.rations import Changes, Rations

A, B, C = (Queue(1, tenant, "ocr") for tenant in (1, 2, 3))
OTHER = Queue(1, 1, "other")


class Choice:
    """The queues that may be chosen, kept as the rations say."""

    def __init__(self, *queues: Queue) -> None:
        self.rations = Rations()
        self.chosen: dict[Queue, None] = {}
        self.add(*queues)

    def add(self, *queues: Queue) -> None:
        for queue in queues:
            if self.rations.admits(queue):
                self.chosen[queue] = None

    def heed(self, changes: Changes) -> None:
        for queue in changes.parked:
            del self.chosen[queue]
        for queue in changes.chosen:
            assert queue not in self.chosen, "let out twice"
            self.chosen[queue] = None

    def told(self, rooms: Rooms, *served: Queue, now: float = 0.0) -> None:
        self.heed(self.rations.told(rooms, now, served, lambda: list(self.chosen)))

    def emptied(self, queue: Queue) -> None:
        del self.chosen[queue]
        self.heed(self.rations.emptied(queue))

    @property
    def queues(self) -> set[Queue]:
        return set(self.chosen)


def kinds(room: int, seconds: float | None = None) -> Rooms:
    return Rooms(kinds={"ocr": Room(room, seconds)})


def test_a_kind_that_still_has_room_is_left_alone() -> None:
    choice = Choice(A, B, C, OTHER)
    choice.told(kinds(1))
    assert choice.queues == {A, B, C, OTHER}


def test_a_kind_without_room_is_out_of_the_choice_and_whatever_comes_of_it_too() -> None:
    choice = Choice(A, B, OTHER)
    choice.told(kinds(0))
    choice.add(A, C)
    assert choice.queues == {OTHER}


def test_each_end_lets_one_out_those_first_that_were_not_served() -> None:
    choice = Choice(A, B, C)
    choice.told(kinds(0), A)
    order = []
    for _ in range(4):
        choice.heed(choice.rations.freed(A))
        [queue] = choice.queues
        order.append(queue)
        choice.told(kinds(0), queue)
    assert order == [B, C, A, B]


def test_an_emptied_queue_makes_place_for_the_next() -> None:
    choice = Choice(A, B, C)
    choice.told(kinds(0))
    choice.heed(choice.rations.freed(A))
    choice.emptied(A)
    assert choice.queues == {B}


def test_a_limit_of_a_tenant_parks_its_queues_of_all_kinds() -> None:
    choice = Choice(A, OTHER, B)
    choice.told(Rooms(tenants={1: Room(0)}))
    assert choice.queues == {B}
    choice.heed(choice.rations.freed(OTHER))
    assert len(choice.queues) == 2


def test_what_two_limits_hold_back_is_let_out_when_both_have_room() -> None:
    choice = Choice(A, B)
    choice.told(Rooms({"ocr": Room(0)}, {1: Room(0)}))
    choice.heed(choice.rations.seen(Rooms({"ocr": Room(2)}, {1: Room(0)})))
    assert choice.queues == {B}, "the place that A may not take is another's"
    choice.heed(choice.rations.seen(Rooms({"ocr": Room(2)}, {1: Room(1)})))
    assert choice.queues == {A, B}


def test_each_lane_has_its_places() -> None:
    urgent = Queue(0, 3, "ocr")
    choice = Choice(A, B, urgent)
    choice.told(kinds(0))
    choice.heed(choice.rations.freed(A))
    assert choice.queues == {A, urgent}, "which of them is next, the weights of the lanes decide"


def test_a_look_lets_out_and_holds_nothing_back() -> None:
    """It is older than what this node did meanwhile."""
    choice = Choice(A, B, C)
    choice.told(kinds(0))
    choice.heed(choice.rations.seen(kinds(2)))
    assert len(choice.queues) == 2
    choice.heed(choice.rations.seen(kinds(0)))
    assert len(choice.queues) == 2


def test_a_limit_that_is_taken_back_holds_nothing_back() -> None:
    choice = Choice(A, B, C)
    choice.told(kinds(0))
    choice.heed(choice.rations.seen(Rooms()))
    assert choice.queues == {A, B, C}


def test_without_a_token_a_kind_waits_for_its_time_and_an_end_does_not_help() -> None:
    choice = Choice(A, B)
    choice.told(kinds(0, seconds=2.0), now=100.0)
    choice.heed(choice.rations.freed(A))
    choice.heed(choice.rations.due(101.9))
    assert choice.queues == set()
    assert choice.rations.opens_at() == 102.0
    choice.heed(choice.rations.due(102.0))
    assert choice.queues == {A}
    assert choice.rations.opens_at() is None


def test_nothing_waits_for_a_token_where_nothing_is_parked() -> None:
    choice = Choice(A)
    choice.told(kinds(0, seconds=2.0), A)
    choice.heed(choice.rations.due(5.0))
    choice.emptied(A)
    choice.told(kinds(0, seconds=2.0))
    assert choice.rations.opens_at() is None


def test_at_the_end_everything_parked_is_given_back() -> None:
    choice = Choice(A, B, C, OTHER)
    choice.told(Rooms({"ocr": Room(0)}, {1: Room(0)}))
    assert set(choice.rations.end()) | choice.queues == {A, B, C, OTHER}
    choice.add(A, B)
    assert choice.queues >= {A, B}


def test_a_queue_that_cost_more_waits_longer_and_what_it_really_cost_counts() -> None:
    choice = Choice(A, B)
    choice.rations = Rations(by_seconds=True)
    choice.told(kinds(0))
    order = []
    for number in range(8):
        choice.heed(choice.rations.freed(A))
        [queue] = choice.queues
        order.append(queue)
        choice.rations.charge(queue, 1, [number])
        choice.told(kinds(0), queue)
        choice.rations.ended(number, 3 if queue == A else 1)
    assert order == [A, B, B, B, A, B, B, B]


def test_a_queue_that_had_no_jobs_meanwhile_has_no_credit_nor_a_second_turn() -> None:
    choice = Choice(A, B, C)
    choice.told(kinds(0))
    order: list[Queue] = []

    def serve(times: int) -> list[Queue]:
        for _ in range(times):
            choice.heed(choice.rations.freed(A))
            [queue] = choice.queues
            order.append(queue)
            choice.rations.charge(queue, 1, ["job"])
            choice.told(kinds(0), queue)
        return order[-times:]

    assert serve(1) == [A]
    choice.heed(choice.rations.emptied(A))
    choice.add(A)
    assert serve(3) == [B, C, A]
    choice.heed(choice.rations.emptied(A))
    serve(20)
    choice.add(A)
    assert Counter(serve(9)) == {A: 3, B: 3, C: 3}


class World:
    """A database with limits, and a node that claims one job of each chosen queue at a time."""

    def __init__(self, jobs: dict[Queue, int], kind_limits: dict[str, int], tenant_limits: dict[int, int]) -> None:
        self.jobs = Counter(jobs)
        self.kind_limits, self.tenant_limits = kind_limits, tenant_limits
        self.running: list[Queue] = []
        self.choice = Choice(*jobs)
        self.wasted = 0

    def room(self, queue: Queue) -> int:
        return min((room.jobs for rooms in self.rooms([queue]) for room in rooms.values()), default=99)

    def rooms(self, queues: Iterable[Queue]) -> tuple[dict[str, Room], dict[int, Room]]:
        of_kinds, of_tenants = Counter(q.kind for q in self.running), Counter(q.tenant_id for q in self.running)
        asked = list(queues)
        return (
            {q.kind: Room(self.kind_limits[q.kind] - of_kinds[q.kind]) for q in asked if q.kind in self.kind_limits},
            {
                q.tenant_id: Room(self.tenant_limits[q.tenant_id] - of_tenants[q.tenant_id])
                for q in asked
                if q.tenant_id in self.tenant_limits
            },
        )

    def tick(self, slots: int) -> None:
        turns = list(self.choice.chosen)[: max(0, slots - len(self.running))]
        served = []
        for queue in turns:
            if self.jobs[queue] and self.room(queue) > 0:
                self.jobs[queue] -= 1
                self.running.append(queue)
                served.append(queue)
        rooms = Rooms(*self.rooms(turns))
        for queue in turns:
            if queue not in served and not rooms.lacks(queue):
                self.choice.emptied(queue)
            self.wasted += queue not in served and rooms.lacks(queue)
        self.choice.told(rooms, *served)

    def end(self, number: int) -> None:
        queue = self.running.pop(number % len(self.running))
        self.choice.heed(self.choice.rations.freed(queue))


LIMITS = st.integers(1, 3)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.builds(Queue, st.sampled_from([0, 1]), st.integers(1, 5), st.sampled_from(["ocr", "other", "third"])),
        st.integers(1, 4),
        min_size=1,
        max_size=20,
    ),
    st.dictionaries(st.sampled_from(["ocr", "other"]), LIMITS),
    st.dictionaries(st.integers(1, 4), LIMITS),
    st.integers(0, 2**32),
)
def test_whatever_the_limits_every_job_is_run_and_no_room_stays_unused(
    jobs: dict[Queue, int], kind_limits: dict[str, int], tenant_limits: dict[int, int], seed: int
) -> None:
    world, chance = World(jobs, kind_limits, tenant_limits), random.Random(seed)
    for _ in range(4 * sum(jobs.values()) + 4 * len(jobs)):
        before: object = None
        while before != (before := (len(world.running), world.choice.queues)):
            world.tick(slots=1000)
        unused = [queue for queue in jobs if world.jobs[queue] and world.room(queue) > 0]
        assert not [queue for queue in unused if queue not in world.choice.chosen], "room, jobs, and nobody looks"
        if not world.running:
            break
        for _ in range(chance.randint(1, len(world.running))):
            world.end(chance.randrange(1000))
    assert not +world.jobs


@pytest.mark.parametrize("limit", [1, 3])
def test_ten_thousand_queues_of_a_kind_at_its_limit_are_tried_in_vain_once(limit: int) -> None:
    queues = {Queue(1, tenant, "ocr"): 2 for tenant in range(1, 2001)}
    world = World(queues, {"ocr": limit}, {})
    for _ in range(500):
        world.tick(slots=64)
        if world.running:
            world.end(0)
    assert world.wasted <= 64, "those of the first claim"
    assert sum(queues.values()) - sum(world.jobs.values()) >= 495
