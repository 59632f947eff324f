"""Estimates of time: a tenant's own past where it tells enough, everybody's where not, and nothing out of nothing."""

from __future__ import annotations

import pytest

from batchproc.ops.estimates import Estimate, Estimates, Work
from batchproc.queue.campaign_listing import Used


def used(tenant: int, seconds: float, *, kind: str = "ocr", jobs: int = 100, ocr: int = 0, text: int = 0) -> Used:
    return Used(tenant, kind, seconds, jobs, text, 0, ocr)


def test_a_tenants_own_pages_tell_how_long_its_pages_take() -> None:
    estimates = Estimates([used(1, 200.0, ocr=100), used(2, 400.0, ocr=100)])
    assert estimates.seconds_per_page(1) == 2.0
    assert estimates.seconds_per_page(2) == 4.0
    assert estimates.seconds([Work(1, "ocr", 10, 30), Work(2, "ocr", 1, 5)]) == 80.0


def test_of_a_tenant_with_few_pages_everybodys_tell_more() -> None:
    estimates = Estimates([used(1, 100.0, ocr=10), used(2, 200.0, ocr=190)])
    assert estimates.seconds_per_page(1) == 1.5
    assert estimates.seconds_per_page(7) == 1.5


def test_pages_that_are_recognised_in_any_case_take_longer_than_text_layers() -> None:
    estimates = Estimates([used(1, 100.0, ocr=50, text=150)])
    assert estimates.seconds_per_page(1) == 0.5
    assert estimates.seconds_per_page(1, recognised=True) == 2.0
    told = {mode: estimates.seconds([Work(1, "ocr", 1, 10, mode=mode)]) for mode in (None, "skip", "redo", "force")}
    assert told == {None: 5.0, "skip": 5.0, "redo": 20.0, "force": 20.0}
    assert Estimates([used(1, 1.0, text=100)]).seconds_per_page(1, recognised=True) == 0.01, "that of any page"


def test_documents_whose_pages_nobody_knows_count_as_others_do() -> None:
    estimates = Estimates([used(1, 300.0, jobs=100, ocr=300)])
    work = Work(1, "ocr", 5, 10, pages_unknown=2)
    assert estimates.pages(work) == 16.0
    assert estimates.seconds([work]) == 16.0
    assert Estimates([]).pages(work) == 12.0, "a page each, where nothing was read"


def test_kinds_that_read_no_pages_count_their_jobs() -> None:
    estimates = Estimates([used(1, 5.0, kind="classify", jobs=50)])
    assert estimates.seconds([Work(1, "classify", 20, 999)]) == 2.0


@pytest.mark.parametrize(
    "work", [[Work(1, "ocr", 1, 1)], [Work(1, "classify", 1, 0)], [Work(1, "classify", 1, 1), Work(1, "ocr", 2, 9)]]
)
def test_where_nothing_tells_there_is_no_estimate(work: list[Work]) -> None:
    assert Estimates([]).seconds(work) is None


def test_one_part_without_a_past_leaves_the_whole_without() -> None:
    estimates = Estimates([used(1, 100.0, ocr=100)])
    assert estimates.seconds([Work(1, "ocr", 1, 10), Work(1, "thumbnail", 1, 0)]) is None


def test_nothing_to_do_takes_no_time() -> None:
    assert Estimates([]).seconds([]) == 0.0


@pytest.mark.parametrize(
    ("estimate", "told"),
    [
        (
            Estimate(42, 1, 31.5, 2, 15.75),
            [
                "42 pages, 32 s of one worker (0.75 s a page lately)",
                "1 document has not been read, and counts as others do",
                "about 16 s with 2 workers and nothing else to do",
            ],
        ),
        (
            Estimate(0, 0, 0.4, 1, 0.4),
            ["0.4 s of one worker", "about 0.4 s with 1 worker and nothing else to do"],
        ),
        (Estimate(3, 0, None, 2, None), ["3 pages, time unknown: nothing like it in 30 days"]),
        (
            Estimate(12_345_678, 1_234_567, 2e9, 128, 2e9 / 128),
            [
                "12,345,678 pages, 23148 d 4 h of one worker (3 min a page lately)",
                "1,234,567 documents have not been read, and count as others do",
                "about 180 d 20 h with 128 workers and nothing else to do",
            ],
        ),
    ],
)
def test_an_estimate_has_words_that_fit_beside_the_names_of_a_page(estimate: Estimate, told: list[str]) -> None:
    assert estimate.lines() == told
    assert all(len(line) <= 66 for line in told)
