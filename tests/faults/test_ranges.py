"""Documents that are read in page ranges by several workers: whatever is killed, each page is read and joined once.

Counted by calls of the engine, on the real command.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.engine.running import Bench
from tests.faults.command import await_end_of_leases
from tests.faults.test_pages import Scan, expected
from tests.waiting import wait_until

PAGES = 12
RANGES = ["1-3", "4-6", "7-9", "10-12"]


def large(bench: Bench, folder: Path, faults: dict[int, list[str]] | None = None, **kinds: Any) -> Scan:
    return Scan(bench, folder, PAGES, faults or {}, kinds, split_pages=3, workers=2)


def jobs(scan: Scan) -> dict[str, dict[str, Any]]:
    """The jobs on the document by what they read: a range, ``join``, or ``split`` for the first."""
    rows = scan.bench.rows(
        """
        select case jsonb_typeof(args -> 'range')
                   when 'array' then concat(args -> 'range' ->> 0, '-', args -> 'range' ->> 1)
                   when 'string' then args ->> 'range'
                   else 'split' end,
               job_id, state, failure_code, attempt, crashes, node_losses
        from batchproc.processing_jobs where kind = 'ocr' order by job_id
        """
    )
    names = ("job_id", "state", "failure_code", "attempt", "crashes", "node_losses")
    assert len({row[0] for row in rows}) == len(rows), f"something is read, split or joined by two jobs: {rows}"
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows}


def assert_joined_once(scan: Scan, calls: dict[int, int] | None = None) -> None:
    """All pages are there, each was read once but for ``calls``, and one revision came of it."""
    assert scan.text() == expected(PAGES)
    assert scan.calls() == Counter(dict.fromkeys(range(1, PAGES + 1), 1) | (calls or {}))
    assert {name: job["state"] for name, job in jobs(scan).items()} == dict.fromkeys(
        ["split", *RANGES, "join"], "completed"
    )
    assert scan.bench.rows("select state, ranges_left from batchproc.ocr_revisions") == [("complete", 0)]
    assert scan.bench.rows("select count(*) from batchproc.processing_jobs where kind = 'classify'") == [(1,)]
    assert scan.bench.rows("select sum(pages_ocr) from batchproc.usage_daily") == [(PAGES,)]
    assert scan.status() == "completed"


@pytest.mark.parametrize("victim", ["worker", "node"])
def test_what_is_killed_in_a_range_goes_on_at_its_page(bench: Bench, tmp_path: Path, victim: str) -> None:
    scan = large(bench, tmp_path, {5: ["wait"], 11: ["wait"]})
    with scan.started() as run:
        worker = scan.wait_for_call(5)
        if victim == "worker":
            os.kill(worker, signal.SIGKILL)
            os.kill(scan.wait_for_call(11), signal.SIGKILL)
            assert run.wait(60) == 0
        else:
            scan.wait_for_call(11)
            run.kill_node()
            assert run.wait(60) == 3
    if victim == "node":
        assert scan.status() == "pending"
        await_end_of_leases(bench)
        assert scan.run() == 0
    assert_joined_once(scan, {5: 2, 11: 2})


@pytest.mark.long
def test_workers_and_nodes_killed_again_and_again(bench: Bench, tmp_path: Path) -> None:
    scan = large(bench, tmp_path, {2: ["wait"], 5: ["wait", "wait"], 9: ["be_killed"], 11: ["wait"]})
    with scan.started() as run:
        scan.wait_for_call(2)
        scan.wait_for_call(5)
        run.kill_node()
        assert run.wait(60) == 3
    await_end_of_leases(bench)
    with scan.started() as run:
        os.kill(scan.wait_for_call(5, 2), signal.SIGKILL)
        scan.wait_for_call(11)
        run.kill_node()
        assert run.wait(60) == 3
    await_end_of_leases(bench)
    assert scan.run() == 0
    assert_joined_once(scan, {2: 2, 5: 3, 9: 2, 11: 2})


def test_a_range_that_is_given_up_on_costs_its_own_pages(bench: Bench, tmp_path: Path) -> None:
    """And the run tells of its document once."""
    scan = large(bench, tmp_path, {5: ["die"] * 9}, max_crashes=1)
    with scan.started() as run:
        assert run.wait(60) == 1
        run.stdout.seek(0)
        told = run.stdout.read().decode()
    found = jobs(scan)
    assert (found["4-6"]["state"], found["4-6"]["failure_code"]) == ("discarded", "poison")
    assert scan.failed(found["join"]["job_id"]) == {5: "poison", 6: "poison"}
    assert scan.calls() == Counter(set(range(1, PAGES + 1)) - {6})
    assert scan.text() == expected(PAGES, without={5, 6})
    assert scan.status() == "partial"
    assert told.count("acme: 1 document partial") == told.count("acme: ") == 1
    assert "1 partial" in told
    assert "discarded" not in told


def test_a_bad_page_of_a_range_is_failed_by_name_and_passed(bench: Bench, tmp_path: Path) -> None:
    scan = large(bench, tmp_path, {5: ["hang"] * 9}, stall_timeout=1.0)
    assert scan.run() == 1
    assert scan.failed(jobs(scan)["join"]["job_id"]) == {5: "stalled"}
    assert scan.calls() == Counter(dict.fromkeys(range(1, PAGES + 1), 1) | {5: 2})
    assert {job["state"] for job in jobs(scan).values()} == {"completed"}


@pytest.mark.long
def test_a_cancelled_document_keeps_what_it_had_and_the_next_job_goes_on(bench: Bench, tmp_path: Path) -> None:
    scan = large(bench, tmp_path, {2: ["wait"], 5: ["wait"]})
    with scan.started() as run:
        scan.wait_for_call(2)
        scan.wait_for_call(5)
        bench.jobs.cancel(bench.connection, [job["job_id"] for job in jobs(scan).values()])
        assert run.wait(60) == 0
    assert {name: job["state"] for name, job in jobs(scan).items()} == {
        "split": "completed",
        **dict.fromkeys(RANGES, "cancelled"),
    }
    assert (scan.status(), scan.text()) == ("pending", [])
    scan.split_pages = 1000
    scan.enqueue()
    assert scan.run() == 0
    assert scan.calls() == Counter(dict.fromkeys(range(1, PAGES + 1), 1) | {2: 2, 5: 2})
    assert scan.text() == expected(PAGES)


def test_two_nodes_share_one_document(bench: Bench, tmp_path: Path) -> None:
    scan = large(bench, tmp_path, {2: ["wait"], 5: ["wait"]})
    scan.workers = 1
    with scan.started() as one:
        first = scan.wait_for_call(2)
        with scan.started() as other:
            second = scan.wait_for_call(5)
            os.kill(first, signal.SIGKILL)
            os.kill(second, signal.SIGKILL)
            assert one.wait(60) == other.wait(60) == 0
    assert_joined_once(scan, {2: 2, 5: 2})
    # Which of them has a worker again first reads on; but each had a range of it at the same time.
    nodes = bench.rows("select count(distinct node_id) from batchproc.job_attempts where outcome = 'failed'")
    assert nodes == [(2,)]


@pytest.mark.long
def test_a_large_document_takes_turns_with_a_small_one_that_comes_later(bench: Bench, tmp_path: Path) -> None:
    scan = large(bench, tmp_path, {2: ["wait"]})
    scan.workers = 1
    with scan.started() as run:
        worker = scan.wait_for_call(2)
        other = bench.tenant("other")
        small = bench.enqueue(other, "classify", {}, document_id=_another_document(bench, other, tmp_path))
        os.kill(worker, signal.SIGKILL)
        assert run.wait(60) in (0, 1)
    ended: dict[int, Any] = dict(bench.rows("select job_id, finished_at from batchproc.processing_jobs"))
    ranges = [ended[jobs(scan)[name]["job_id"]] for name in RANGES]
    assert ended[small] < sorted(ranges)[1], "it waited for one range at most"


def _another_document(bench: Bench, tenant: int, folder: Path) -> int:
    from tests.handlers.running_job import add_document

    file = folder / "other.txt"
    file.write_bytes(b"other")
    return add_document(bench.connection, tenant, file)


@pytest.mark.long
def test_a_join_is_enqueued_although_the_last_range_is_rescued_by_another(bench: Bench, tmp_path: Path) -> None:
    scan = large(bench, tmp_path, {12: ["wait"]})
    with scan.started() as run:
        scan.wait_for_call(12)
        wait_until(
            lambda: bench.rows("select ranges_left from batchproc.ocr_revisions") == [(1,)], 30.0, "one range is left"
        )
        run.kill_node()
        assert run.wait(60) == 3
    await_end_of_leases(bench)
    assert scan.run() == 0
    assert jobs(scan)["10-12"]["node_losses"] == 1
    assert_joined_once(scan, {12: 2})
