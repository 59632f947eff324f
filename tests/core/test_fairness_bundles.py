"""Quick jobs share a slot, and each is a turn of its own."""

from __future__ import annotations

from collections import Counter
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.fairness import FairShare, Queue, Turn
from batchproc.core.job import Claim, KindSpec, Lane
from batchproc.core.packing import bundled

BUNDLES = {"slow": 1, "two": 2, "some": 5, "many": 64}
SPECS = {kind: KindSpec(kind, bundle=size) for kind, size in BUNDLES.items()}
QUEUES = st.tuples(st.sampled_from(Lane), st.integers(1, 4), st.sampled_from(list(BUNDLES)))


def bulk(tenant_id: int, kind: str) -> Queue:
    return Queue(Lane.BULK, tenant_id, kind)


def share_of(*queues: Queue) -> FairShare:
    share = FairShare({Lane.INTERACTIVE: 4, Lane.BULK: 1}, bundles=BUNDLES)
    for queue in queues:
        share.add(queue)
    return share


def claims(turns: list[Turn]) -> list[Claim]:
    return [
        Claim(0, uuid4(), queue.tenant_id, queue.kind, queue.lane, 5, 1, 5, 0, 0, 0)
        for queue, jobs in turns
        for _ in range(jobs)
    ]


def jobs(turns: list[Turn]) -> int:
    return sum(turn.jobs for turn in turns)


def test_a_slot_takes_one_slow_job_or_a_bundle_of_quick_ones() -> None:
    assert share_of(bulk(1, "slow")).choose(3) == [Turn(bulk(1, "slow"), 3)]
    assert share_of(bulk(1, "many")).choose(3) == [Turn(bulk(1, "many"), 192)]
    assert share_of(bulk(1, "some")).choose(1) == [Turn(bulk(1, "some"), 5)]


def test_a_bundle_is_of_any_tenants_and_kinds_and_the_smallest_size_governs() -> None:
    turns = share_of(bulk(1, "many"), bulk(2, "many"), bulk(3, "many")).choose(1)
    assert sorted(turn.jobs for turn in turns) == [21, 21, 22]
    assert jobs(share_of(bulk(1, "many"), bulk(2, "some")).choose(1)) == 5


def test_quick_jobs_are_turns_so_that_a_slow_one_is_not_passed_over() -> None:
    share = share_of(bulk(1, "many"), bulk(2, "slow"))
    first = share.choose(1)
    assert first == [Turn(bulk(1, "many"), 1)], "the next turn is that of tenant 2, and there is no slot"
    assert share.choose(1) == [Turn(bulk(2, "slow"), 1)]
    assert share.choose(2) == [Turn(bulk(1, "many"), 2), Turn(bulk(2, "slow"), 1)]


def test_no_more_jobs_than_asked_for() -> None:
    assert share_of(bulk(1, "many")).choose(2, jobs=70) == [Turn(bulk(1, "many"), 70)]
    assert share_of(bulk(1, "slow")).choose(2, jobs=1) == [Turn(bulk(1, "slow"), 1)]
    assert share_of(bulk(1, "slow")).choose(2, jobs=0) == []


@given(
    st.sets(QUEUES, min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 9)), min_size=1, max_size=8),
)
def test_what_is_chosen_can_be_packed_into_the_slots(
    queues: set[tuple[Lane, int, str]], choices: list[tuple[int, int | None]]
) -> None:
    known = {Queue(*queue) for queue in queues}
    share = share_of(*known)
    for slots, bulk_room in choices:
        turns = share.choose(slots, bulk_room=bulk_room)
        assert len({turn.queue for turn in turns}) == len(turns)
        assert {turn.queue for turn in turns} <= known
        assert len(bundled(claims(turns), SPECS, slots)) <= slots
        in_bulk = [turn for turn in turns if turn.queue.lane == Lane.BULK]
        room = slots if bulk_room is None else min(slots, bulk_room)
        assert len(bundled(claims(in_bulk), SPECS, room)) <= room
        some_could_run = room if all(queue.lane == Lane.BULK for queue in known) else slots
        assert (jobs(turns) > 0) == (some_could_run > 0), "no slot is free while there is work"


@given(st.dictionaries(st.integers(1, 5), st.sampled_from(list(BUNDLES)), min_size=1), st.lists(st.integers(0, 9)))
def test_each_tenant_has_one_job_a_round_however_quick(kinds: dict[int, str], slots: list[int]) -> None:
    share = share_of(*(bulk(tenant, kind) for tenant, kind in kinds.items()))
    total = Counter(dict.fromkeys(kinds, 0))
    for free in slots:
        for turn in share.choose(free):
            total[turn.queue.tenant_id] += turn.jobs
        assert max(total.values()) - min(total.values()) <= 1
