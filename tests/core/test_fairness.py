"""Whose turn it is: exact rounds, no credit, no starvation, whatever the order and size of the choices."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from batchproc.core.fairness import FairShare, Queue, Turn
from batchproc.core.job import Lane
from tests.core.sharing import WEIGHTS, bulk, one_by_one, served, share_of, urgent

FREES = st.lists(st.integers(0, 9), max_size=30)


# -- tenants


@given(st.integers(1, 12), FREES)
def test_no_tenant_is_ever_more_than_one_job_ahead(tenants: int, frees: list[int]) -> None:
    share = share_of(*(bulk(tenant) for tenant in range(tenants)))
    total: Counter[int] = Counter(dict.fromkeys(range(tenants), 0))
    for free in frees:
        total.update(served(share.choose(free)))
        assert max(total.values()) - min(total.values()) <= 1
    assert total.total() == sum(frees)


@given(st.permutations(range(7)), st.integers(1, 5))
def test_every_round_has_each_tenant_once_in_the_same_order(order: list[int], rounds: int) -> None:
    share = share_of(*(bulk(tenant) for tenant in order))
    sequence = [queue.tenant_id for queue in one_by_one(share, len(order) * rounds)]
    assert sequence == order * rounds  # the order of arrival, rotated by nothing


@given(st.permutations(range(6)), st.permutations(range(6)))
def test_the_order_of_arrival_decides_only_who_begins(one: list[int], other: list[int]) -> None:
    totals = []
    for order in (one, other):
        share = share_of(*(bulk(tenant) for tenant in order))
        totals.append(served([turn for free in (5, 1, 7, 3, 2) for turn in share.choose(free)]))
    assert totals[0] == totals[1] == Counter(dict.fromkeys(range(6), 3))


def test_a_tenant_that_comes_late_is_served_in_the_present_round_and_last() -> None:
    share = share_of(bulk(1), bulk(2), bulk(3))
    assert one_by_one(share, 1) == [bulk(1)]
    share.add(bulk(9))
    assert one_by_one(share, 7) == [bulk(2), bulk(3), bulk(9), bulk(1), bulk(2), bulk(3), bulk(9)]


def test_a_tenant_that_empties_and_comes_back_has_no_second_turn_in_the_round() -> None:
    share = share_of(bulk(1), bulk(2), bulk(3))
    for _ in range(3):
        assert one_by_one(share, 1) == [bulk(1)]
        share.remove(bulk(1))
        share.add(bulk(1))
        assert one_by_one(share, 2) == [bulk(2), bulk(3)]


@pytest.mark.parametrize("others", [1, 3])
def test_nor_when_its_place_was_passed_while_it_was_empty(others: int) -> None:
    rest = [bulk(tenant) for tenant in range(2, 2 + others)]
    share = share_of(bulk(1), *rest)
    assert one_by_one(share, 1 + others) == [bulk(1), *rest]
    share.remove(bulk(1))
    assert one_by_one(share, others) == rest  # the next round, without it
    share.add(bulk(1))
    assert one_by_one(share, others + 1) == [bulk(1), *rest]


def test_nor_when_nobody_else_was_there_meanwhile() -> None:
    share = share_of(bulk(1))
    one_by_one(share, 1)
    share.remove(bulk(1))
    assert share.choose(1) == []
    share.add(bulk(1))
    share.add(bulk(2))
    assert one_by_one(share, 2) == [bulk(2), bulk(1)]


@pytest.mark.parametrize("turns_before", [0, 1, 2, 3])
def test_an_idle_tenant_saves_up_no_credit(turns_before: int) -> None:
    share = share_of(bulk(1), bulk(2))
    one_by_one(share, turns_before)
    share.remove(bulk(1))
    one_by_one(share, 1000)
    share.add(bulk(1))
    assert served(share.choose(10)) == {1: 5, 2: 5}


def test_a_tenant_alone_takes_everything_and_pays_nothing_for_it_later() -> None:
    share = share_of(bulk(1))
    assert share.choose(500) == [Turn(bulk(1), 500)]
    share.add(bulk(2))
    assert served(share.choose(10)) == {1: 5, 2: 5}


@given(st.sampled_from([(3.0, 1.0), (1.0, 3.0), (0.3, 0.1), (300.0, 100.0)]), st.integers(1, 8))
def test_weights_three_to_one_give_shares_three_to_one(weights: tuple[float, float], free: int) -> None:
    share = FairShare(WEIGHTS)
    for tenant, weight in enumerate(weights):
        share.add(bulk(tenant), weight)
    total: Counter[int] = Counter()
    while total.total() < 4000:
        total.update(served(share.choose(free)))
    expected = weights[0] / sum(weights)
    assert total[0] / total.total() == pytest.approx(expected, abs=0.02 * expected)


def test_a_weight_that_changes_holds_from_the_next_turn_on() -> None:
    share = share_of(bulk(1), bulk(2))
    share.choose(100)
    share.add(bulk(1), 3.0)
    jobs = served(share.choose(400))
    assert jobs[1] == pytest.approx(300, abs=6)


@given(st.lists(st.tuples(st.floats(0.001, 1000), st.integers(1, 3)), min_size=1, max_size=6), FREES)
def test_whatever_the_weights_no_slot_is_left_free(tenants: list[tuple[float, int]], frees: list[int]) -> None:
    share = FairShare(WEIGHTS)
    for tenant, (weight, kinds) in enumerate(tenants):
        for kind in range(kinds):
            share.add(bulk(tenant, f"kind{kind}"), weight)
    for free in frees:
        assert sum(turn.jobs for turn in share.choose(free)) == free


# -- kinds


@given(st.integers(1, 4), st.integers(1, 3), FREES)
def test_kinds_take_turns_within_their_tenant(kinds: int, tenants: int, frees: list[int]) -> None:
    queues = [bulk(tenant, f"kind{kind}") for tenant in range(tenants) for kind in range(kinds)]
    share = share_of(*queues)
    total = Counter(dict.fromkeys(queues, 0))
    for free in frees:
        for turn in share.choose(free):
            total[turn.queue] += turn.jobs
        for _, counts in groupby(queues, key=lambda queue: queue.tenant_id):
            of_tenant = [total[queue] for queue in counts]
            assert max(of_tenant) - min(of_tenant) <= 1


def test_many_kinds_give_a_tenant_no_more() -> None:
    share = share_of(*(bulk(1, f"kind{number}") for number in range(9)), bulk(2))
    assert served(share.choose(100)) == {1: 50, 2: 50}


def test_a_kind_that_emptied_is_passed_over_and_its_tenant_is_not() -> None:
    share = share_of(bulk(1, "a"), bulk(1, "b"), bulk(2, "a"))
    share.remove(bulk(1, "a"))
    assert one_by_one(share, 4) == [bulk(1, "b"), bulk(2, "a")] * 2


# -- lanes and slots


@given(st.integers(1, 7))
def test_lanes_share_four_to_one_and_the_debt_outlives_a_choice(free: int) -> None:
    share = share_of(urgent(1), bulk(1))
    lanes: Counter[int] = Counter()
    while lanes.total() < 1000:
        for turn in share.choose(free):
            lanes[turn.queue.lane] += turn.jobs
    assert lanes[Lane.INTERACTIVE] / lanes.total() == pytest.approx(0.8, abs=0.01)


def test_no_lane_waits_longer_than_its_weight_says() -> None:
    share = share_of(urgent(1), urgent(2), bulk(1), bulk(2))
    lanes = [queue.lane for queue in one_by_one(share, 500)]
    longest = {lane: max(len(list(run)) for value, run in groupby(lanes) if value == lane) for lane in set(lanes)}
    assert longest == {Lane.INTERACTIVE: 4, Lane.BULK: 1}


def test_a_lane_without_jobs_gathers_no_debt_to_be_paid_later() -> None:
    share = share_of(urgent(1))
    one_by_one(share, 1000)
    share.add(bulk(1))
    lanes = Counter(queue.lane for queue in one_by_one(share, 20))
    assert lanes[Lane.BULK] <= 5
    share.remove(urgent(1))
    one_by_one(share, 1000)
    share.add(urgent(1))
    lanes = Counter(queue.lane for queue in one_by_one(share, 20))
    assert 15 <= lanes[Lane.INTERACTIVE] <= 18


@given(
    st.sets(st.tuples(st.sampled_from(Lane), st.integers(1, 4), st.sampled_from("ab")), max_size=10),
    st.lists(st.tuples(st.integers(-1, 9), st.none() | st.integers(-2, 9)), max_size=20),
)
def test_turns_are_distinct_within_bounds_and_leave_nothing_that_could_be_taken(
    queues: set[tuple[int, int, str]], choices: list[tuple[int, int | None]]
) -> None:
    known = {Queue(*queue) for queue in queues}
    share = share_of(*known)
    for free, bulk_room in choices:
        turns = share.choose(free, bulk_room=bulk_room)
        assert len({turn.queue for turn in turns}) == len(turns)
        assert {turn.queue for turn in turns} <= known
        assert all(turn.jobs >= 1 for turn in turns)
        taken = Counter({Lane.INTERACTIVE: 0, Lane.BULK: 0})
        for turn in turns:
            taken[Lane(turn.queue.lane)] += turn.jobs
        room = max(0, free if bulk_room is None else min(free, bulk_room))
        assert taken.total() <= max(0, free)
        assert taken[Lane.BULK] <= room
        lanes = {queue.lane for queue in known}
        if Lane.INTERACTIVE in lanes:
            assert taken.total() == max(0, free)
        elif Lane.BULK in lanes:
            assert taken[Lane.BULK] == room
    assert set(share.queues()) == known


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(1, 10), st.sampled_from([1, 3, 64]), st.none() | st.integers(1, 9))
@example(room=1, free=5, bundle=1, bulk_room=None)
@example(room=3, free=4, bundle=64, bulk_room=None)
def test_lanes_share_what_a_limit_leaves_though_most_of_their_turns_give_nothing(
    room: int, free: int, bundle: int, bulk_room: int | None
) -> None:
    """Turns that are whole cycles of the weights brought the debts back to where they were, and one lane took all."""
    share = FairShare(WEIGHTS, bundles={"work": bundle})
    for queue in (urgent(1), bulk(1), urgent(2), bulk(2)):
        share.add(queue)
    lanes: Counter[int] = Counter()
    for _ in range(300):
        left = room
        for turn in share.choose(free, bulk_room=bulk_room):
            given = min(left, turn.jobs)
            left -= given
            lanes[turn.queue.lane] += given
            share.claimed(turn, range(given))
    for lane, weight in WEIGHTS.items():
        assert lanes[lane] / lanes.total() >= 0.7 * weight / sum(WEIGHTS.values())


def test_reserved_slots_go_to_interactive_jobs_alone() -> None:
    share = share_of(urgent(1), bulk(1))
    assert share.choose(3, bulk_room=0) == [Turn(urgent(1), 3)]
    share.remove(urgent(1))
    assert share.choose(3, bulk_room=0) == []
    assert share.choose(3, bulk_room=2) == [Turn(bulk(1), 2)]


def test_a_queue_is_known_once_however_often_it_is_added_and_removed() -> None:
    share = share_of(bulk(1), bulk(1), urgent(1))
    assert sorted(share.queues()) == [urgent(1), bulk(1)]
    share.remove(bulk(1))
    share.remove(bulk(1))
    share.remove(bulk(5, "never seen"))
    assert share.queues() == [urgent(1)]


# -- tenants that come and go


class ComingAndGoing(RuleBasedStateMachine):
    """Tenant 0 always has jobs; the others come and go at random, as claims come back empty and hints arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.share = FairShare(WEIGHTS)
        self.ready: set[Queue] = set()
        self.since_mine: Counter[int] = Counter()

    @initialize()
    def begin(self) -> None:
        self.come(0, "a")

    @rule(tenant=st.integers(0, 4), kind=st.sampled_from("ab"))
    def come(self, tenant: int, kind: str) -> None:
        self.share.add(bulk(tenant, kind))
        self.ready.add(bulk(tenant, kind))

    @rule(tenant=st.integers(1, 4), kind=st.sampled_from("ab"))
    def go(self, tenant: int, kind: str) -> None:
        self.share.remove(bulk(tenant, kind))
        self.ready.discard(bulk(tenant, kind))

    @rule()
    def serve(self) -> None:
        [turn] = self.share.choose(1)
        self.share.claimed(turn, ["job"])
        assert turn.queue in self.ready
        if turn.queue.tenant_id == 0:
            self.since_mine.clear()
        else:
            self.since_mine[turn.queue.tenant_id] += 1

    @rule()
    def find_nothing(self) -> None:
        """A claim that comes back empty costs its tenant no turn, and nobody else one."""
        [turn] = self.share.choose(1)
        if turn.queue != bulk(0, "a"):
            self.share.claimed(turn, [])
            self.share.remove(turn.queue)
            self.ready.discard(turn.queue)
        else:
            self.since_mine.clear()

    @invariant()
    def waits_one_round_at_most(self) -> None:
        assert max(self.since_mine.values(), default=0) <= 1

    @invariant()
    def knows_what_is_ready(self) -> None:
        assert sorted(self.share.queues()) == sorted(self.ready)


TestComingAndGoing = ComingAndGoing.TestCase
