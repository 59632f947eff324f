"""Estimates of time: a tenant's own past where it tells enough, everybody's where not, and nothing out of nothing."""

from __future__ import annotations

import pytest

from batchproc.database import connect
from batchproc.ops.estimates import Estimate, Estimates, Work, estimated
from batchproc.queue.campaign_listing import Used
from tests.handlers.running_job import add_tenant


def used(
    tenant: int,
    seconds: float,
    *,
    kind: str = "ocr",
    jobs: int = 100,
    ocr: int = 0,
    text: int = 0,
    timed: tuple[int, float] = (0, 0.0),
) -> Used:
    """``timed``: so many of the pages were recognised, and took so many of the seconds."""
    return Used(tenant, kind, seconds, jobs, jobs, text, 0, ocr, *timed)


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
    estimates = Estimates([used(1, 110.0, ocr=50, text=170, timed=(50, 100.0))])
    assert estimates.seconds_per_page(1) == 0.5
    assert estimates.seconds_per_page(1, recognised=True) == 2.0
    told = {mode: estimates.seconds([Work(1, "ocr", 1, 10, mode=mode)]) for mode in (None, "skip", "redo", "force")}
    assert told == {None: 5.0, "skip": 5.0, "redo": 20.0, "force": 20.0}


def test_neither_text_layers_nor_a_single_page_tell_how_long_recognising_takes() -> None:
    one_scan = used(1, 352.0, ocr=1, text=10_000, timed=(1, 2.0))
    many_scans = used(2, 400.0, ocr=100, timed=(100, 398.0))
    assert Estimates([one_scan]).seconds_per_page(1, recognised=True) == 2.0
    assert Estimates([one_scan, many_scans]).seconds_per_page(1, recognised=True) == pytest.approx(400 / 101)
    only_text = Estimates([used(1, 350.0, text=10_000)])
    assert only_text.seconds_per_page(1) == 0.035
    assert only_text.seconds_per_page(1, recognised=True) is None
    assert only_text.seconds([Work(1, "ocr", 1, 10, mode="force")]) is None
    assert Estimates([used(1, 100.0, ocr=50)]).seconds_per_page(1, recognised=True) is None, "nor older releases' pages"


def test_what_was_given_up_on_makes_no_document_smaller() -> None:
    estimates = Estimates([Used(1, "ocr", 1000.0, 1000, 1500, 20_000, 0, 0, 0, 0.0)])
    assert estimates.pages_per_document(1) == 20.0
    assert estimates.seconds_per_job(1, "ocr") == pytest.approx(1000 / 1500)


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


def test_the_time_of_other_kinds_is_not_told_as_that_of_pages(database_url: str) -> None:
    with connect(database_url) as connection:
        tenant = add_tenant(connection)
        for kind, seconds, pages in (("ocr", 200.0, 100), ("classify", 5000.0, 0)):
            connection.execute(
                "insert into batchproc.usage_daily (tenant_id, day, kind, worker_seconds, completed, pages_ocr)"
                " values (%s, (clock_timestamp() at time zone 'UTC')::date, %s, %s, 50, %s)",
                [tenant, kind, seconds, pages],
            )
        reading, other = Work(tenant, "ocr", 1, 3), Work(tenant, "classify", 2, 3)
        both = estimated(connection, "batchproc", [reading, other], workers=2)
        assert (both.worker_seconds, both.seconds_per_page) == (206.0, 2.0)
        assert estimated(connection, "batchproc", [other], workers=2).seconds_per_page is None
        unknown = estimated(connection, "batchproc", [reading, Work(tenant, "thumbnail", 1, 0)], workers=2)
        assert (unknown.worker_seconds, unknown.seconds_per_page) == (None, 2.0)


def test_nothing_to_do_takes_no_time() -> None:
    assert Estimates([]).seconds([]) == 0.0


@pytest.mark.parametrize(
    ("estimate", "told"),
    [
        (
            Estimate(42, 1, 31.5, 2, 15.75, 0.75),
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
        (
            Estimate(3, 1, None, 2, None),
            [
                "3 pages, time unknown: nothing like it in 30 days",
                "1 document has not been read, and counts as others do",
                "to find out, read a few: reprocess them with --pilot 20",
            ],
        ),
        # What nothing tells of reads no page; nor is the time of what reads none that of pages.
        (Estimate(3, 0, None, 2, None, 2.0), ["3 pages, time unknown: nothing like it in 30 days"]),
        (
            Estimate(3, 0, 600.0, 2, 300.0, 2.0),
            [
                "3 pages, 10 min of one worker (2 s a page lately)",
                "about 5 min with 2 workers and nothing else to do",
            ],
        ),
        (
            Estimate(12_345_678, 1_234_567, 2e9, 128, 2e9 / 128, 2e9 / 12_345_678),
            [
                "12,345,678 pages, 23148 d 4 h of one worker (162 s a page lately)",
                "1,234,567 documents have not been read, and count as others do",
                "about 180 d 20 h with 128 workers and nothing else to do",
            ],
        ),
    ],
)
def test_an_estimate_has_words_that_fit_beside_the_names_of_a_page(estimate: Estimate, told: list[str]) -> None:
    assert estimate.lines() == told
    assert all(len(line) <= 66 for line in told)
