"""The summary of a run: what stands in a failure's line cannot forge another."""

from __future__ import annotations

import pytest

from batchproc.core.brake import ENVIRONMENT_CODES, Braked
from batchproc.engine.counts import Counts
from batchproc.engine.node import RunReport
from batchproc.ops import summary


def test_a_detail_stays_on_its_line_and_moves_no_cursor() -> None:
    failure = {
        "job_id": 7,
        "kind": "ocr",
        "document_id": 3,
        "path": b"a.pdf",
        "failure_code": "encrypted",
        "document_status": None,
        "detail": "no\nrun 1: all well\x1b[2J",
        "tenant": "acme",
    }
    line, _ = summary.lines(RunReport(1, Counts(), 0, 0.0, 1), [failure], ())
    assert line == (
        r"acme: job 7 ocr document 3 a.pdf: encrypted (no\nrun 1: all well\x1b[2J): "
        "give its tenant a password file (tenants set SLUG --password-file PATH), then retry it"
    )


def test_accepted_codes_are_counted_and_not_listed() -> None:
    failure = {
        "job_id": 7,
        "kind": "ocr",
        "document_id": None,
        "path": None,
        "failure_code": "encrypted",
        "document_status": None,
        "detail": None,
        "tenant": "acme",
    }
    counts = Counts(claimed=1, discarded=1)
    counts.codes["encrypted"] = 1
    codes, run = summary.lines(RunReport(1, counts, 0, 0.0, 0), [failure], ["encrypted"])
    assert codes == "failure codes: encrypted 1"
    assert run == "run 1: 1 claimed, 0 completed, 1 discarded, 0 left, 0.0 s, exit 0"


def test_a_run_that_was_stopped_says_so() -> None:
    stopped, _ = summary.lines(RunReport(1, Counts(), 5, 0.0, 0, stopped=True), [], ())
    assert stopped == "stopped by a signal before everything was done"
    stopped, _ = summary.lines(RunReport(1, Counts(), 0, 0.0, 0, stopped=True), [], ())
    assert stopped == "stopped by a signal"


def test_a_braked_kind_is_told_with_its_cause_and_what_to_do_next() -> None:
    braked = Braked("ocr", "source_missing", "20 jobs in a row ended with source_missing")
    report = RunReport(1, Counts(), 5, 0.0, 3, braked=(braked,))

    told, _ = summary.lines(report, [], ())

    assert told == (
        "kind ocr is paused by the brake: 20 jobs in a row ended with source_missing: check that the archive is mounted"
        " (batchproc jobs list --kind ocr --failure-code source_missing names the jobs, batchproc jobs show JOB_ID what"
        " each of their attempts met), then: batchproc kinds set ocr --resume; a job that was discarded waits again"
        " after: batchproc jobs retry JOB_ID"
    )
    assert summary.plain(report)["braked"] == {"ocr": "source_missing"}


@pytest.mark.parametrize("code", sorted(ENVIRONMENT_CODES))
def test_every_code_of_the_brake_has_advice_of_its_own(code: str) -> None:
    told, _ = summary.lines(RunReport(1, Counts(), 0, 0.0, 3, braked=(Braked("ocr", code, "why"),)), [], ())

    assert "mend what is wrong" not in told
