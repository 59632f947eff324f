"""Tenants that share worker seconds: however long their jobs are, and however wrong the guesses at the claim."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchproc.core.fairness import FairShare, Queue
from batchproc.core.job import Lane
from batchproc.core.prices import FIRST_GUESS, LEAST_SECONDS
from tests.core.share_simulation import Simulation, jain

LANES: dict[int, float] = {Lane.INTERACTIVE: 4, Lane.BULK: 1}
LONGEST = 300.0


def bulk(tenant_id: int, kind: str = "work") -> Queue:
    return Queue(Lane.BULK, tenant_id, kind)


def share_of(*tenants: int) -> FairShare:
    share = FairShare(LANES, by_seconds=True)
    for tenant in tenants:
        share.add(bulk(tenant))
    return share


def one_by_one(share: FairShare, seconds: dict[int, float], count: int) -> list[int]:
    """The tenants served, when every job ends before the next is chosen."""
    sequence = []
    for number in range(count):
        [turn] = share.choose(1)
        share.claimed(turn, [number])
        share.ended(turn.queue, number, seconds[turn.queue.tenant_id])
        sequence.append(turn.queue.tenant_id)
    return sequence


def test_who_has_jobs_three_times_as_long_gets_a_third_of_them() -> None:
    counts = Counter(one_by_one(share_of(1, 2), {1: 9.0, 2: 3.0}, 400))
    assert counts[1] == pytest.approx(100, abs=1)


def test_a_weight_is_a_multiple_of_the_time() -> None:
    share = FairShare(LANES, by_seconds=True)
    share.add(bulk(1), 1.0)
    share.add(bulk(2), 4.0)
    counts = Counter(one_by_one(share, {1: 2.0, 2: 2.0}, 500))
    assert counts[2] == pytest.approx(400, abs=4)


def test_many_claims_at_once_are_charged_what_such_jobs_took() -> None:
    share = share_of(1, 2)
    one_by_one(share, {1: 10.0, 2: 1.0}, 550)
    counts = Counter({turn.queue.tenant_id: turn.jobs for turn in share.choose(110)})
    assert counts[1] == pytest.approx(10, abs=1)


def test_the_first_turns_are_charged_a_guess_and_come_one_by_one() -> None:
    assert sorted(turn.jobs for turn in share_of(1, 2, 3).choose(9)) == [3, 3, 3]


def test_a_correction_comes_with_the_end_and_one_that_never_began_costs_nothing() -> None:
    share = share_of(1, 2)
    first, second = share.choose(2)
    share.claimed(first, ["long"])
    share.claimed(second, ["never begun"])
    share.ended(first.queue, "long", 5 * FIRST_GUESS)
    share.ended(second.queue, "never begun", 0.0)
    assert [turn.queue.tenant_id for turn in share.choose(1)] == [second.queue.tenant_id]


def test_a_claim_that_was_not_chosen_is_none_of_its_business() -> None:
    share = share_of(1, 2)
    share.ended(bulk(1), "claimed by its id", 1000.0)
    assert {turn.jobs for turn in share.choose(2)} == {1}


def test_jobs_without_a_length_still_take_turns() -> None:
    counts = Counter(one_by_one(share_of(1, 2), {1: 0.0, 2: 1e-9}, 100))
    assert abs(counts[1] - counts[2]) <= 2
    assert LEAST_SECONDS > 0


# -- coming back


def test_the_end_of_a_long_job_counts_although_its_tenant_was_away() -> None:
    share = share_of(1, 2)
    one_by_one(share, {1: 1.0, 2: 1.0}, 4)
    [long] = share.choose(1)
    tenant, other = long.queue.tenant_id, 3 - long.queue.tenant_id
    share.claimed(long, ["long"])
    share.remove(long.queue)
    assert one_by_one(share, {other: 1.0}, 20) == [other] * 20
    share.add(long.queue)
    assert tenant in one_by_one(share, {1: 1.0, 2: 1.0}, 2), "nobody knows yet how long it is"
    share.ended(long.queue, "long", 120.0)
    assert one_by_one(share, {1: 1.0, 2: 1.0}, 95) == [other] * 95, "100 s ahead, and no more than that"
    assert tenant in one_by_one(share, {1: 1.0, 2: 1.0}, 10)


def test_a_job_that_was_shorter_than_guessed_is_no_credit_for_who_was_away() -> None:
    share = share_of(1, 2)
    one_by_one(share, {1: 50.0, 2: 50.0}, 2)
    [turn] = share.choose(1)
    away, other = turn.queue.tenant_id, 3 - turn.queue.tenant_id
    share.claimed(turn, ["short"])
    share.remove(turn.queue)
    one_by_one(share, {other: 50.0}, 20)
    share.add(turn.queue)
    share.ended(turn.queue, "short", 0.1)
    counts = Counter(one_by_one(share, {1: 50.0, 2: 50.0}, 20))
    assert counts[away] - counts[other] <= 2


@pytest.mark.parametrize("seconds", [0.1, 300.0])
def test_a_tenant_alone_pays_nothing_for_it_later_however_wrong_the_guess(seconds: float) -> None:
    share = share_of(1)
    [turn] = share.choose(64)
    share.claimed(turn, range(64))
    for claim in range(64):
        share.ended(turn.queue, claim, seconds)
    share.remove(bulk(1))
    share.add(bulk(2))
    share.add(bulk(1))
    counts = Counter(one_by_one(share, {1: seconds, 2: seconds}, 40))
    assert abs(counts[1] - counts[2]) <= 2


def test_a_newcomer_does_not_wait_for_who_has_to_catch_up() -> None:
    share = share_of(1, 2)
    first, second = share.choose(64)
    share.claimed(first, range(32))
    share.claimed(second, range(100, 132))
    for claim in range(32):
        share.ended(first.queue, claim, 0.1)
        share.ended(second.queue, 100 + claim, 300.0)
    share.add(bulk(3))
    seconds = {first.queue.tenant_id: 1.0, second.queue.tenant_id: 300.0, 3: 1.0}
    counts = Counter(one_by_one(share, seconds, 200))
    assert counts[3] == pytest.approx(100, abs=5), "9,600 s are to be caught up, and it takes half of the turns at once"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 4, 16]))
def test_going_idle_and_coming_back_gains_nothing(seed: int, slots: int) -> None:
    """Of twins with the same lengths of jobs, the one that comes and goes has no more than the one that stays."""
    random = Random(seed)
    lengths = random.choice([[0.1, 300.0], [0.1, 1.0, 10.0, 100.0], [0.1] * 30 + [300.0]])
    simulation = Simulation(FairShare(LANES, by_seconds=True), slots)
    for stays in range(2):
        simulation.enqueue(bulk(stays), (random.choice(lengths) for _ in range(4000)))
    when = 0.0
    while when < 3000:
        jobs = [random.choice(lengths) for _ in range(random.randint(1, 12))]
        simulation.enqueue_at(when, bulk(9), jobs)
        when += random.expovariate(1 / random.choice([1.0, 20.0, 300.0]))
    simulation.run(until=3000)
    running = slots * LONGEST
    assert all(simulation.waiting[bulk(stays)] for stays in range(2))
    assert simulation.seconds[9] <= min(simulation.seconds[0], simulation.seconds[1]) + running + LONGEST


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(5)), st.permutations(range(5)))
def test_the_order_of_arrival_changes_no_share(one: list[int], other: list[int]) -> None:
    totals = []
    for order in (one, other):
        simulation = Simulation(FairShare(LANES, by_seconds=True), 3)
        for tenant in order:
            simulation.enqueue(bulk(tenant), [1.0 + tenant] * 1000)
        simulation.run(until=600)
        totals.append([simulation.seconds[tenant] for tenant in range(5)])
    for here, there in zip(*totals, strict=True):
        assert here == pytest.approx(there, abs=6.0)


# -- the whole


def loaded(random: Random, slots: int, seconds: float, lengths: str) -> Simulation:
    """200 tenants whose work follows Zipf's law, three times what the slots can do; jobs of 0.1 to 300 s.

    Args:
        lengths: ``alike``: every tenant has all lengths; ``own``: each a length of its own, about which they vary;
            ``rare``: nearly all short, one in twenty as long as can be.
    """
    simulation = Simulation(FairShare(LANES, by_seconds=True), slots)
    ranks = sum(1 / rank for rank in range(1, 201))
    for tenant in range(1, 201):
        work, jobs, own = 3 * slots * seconds / tenant / ranks, [], _length(random)
        while work > 0:
            match lengths:
                case "alike":
                    jobs.append(_length(random))
                case "own":
                    jobs.append(min(LONGEST, max(0.1, random.expovariate(1 / own))))
                case _:
                    jobs.append(LONGEST if random.random() < 0.05 else 0.1)
            work -= jobs[-1]
        simulation.enqueue(bulk(tenant), jobs)
    return simulation


def _length(random: Random) -> float:
    return 0.1 * math.exp(random.uniform(0.0, math.log(LONGEST / 0.1)))


def backlogged(simulation: Simulation) -> list[float]:
    """The worker seconds of those that had jobs waiting all the time."""
    waited = [queue.tenant_id for queue, jobs in simulation.waiting.items() if jobs]
    return [simulation.seconds[tenant] for tenant in waited]


def test_backlogged_tenants_have_the_same_worker_seconds() -> None:
    simulation = loaded(Random(4), 16, 200 * LONGEST, "alike")
    simulation.run(until=200 * LONGEST)
    shares = backlogged(simulation)
    assert len(shares) > 50
    assert jain(shares) >= 0.99


@pytest.mark.long
@pytest.mark.parametrize("slots", [8, 16])
@pytest.mark.parametrize("lengths", ["alike", "own", "rare"])
def test_backlogged_tenants_have_the_same_worker_seconds_whatever_their_jobs(slots: int, lengths: str) -> None:
    simulation = loaded(Random(slots), slots, 200 * LONGEST, lengths)
    simulation.run(until=200 * LONGEST)
    shares = backlogged(simulation)
    assert len(shares) > 50
    assert jain(shares) >= 0.99


def test_jobs_in_turn_would_not_give_the_same_seconds() -> None:
    """What round robin does with the same load, so that the index is known to tell the difference."""
    random = Random(4)
    simulation = Simulation(FairShare(LANES), 16)
    for tenant in range(50):
        own = _length(random)
        simulation.enqueue(bulk(tenant), [own] * int(16 * 60_000 / 50 / own + 50))
    simulation.run(until=6_000)
    assert jain([simulation.seconds[tenant] for tenant in range(50)]) < 0.8
