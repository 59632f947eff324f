"""When something is claimed ahead: only behind jobs that have shown to be quick."""

from __future__ import annotations

import math
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.ahead import BRIEF_JOBS, BRIEF_SECONDS, MOST_WAITING, QUICK_SECONDS, STREAK, Ahead, room_behind
from batchproc.core.job import Claim, Lane


def claim(kind: str = "classify", tenant_id: int = 1) -> Claim:
    return Claim(1, uuid4(), tenant_id, kind, Lane.BULK, 5, 1, 5, 0, 0, 0)


def is_quick(ahead: Ahead, claims: list[Claim]) -> bool:
    return room_behind(ahead.expected(claims), []) > 0


def after(*seconds: float, kind: str = "classify") -> Ahead:
    ahead = Ahead()
    for each in seconds:
        ahead.completed(claim(kind), each)
    return ahead


def test_a_kind_of_which_nothing_has_ended_is_not_quick() -> None:
    assert not is_quick(Ahead(), [claim()])


def test_quick_is_what_ended_soon_of_late() -> None:
    assert is_quick(after(0.002), [claim()])
    assert not is_quick(after(0.002), [claim("ocr")])
    assert not is_quick(after(QUICK_SECONDS * 1.1), [claim()])
    assert not is_quick(after(0.002, *[5.0] * 3), [claim()])


def test_of_a_bundle_the_sum_counts() -> None:
    ahead = after(QUICK_SECONDS / 10)
    assert is_quick(ahead, [claim() for _ in range(9)])
    assert not is_quick(ahead, [claim() for _ in range(11)])


def filled(ahead: Ahead, times: int, *claims: Claim) -> Ahead:
    for _ in range(times):
        ahead.filled(ahead.expected(claims or [claim()]))
    return ahead


def test_a_free_slot_gets_more_than_it_can_begin_with_after_many_quick_fillings_in_a_row() -> None:
    assert not filled(after(0.05), STREAK - 1).only_quick
    assert filled(after(0.05), STREAK).only_quick


def test_many_wait_in_a_slot_after_many_jobs_in_a_row_that_took_next_to_nothing() -> None:
    assert not after(*[0.002] * (BRIEF_JOBS - 1)).only_brief
    assert after(*[0.002] * BRIEF_JOBS).only_brief
    assert not filled(after(*[BRIEF_SECONDS * 1.1] * BRIEF_JOBS), 1).only_brief
    assert not after(*[0.002] * BRIEF_JOBS, QUICK_SECONDS * 1.1).only_brief, "one in so many takes long"


def test_the_row_is_over_with_a_filling_that_may_take_long() -> None:
    ahead = filled(after(*[0.002] * BRIEF_JOBS), STREAK)
    filled(ahead, 1, claim("ocr"))
    assert not ahead.only_quick
    assert not ahead.only_brief


def test_quick_jobs_in_bundles_that_are_not_make_no_row() -> None:
    ahead = filled(after(QUICK_SECONDS / 20), 2 * STREAK, *[claim() for _ in range(64)])
    assert not ahead.only_quick


SECONDS = st.floats(0, 1)


@given(SECONDS, st.lists(SECONDS, max_size=MOST_WAITING), st.floats(0, 1))
def test_more_than_one_wait_only_where_all_should_be_over_in_a_moment(
    at_work: float, waiting: list[float], more: float
) -> None:
    room = room_behind(at_work, waiting)
    assert 0 <= room <= MOST_WAITING - len(waiting)
    if waiting and room:
        assert at_work + sum(waiting) + room * waiting[-1] <= QUICK_SECONDS * 1.000001
    assert room >= room_behind(at_work + more, waiting), "never more behind what takes longer"


@given(SECONDS)
def test_one_may_wait_behind_what_is_quick_and_none_behind_what_is_not(at_work: float) -> None:
    assert bool(room_behind(at_work, [])) == (at_work <= QUICK_SECONDS)
    assert room_behind(at_work, [math.inf]) == 0


def test_behind_jobs_that_take_next_to_nothing_wait_as_many_as_are_of_use() -> None:
    assert room_behind(0.0, []) == room_behind(0.0001, []) == MOST_WAITING
    assert room_behind(0.0, [0.0] * MOST_WAITING) == 0


def test_several_that_were_sent_together_are_not_taken_for_one_long_one() -> None:
    assert room_behind(0.05, [], fillings=5) == 5
    assert room_behind(0.05, []) == 1
