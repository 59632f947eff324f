from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.job import Claim, KindSpec, Lane
from batchproc.core.packing import bundled
from batchproc.core.room import Room

SIZES = {"ordinary": 1, "few": 3, "some": 8, "many": 64}
SPECS = {name: KindSpec(name, bundle=size) for name, size in SIZES.items()}


def claims_of(kinds: list[tuple[str, int]]) -> list[Claim]:
    return [
        Claim(number, UUID(int=number), 1, kind, lane, 5, 1, 5, 0, 0, 0) for number, (kind, lane) in enumerate(kinds)
    ]


CLAIMS = st.lists(st.tuples(st.sampled_from(sorted(SIZES)), st.integers(0, 1)), max_size=200).map(claims_of)


def least_slots(claims: list[Claim]) -> int:
    """Each lane packed as tightly as can be: the smallest sizes first, each bundle filled up."""
    count = 0
    for lane in Lane:
        sizes = sorted(SIZES[claim.kind] for claim in claims if claim.lane == lane)
        while sizes:
            del sizes[: sizes[0]]
            count += 1
    return count


@given(claims=CLAIMS, slots=st.integers(1, 80))
def test_every_claim_is_in_one_bundle_of_its_lane_that_its_kind_allows(claims: list[Claim], slots: int) -> None:
    bundles = bundled(claims, SPECS, slots)
    assert sorted(claim.job_id for bundle in bundles for claim in bundle) == list(range(len(claims)))
    for bundle in bundles:
        assert 1 <= len(bundle) <= min(SIZES[claim.kind] for claim in bundle)
        assert len({claim.lane for claim in bundle}) == 1
    lanes = [bundle[0].lane for bundle in bundles]
    assert lanes == sorted(lanes)


@given(claims=CLAIMS, slots=st.integers(1, 80))
def test_no_more_slots_are_taken_than_there_are_if_that_is_possible(claims: list[Claim], slots: int) -> None:
    assert len(bundled(claims, SPECS, slots)) <= max(slots, least_slots(claims))


@given(claims=CLAIMS, slots=st.integers(1, 80), bulk=st.integers(0, 80))
def test_the_bulk_lane_takes_no_more_slots_than_it_may(claims: list[Claim], slots: int, bulk: int) -> None:
    of_bulk = [claim for claim in claims if claim.lane == Lane.BULK]
    taken = sum(bundle[0].lane == Lane.BULK for bundle in bundled(claims, SPECS, slots, bulk=bulk))
    assert taken <= max(bulk, least_slots(of_bulk))


@given(slots=st.integers(1, 20), bulk=st.integers(0, 20), sizes=st.data())
def test_what_was_chosen_for_slots_fits_into_them(slots: int, bulk: int, sizes: st.DataObject) -> None:
    """As the choice fills the slots (``core.room``), in whatever order the turns come."""
    room, taken = Room(slots, bulk), []
    for kind, lane in sizes.draw(st.lists(st.tuples(st.sampled_from(sorted(SIZES)), st.sampled_from([0, 1])))):
        if room.take(lane, SIZES[kind]):
            taken.append((kind, lane))
    bundles = bundled(claims_of(taken), SPECS, slots, bulk=bulk)
    assert len(bundles) <= slots
    assert sum(bundle[0].lane == Lane.BULK for bundle in bundles) <= bulk


@given(count=st.integers(0, 64), slots=st.integers(1, 10))
def test_a_few_jobs_are_spread_over_all_slots(count: int, slots: int) -> None:
    sizes = [len(bundle) for bundle in bundled(claims_of([("many", 1)] * count), SPECS, slots)]
    assert len(sizes) == min(count, slots)
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_the_smallest_size_governs() -> None:
    claims = claims_of([("many", 1)] * 60 + [("some", 1)] * 4 + [("ordinary", 1)])
    assert [len(bundle) for bundle in bundled(claims, SPECS, 3)] == [1, 8, 56]
