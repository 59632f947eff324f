"""The summary of a run: worst first, on one screen, and what stands in a failure's line cannot forge another."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from batchproc.core.brake import ENVIRONMENT_CODES, Braked
from batchproc.engine.counts import Counts
from batchproc.engine.node import RunReport
from batchproc.ops import summary
from batchproc.ops.summary import Worked


def failure(**fields: Any) -> dict[str, Any]:
    return {
        "tenant": "acme",
        "job_id": 7,
        "kind": "ocr",
        "document_id": 3,
        "path": b"a.pdf",
        "failure_code": "encrypted",
        "state": "discarded",
        "jobs": 1,
        "failed_pages": 0,
        "groups": 1,
        "detail": None,
    } | fields


def test_a_detail_stays_on_its_line_and_moves_no_cursor() -> None:
    told, _ = summary.lines(
        RunReport(1, Counts(), 0, 0.0, 1), [failure(detail="no\nrun 1: all well\x1b[2J", path=b"a\n\x1b[2J.pdf")], ()
    )
    assert told.splitlines() == [
        "acme: 1 job failed: encrypted: give its tenant a password file (batchproc tenants set acme --password-file"
        " PATH), then retry it",
        r"    job 7 ocr document 3 a\x0a\x1b[2J.pdf (no\nrun 1: all well\x1b[2J)",
    ]


def test_failures_of_a_tenant_and_code_are_one_entry_with_examples_and_the_way_to_the_rest() -> None:
    rows = [failure(job_id=job_id, jobs=12, failure_code="empty_file") for job_id in (7, 8, 9)]
    told, _ = summary.lines(RunReport(1, Counts(), 0, 0.0, 1), rows, ())
    assert told.splitlines() == [
        "acme: 12 jobs failed: empty_file: scan or upload it again",
        "    job 7 ocr document 3 a.pdf",
        "    job 8 ocr document 3 a.pdf",
        "    job 9 ocr document 3 a.pdf",
        "    and 9 more: batchproc jobs list --tenant acme --state discarded --failure-code empty_file",
    ]


def test_partial_documents_tell_what_their_pages_failed_with() -> None:
    row = failure(state="completed", jobs=2, failed_pages=5, failure_code="timeout")
    told, _ = summary.lines(RunReport(1, Counts(), 0, 0.0, 1), [row], ())
    first, example, more = told.splitlines()
    assert first == (
        "acme: 2 documents partial, 5 pages failed: timeout: raise the kind's timeout under kinds:, or look at it:"
        " batchproc jobs retry 7, then batchproc --once 7"
    )
    assert (example, more) == (
        "    job 7 ocr document 3 a.pdf",
        "    and 1 more: batchproc documents list --tenant acme --status partial",
    )


def test_a_night_of_failures_fits_a_screen_of_24_lines_of_80_columns() -> None:
    counts = Counts(claimed=30_000, completed=28_811, retried=12, discarded=913, partial=14, interrupted=8)
    codes = ("unreadable_file", "encrypted", "unsupported_type", "timeout", "poison")
    for code in codes:
        counts.codes[code] = 130
    rows = [
        failure(tenant=f"stadtwerke-{number}", failure_code=code, jobs=130, groups=40, detail="d" * 1000)
        for number, code in enumerate(codes)
    ]
    report = RunReport(
        412,
        counts,
        61_300,
        28_700.0,
        1,
        window_ended=True,
        nights_left=3,
        left_by_kind={"ocr": 61_000, "workflow": 300},
    )
    done = Worked(pages=101_000, failed_pages=31, seconds=220_000, slots=8)

    shown = summary.on_screen(summary.lines(report, rows, (), done))

    assert len(shown) <= 24
    wide = [line for line in shown if cell_len(line) > 80]
    assert all(line.startswith("    ") for line in wide), "only what is to be copied is longer"
    assert "and 35 more such groups: batchproc report 412" in shown
    assert shown[0].startswith("stadtwerke-0: 130 jobs failed: unreadable_file")
    text = "\n".join(shown)
    assert "its window ended before 61,300 jobs (61,000 ocr, 300 workflow) could be done:" in text
    assert "about 3\n  more such nights" in text or "about 3 more such nights" in text
    assert "101,000 pages (31 failed), 3.5/s; 28,811 jobs, 1.0/s;" in text
    assert "8 workers busy 96%" in text
    assert text.endswith("exit 1")


def test_a_command_within_a_sentence_is_not_broken_over_lines() -> None:
    row = failure(tenant="stadtwerke-weimar")
    shown = summary.on_screen(summary.lines(RunReport(1, Counts(), 0, 0.0, 1), [row], ()))
    assert any("batchproc tenants set stadtwerke-weimar --password-file PATH" in line for line in shown)
    assert max(map(cell_len, shown)) <= 80
    assert "\N{NO-BREAK SPACE}" not in "".join(shown)


def test_accepted_codes_are_counted_and_not_listed() -> None:
    counts = Counts(claimed=1, discarded=1)
    counts.codes["encrypted"] = 1
    codes, run = summary.lines(RunReport(1, counts, 0, 0.0, 0), [failure()], ["encrypted"])
    assert codes == "failure codes: encrypted 1"
    assert run == "run 1: 1 claimed, 0 completed, 1 discarded, 0 left, 0.0 s, exit 0"


def test_a_run_that_was_stopped_says_so() -> None:
    stopped, _ = summary.lines(RunReport(1, Counts(), 5, 0.0, 0, stopped=True, left_by_kind={"ocr": 5}), [], ())
    assert stopped == "stopped by a signal before everything was done (5 ocr)"
    stopped, _ = summary.lines(RunReport(1, Counts(), 0, 0.0, 0, stopped=True), [], ())
    assert stopped == "stopped by a signal"


def test_a_window_that_ended_names_what_is_left_and_what_never_fits_in() -> None:
    report = RunReport(
        1,
        Counts(claimed=1, completed=1),
        3,
        60.0,
        0,
        window_ended=True,
        nights_left=1,
        left_by_kind={"ocr": 1, "slow": 2},
        too_long={"slow": 7200.0},
    )
    window, too_long, _ = summary.lines(report, [], ())
    assert window == "its window ended before 3 jobs (2 slow, 1 ocr) could be done: about 1 more such night"
    assert too_long.startswith("slow jobs take about 2 h 00 min each, longer than the whole window")
    assert too_long.endswith("\n    batchproc run --kind slow")
    assert summary.plain(report)["left_by_kind"] == {"ocr": 1, "slow": 2}
    assert (summary.plain(report)["window_ended"], summary.plain(report)["nights_left"]) == (True, 1)


def test_the_use_of_the_workers_is_a_share_of_their_time() -> None:
    report = RunReport(1, Counts(claimed=2, completed=2), 0, 10.0, 0)
    assert summary.plain(report, Worked(seconds=15.0, slots=2))["slot_use"] == 0.75
    assert summary.plain(report, Worked(seconds=15.0, slots=None))["slot_use"] is None
    rates, _ = summary.lines(report, [], (), Worked(seconds=15.0, slots=1))
    assert rates == "2 jobs, 12.0/min; 1 worker busy 100% of the time"
    assert "slot_use" not in summary.plain(report)


def test_a_braked_kind_is_told_with_its_cause_and_what_to_do_next() -> None:
    braked = Braked("ocr", "source_missing", "20 jobs in a row ended with source_missing")
    report = RunReport(1, Counts(), 5, 0.0, 3, braked=(braked,))

    told, _ = summary.lines(report, [], ())

    assert told.splitlines() == [
        "kind ocr is paused by the brake: 20 jobs in a row ended with source_missing: check that the archive is"
        " mounted, then resume it; a job that was discarded waits again after a retry",
        "    batchproc jobs list --kind ocr --failure-code source_missing",
        "    batchproc kinds set ocr --resume",
        "    batchproc jobs retry JOB_ID",
    ]
    assert summary.plain(report)["braked"] == {"ocr": "source_missing"}


@pytest.mark.parametrize("code", sorted(ENVIRONMENT_CODES))
def test_every_code_of_the_brake_has_advice_of_its_own(code: str) -> None:
    told, _ = summary.lines(RunReport(1, Counts(), 0, 0.0, 3, braked=(Braked("ocr", code, "why"),)), [], ())

    assert "mend what is wrong" not in told
