"""Estimates of time: a tenant's own past where it tells enough, everybody's where not, and nothing out of nothing."""

from __future__ import annotations

import pytest

from batchproc.ops.estimates import Estimates, Work
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
