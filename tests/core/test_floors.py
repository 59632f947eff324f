"""From where on queues are read: nothing that waits is missed for longer than until the next look."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from batchproc.core.fairness import Queue
from batchproc.core.floors import FRONT, WORTH, Floors, Place

QUEUE, OTHER = Queue(1, 1, "work"), Queue(1, 2, "work")
PRIORITIES = st.integers(1, 9)


def floors_at(place: Place) -> Floors:
    floors = Floors(worth=1)
    floors.claimed(QUEUE, [place])
    return floors


def test_a_queue_is_read_on_from_its_last_claimed_job_once_it_gave_many() -> None:
    floors = Floors()
    floors.claimed(QUEUE, [Place(5, number) for number in range(1, WORTH)])
    assert floors.of(QUEUE) == FRONT, "at its end it would be read twice for nothing"
    floors.claimed(QUEUE, [Place(5, WORTH)])
    assert floors.of(QUEUE) == Place(5, WORTH)
    assert floors.of(OTHER) == FRONT


def test_the_last_claimed_job_is_the_last_in_the_order_of_claims() -> None:
    floors = Floors(worth=1)
    floors.claimed(QUEUE, [Place(5, 9), Place(7, 2), Place(5, 10)])
    assert floors.of(QUEUE) == Place(7, 2)


def test_a_lower_priority_number_drops_the_floor_and_an_equal_or_higher_one_does_not() -> None:
    floors = floors_at(Place(5, 7))
    for priority in (5, 6, 9):
        floors.came(QUEUE, priority)
    floors.came(OTHER, 1)
    assert floors.of(QUEUE) == Place(5, 7)
    floors.came(QUEUE, 4)
    assert floors.of(QUEUE) == FRONT


def test_what_came_back_at_a_place_that_is_not_told_drops_the_floor() -> None:
    floors = floors_at(Place(5, 7))
    floors.came(QUEUE, None)
    assert floors.of(QUEUE) == FRONT


def test_a_look_lowers_the_floor_to_what_it_found_and_never_raises_it() -> None:
    floors = floors_at(Place(5, 7))
    for front in (Place(5, 8), Place(6, 1)):
        floors.found(QUEUE, front, 0)
        assert floors.of(QUEUE) == Place(5, 7)
    floors.found(QUEUE, Place(5, 3), 0)
    assert Place(5, 2) == floors.of(QUEUE) < Place(5, 3)
    floors.found(OTHER, Place(1, 1), 0)
    assert floors.of(OTHER) == FRONT
    assert len(floors) == 1


def test_past_what_this_node_may_not_claim_a_floor_is_kept_for_a_while() -> None:
    floors = Floors()
    floors.claimed(QUEUE, [Place(5, 1_000_000)], dear_until=30.0)
    floors.found(QUEUE, Place(5, 1), 29.9)
    assert floors.of(QUEUE) == Place(5, 1_000_000)
    floors.found(QUEUE, Place(5, 1), 30.0)
    assert floors.of(QUEUE) == Place(5, 0)


def test_a_claim_that_came_short_proves_nothing_where_it_did_not_begin_at_the_front() -> None:
    floors = floors_at(Place(5, 7))
    assert floors.came_short(QUEUE)
    assert floors.of(QUEUE) == FRONT
    assert not floors.came_short(QUEUE)
    assert len(floors) == 0


def test_before_a_run_ends_no_floor_is_left() -> None:
    floors = floors_at(Place(5, 7))
    floors.clear()
    assert floors.of(QUEUE) == FRONT


class AnyOrder(RuleBasedStateMachine):
    """Jobs come, also late, are claimed and come back, here or unseen elsewhere; looks are made when they are made."""

    @initialize(worth=st.integers(1, 3))
    def begin(self, worth: int) -> None:
        self.floors = Floors(worth)
        self.waiting: set[Place] = set()
        self.uncommitted: list[Place] = []
        self.running: list[Place] = []
        self.untold: set[Place] = set()
        self.last_id = 0

    def _id(self) -> int:
        self.last_id += 1
        return self.last_id

    @rule(priority=PRIORITIES)
    def comes(self, priority: int) -> None:
        self._arrive(Place(priority, self._id()))

    @rule(priority=PRIORITIES)
    def is_begun_to_be_enqueued(self, priority: int) -> None:
        self.uncommitted.append(Place(priority, self._id()))

    @precondition(lambda self: self.uncommitted)
    @rule()
    def comes_late(self) -> None:
        self._arrive(self.uncommitted.pop(0))

    def _arrive(self, place: Place) -> None:
        self.waiting.add(place)
        self.floors.came(QUEUE, place.priority)
        if place.priority == self.floors.of(QUEUE).priority:
            self.untold.add(place)  # perhaps behind others of its own priority until the next look

    @precondition(lambda self: self.running)
    @rule(here=st.booleans(), place=st.integers(0, 9))
    def comes_back(self, here: bool, place: int) -> None:
        back = self.running.pop(place % len(self.running))
        self.waiting.add(back)
        if here:
            self.floors.came(QUEUE, None)
        else:
            self.untold.add(back)

    @rule()
    def is_looked_at(self) -> None:
        if self.waiting:
            self.floors.found(QUEUE, min(self.waiting), 0)
        self.untold.clear()

    @rule(count=st.integers(1, 5))
    def is_claimed(self, count: int) -> None:
        first, urgent = min(self.waiting, default=None), min(self.waiting - self.untold, default=None)
        got = self._claim(count)
        if len(got) < count and self.floors.came_short(QUEUE):
            more = self._claim(count - len(got))
            assert len(got) + len(more) == count or not self.waiting, "a queue is not taken for empty that is not"
            if not more:
                assert not self.floors.came_short(QUEUE), "and the next time it is"
            got += more
        elif len(got) < count:
            assert not self.waiting
        assert bool(got) == (first is not None), "where something waits, something is claimed"
        if urgent is not None:
            assert min(got) <= urgent, "what a look saw, or came in here, is not passed over"

    def _claim(self, count: int) -> list[Place]:
        floor = self.floors.of(QUEUE)
        got: Sequence[Place] = sorted(place for place in self.waiting if place > floor)[:count]
        self.waiting -= set(got)
        self.untold -= set(got)
        self.running += got
        self.floors.claimed(QUEUE, got)
        return list(got)

    @invariant()
    def urgent_jobs_that_were_told_of_are_above_the_floor(self) -> None:
        floor = self.floors.of(QUEUE)
        assert not [place for place in self.waiting - self.untold if place <= floor]


AnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase


@given(st.lists(PRIORITIES, min_size=1, max_size=40), st.integers(1, 4))
def test_alone_a_node_claims_in_the_order_of_priority_and_age(priorities: list[int], worth: int) -> None:
    """With floors as without, when each job is told of as it comes."""
    floors = Floors(worth)
    waiting: set[Place] = set()
    for number, priority in enumerate(priorities, 1):
        waiting.add(Place(priority, number))
        floors.came(QUEUE, priority)
        if number % 3 == 0:
            floor = floors.of(QUEUE)
            claimed = min(place for place in waiting if place > floor)
            assert claimed == min(waiting)
            waiting.remove(claimed)
            floors.claimed(QUEUE, [claimed])
