"""Turns that gave nothing, the order of the first round, and what a turn costs."""

from __future__ import annotations

import time
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.fairness import FairShare, Turn
from batchproc.core.job import Lane
from tests.core.sharing import WEIGHTS, bulk, one_by_one, served, share_of, urgent

# -- claims that come back short


def test_a_turn_that_gave_nothing_is_taken_again_in_the_same_round() -> None:
    share = share_of(bulk(1, "empty"), bulk(1, "full"), bulk(2), bulk(3))
    [turn] = share.choose(1)
    assert turn == Turn(bulk(1, "empty"), 1)
    share.claimed(turn, [])
    share.remove(turn.queue)
    assert one_by_one(share, 4) == [bulk(1, "full"), bulk(2), bulk(3), bulk(1, "full")]


@given(st.integers(1, 5), st.integers(1, 40), st.data())
def test_only_what_was_given_is_charged(tenants: int, free: int, data: st.DataObject) -> None:
    share = share_of(*(bulk(tenant) for tenant in range(tenants)))
    total: Counter[int] = Counter(dict.fromkeys(range(tenants), 0))
    for turn in share.choose(free):
        given_jobs = data.draw(st.integers(0, turn.jobs), label=f"tenant {turn.queue.tenant_id}")
        share.claimed(turn, range(given_jobs))
        total[turn.queue.tenant_id] += given_jobs
    lacking = max(total.values()) * tenants - total.total()
    total.update(served(share.choose(lacking)))
    assert len(set(total.values())) == 1, "who was given less catches up before anybody goes on"


@given(
    st.dictionaries(st.integers(0, 5), st.lists(st.integers(0, 12), min_size=1, max_size=3), min_size=1),
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
)
def test_no_slot_is_left_free_while_a_queue_has_jobs(jobs: dict[int, list[int]], frees: list[int]) -> None:
    left = {bulk(tenant, str(kind)): count for tenant, counts in jobs.items() for kind, count in enumerate(counts)}
    share = share_of(*left)
    for free in frees:
        taken = 0
        while taken < free and (turns := share.choose(free - taken)):
            for turn in turns:
                given_jobs = min(turn.jobs, left[turn.queue])
                left[turn.queue] -= given_jobs
                taken += given_jobs
                share.claimed(turn, range(given_jobs))
                if given_jobs < turn.jobs:
                    share.remove(turn.queue)
        assert taken == free or not any(left.values())


# -- the first round


@given(st.permutations(range(6)), st.permutations(range(6)), st.integers(0, 6))
def test_the_first_round_begins_with_those_that_waited_longest(
    waited: list[int], arrival: list[int], known: int
) -> None:
    share = FairShare(WEIGHTS)
    share.begin_with(waited[:known])
    for tenant in arrival:
        share.add(bulk(tenant))
        share.add(urgent(tenant))
    order = waited[:known] + [tenant for tenant in arrival if tenant not in waited[:known]]
    for lane in Lane:
        assert [queue.tenant_id for queue in one_by_one(share, 60) if queue.lane == lane][:12] == order * 2


def test_the_place_in_the_first_round_is_for_one_turn() -> None:
    share = FairShare(WEIGHTS)
    share.begin_with([3, 2, 1])
    for tenant in (1, 2, 3):
        share.add(bulk(tenant))
    assert one_by_one(share, 1) == [bulk(3)]
    share.remove(bulk(3))
    assert one_by_one(share, 5) == [bulk(2), bulk(1), bulk(2), bulk(1), bulk(2)]
    share.add(bulk(3))
    assert one_by_one(share, 3) == [bulk(1), bulk(3), bulk(2)]


# -- many queues


def seconds_per_turn(tenants: int) -> float:
    """Of processor time, the least of several choices for 64 slots."""
    share = share_of(*(bulk(tenant, f"kind{kind}") for tenant in range(tenants) for kind in range(3)))
    took = []
    for _ in range(50):
        begun = time.process_time()
        turns = share.choose(64)
        took.append((time.process_time() - begun) / served(turns).total())
    return min(took)


def test_a_turn_costs_about_the_same_however_many_queues_there_are() -> None:
    """1.8 times as much with a thousand times the queues was measured: the heap is deeper, and out of the cache."""
    assert seconds_per_turn(10_000) < 10 * seconds_per_turn(10)
