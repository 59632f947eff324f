"""When something is claimed ahead: only behind jobs that have shown to be quick."""

from __future__ import annotations

from uuid import uuid4

from batchproc.core.ahead import QUICK_SECONDS, STREAK, Ahead
from batchproc.core.job import Claim, Lane


def claim(kind: str = "classify", tenant_id: int = 1) -> Claim:
    return Claim(1, uuid4(), tenant_id, kind, Lane.BULK, 5, 1, 5, 0, 0, 0)


def after(*seconds: float, kind: str = "classify") -> Ahead:
    ahead = Ahead()
    for each in seconds:
        ahead.completed(claim(kind), each)
    return ahead


def test_a_kind_of_which_nothing_has_ended_is_not_quick() -> None:
    assert not Ahead().is_quick([claim()])


def test_quick_is_what_ended_soon_of_late() -> None:
    assert after(0.002).is_quick([claim()])
    assert not after(0.002).is_quick([claim("ocr")])
    assert not after(QUICK_SECONDS * 1.1).is_quick([claim()])
    assert not after(0.002, *[5.0] * 3).is_quick([claim()])


def test_of_a_bundle_the_sum_counts() -> None:
    ahead = after(QUICK_SECONDS / 10)
    assert ahead.is_quick([claim() for _ in range(9)])
    assert not ahead.is_quick([claim() for _ in range(11)])


def filled(ahead: Ahead, times: int, kind: str = "classify") -> Ahead:
    for _ in range(times):
        ahead.is_quick([claim(kind)])
    return ahead


def test_a_free_slot_gets_more_than_it_can_begin_with_after_many_quick_fillings_in_a_row() -> None:
    assert not filled(after(0.002), STREAK - 1).only_quick
    assert filled(after(0.002), STREAK).only_quick


def test_the_row_is_over_with_a_filling_that_may_take_long() -> None:
    ahead = filled(after(0.002), STREAK)
    assert not filled(ahead, 1, "ocr").only_quick


def test_quick_jobs_in_bundles_that_are_not_make_no_row() -> None:
    ahead = after(QUICK_SECONDS / 20)
    for _ in range(2 * STREAK):
        assert not ahead.is_quick([claim() for _ in range(64)])
    assert not ahead.only_quick
