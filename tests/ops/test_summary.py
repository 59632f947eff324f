"""The summary of a run: worst first, on one screen, and what stands in a failure's line cannot forge another."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from rich.cells import cell_len

from batchproc.core.brake import ENVIRONMENT_CODES, Braked
from batchproc.documents.walk import _mounted_later
from batchproc.engine.counts import Counts
from batchproc.engine.node import RunReport
from batchproc.ops import summary
from batchproc.ops.summary import Worked
from batchproc.queue.nights import Kept


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
        "tenants": 1,
        "detail": None,
    } | fields


def test_a_detail_stays_on_its_line_and_moves_no_cursor() -> None:
    told, _ = summary.lines(
        RunReport(1, Counts(), 0, 0.0, 1), [failure(detail="no\nrun 1: all well\x1b[2J", path=b"a\n\x1b[2J.pdf")], ()
    )
    assert told.splitlines() == [
        "acme: 1 job failed: encrypted: give its tenant a password file: batchproc tenants set acme --password-file"
        " PATH, then: batchproc jobs retry 7",
        r"    job 7 ocr document 3 a\x0a\x1b[2J.pdf (no\nrun 1: all well\x1b[2J)",
    ]


def test_failures_of_a_tenant_and_code_are_one_entry_with_examples_and_the_way_to_the_rest() -> None:
    rows = [failure(job_id=job_id, jobs=12, failure_code="empty_file") for job_id in (7, 8, 9)]
    told, _ = summary.lines(RunReport(1, Counts(), 0, 0.0, 1), rows, ())
    assert told.splitlines() == [
        "acme: 12 jobs failed: empty_file: scan it again and import that, as a new document; this one stays as it is"
        " (to hear of no more such: run.accept_codes)",
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
        " batchproc reprocess --document 3, then batchproc --once"
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
        failure(tenant=f"stadtwerke-{number}", failure_code=code, jobs=130, groups=40, tenants=5, detail="d" * 1000)
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
    groups = sum(line.startswith("stadtwerke-") for line in shown)
    assert 4 <= groups <= summary.SHOWN_GROUPS
    assert re.search(rf"^and {40 - groups} more such groups.*: batchproc report 412$", "\n".join(shown), re.MULTILINE)
    assert shown[0].startswith("stadtwerke-0: 130 jobs failed: unreadable_file")
    text = "\n".join(shown)
    assert "its window ended before 61,300 jobs (61,000 ocr, 300 workflow) could be done:" in text
    assert "about 3\n  more such nights" in text or "about 3 more such nights" in text
    assert "101,000 pages (31 failed), 3.5/s; 29,724 jobs, 1.0/s;" in text
    assert "8 workers busy 96%" in text
    assert text.endswith("exit 1")


LONG = b"/srv/" + b"a very long folder/" * 130 + "Übersicht \u65e5\u672c.pdf".encode()
NOTHING = Counts()


def everything(**more: Any) -> tuple[RunReport, list[dict[str, Any]]]:
    """The worst of nights: many of all that a summary can tell of."""
    counts = Counts(claimed=30_000, completed=9, retried=12, discarded=913, partial=40, snoozed=70, interrupted=8)
    for number in range(80):
        counts.codes[f"own_code_of_a_handler_{number}"] = 1 + number
        counts.storages[f"the storage root /srv/archive-{number} is not mounted" + "x" * 1900] = 1 + number
    counts.partial_codes["stalled"] = 40
    rows = [
        failure(
            tenant=f"stadtwerke-{number}",
            failure_code="missing_language",
            jobs=130,
            groups=400,
            tenants=90,
            detail="d" * 1000,
            path=LONG,
            job_id=10**9 + number,
            document_id=10**9,
        )
        for number in range(8)
    ]
    report = RunReport(
        412,
        counts,
        61_300,
        28_700.0,
        3,
        window_ended=True,
        nights_left=3,
        braked=tuple(Braked(f"kind_{number}", "source_missing", "20 jobs in a row ended so") for number in range(7)),
        warnings=tuple(f"run.accept_codes: no kind declares the failure code {number}" for number in range(30)),
        left_by_kind={f"kind_{number}": 100 + number for number in range(60)},
        too_long={f"kind_{number}": 90_000.0 + number for number in range(40)},
        **more,
    )
    return report, rows


def test_the_command_that_a_gone_storage_names_is_told_whole() -> None:
    path = "/srv/archive/" + "year-" * 30 + "2021"
    said = _mounted_later(path.encode()).args[0]
    counts = Counts(snoozed=3, storages=Counter({said: 3}))
    shown = " ".join(summary.lines(RunReport(1, counts, 3, 1.0, 3), [], ()))
    assert f" batchproc storage accept {path} " in " ".join(shown.split())


def test_the_worst_of_nights_is_one_screen_too_and_says_how_much_more_there_is() -> None:
    report, rows = everything()
    done = Worked(pages=101_000, failed_pages=31, seconds=220_000, slots=8)

    shown = summary.on_screen(summary.lines(report, rows, ["stalled"], done, ["ocr"]))

    text = "\n".join(shown)
    assert len(shown) <= 24, text
    assert max(map(cell_len, shown)) <= 80, text
    for told in (
        "7 kinds are paused by the brake: batchproc kinds list",
        "80 storages do not answer: batchproc jobs list --failure-code storage_unavailable",
        "stadtwerke-0: 130 jobs failed: missing_language: ",
        "and 399 more such groups, also of stadtwerke-1, ",
        "30 warnings are in the log",
        "of 58 more) could be done",
        "40 kinds take longer than the whole window",
        "60 kinds have jobs left and no handler here",
        "failure codes: own_code_of_a_handler_79 80, own_code_of_a_handler_78 79 and 3,081 of 78 more",
    ):
        assert told in text.replace("\n  ", " "), told
    assert "partial with accepted codes: stalled 40" in text
    assert text.endswith("exit 3")


@pytest.mark.parametrize(("braked", "storages", "groups", "warnings"), [(1, 0, 3, 0), (0, 3, 8, 0), (2, 2, 2, 4)])
def test_what_fits_is_shown_and_each_list_says_what_does_not(
    braked: int, storages: int, groups: int, warnings: int
) -> None:
    counts = Counts(claimed=9, storages=Counter({f"the root /{number} is gone": 3 for number in range(storages)}))
    rows = [
        failure(tenant=f"t{group}", job_id=group * 10 + job, jobs=9, groups=groups, tenants=groups, failure_code="odd")
        for group in range(groups)
        for job in range(3)
    ]
    report = RunReport(
        1,
        counts,
        0,
        1.0,
        3,
        braked=tuple(Braked(f"k{number}", "poison", "20 in a row") for number in range(braked)),
        warnings=tuple(f"number {number}" for number in range(warnings)),
    )
    shown = summary.on_screen(summary.lines(report, rows, ()))
    assert len(shown) <= 24
    told = [sum(line.startswith(start) for line in shown) for start in ("kind k", "the root", "t", "warning:")]
    told[2] -= told[1]
    for number, all_of_them in zip(told, (braked, storages, groups, warnings), strict=True):
        assert min(1, all_of_them) <= number <= all_of_them
    left_out = [int(found) for found in re.findall(r"^and (\d+) more", "\n".join(shown), re.MULTILINE)]
    assert sum(told) + sum(left_out) == braked + storages + groups + warnings


def test_a_tenant_that_found_no_room_is_named() -> None:
    rows = [
        *(failure(tenant=slug, groups=12, tenants=9) for slug in ("a", "b", "c", "d", "e", "f", "g")),
        failure(tenant="a", failure_code="empty_file", groups=12, tenants=9),
    ]
    text = summary.lines(RunReport(1, NOTHING, 0, 0.0, 1), rows, ())
    assert text[5] == "and 7 more such groups, also of f, g and 2 other tenants: batchproc report 1"


def test_a_path_is_cut_at_its_start_and_leaves_room_for_what_the_handler_said() -> None:
    row = failure(path=LONG, detail="it says 300 words that nobody can read on this page of the archive" * 3)
    for changed in (row, row | {"detail": None}, row | {"kind": "k" * 60, "document_id": 10**12}):
        _, example = summary.lines(RunReport(1, NOTHING, 0, 0.0, 1), [changed], ())[0].splitlines()
        assert cell_len(example) <= 80
        assert "…" in example
    _, example = summary.lines(RunReport(1, NOTHING, 0, 0.0, 1), [row], ())[0].splitlines()
    path, detail = example.split(" (")
    assert path.startswith("    job 7 ocr document 3 …")
    assert path.endswith("\u65e5\u672c.pdf")
    assert detail.startswith("it says 300 words")
    assert detail.endswith("…)")


def test_the_seconds_of_a_run_are_those_of_its_row() -> None:
    report = RunReport(1, Counts(claimed=2, completed=2), 0, 30.0, 0)
    done = Worked(seconds=15.0, slots=2, lasted=10.0)
    assert (summary.plain(report, done)["seconds"], summary.plain(report, done)["slot_use"]) == (10.0, 0.75)
    assert summary.plain(report)["seconds"] == 30.0
    rates, run = summary.lines(report, [], (), done)
    assert rates == "2 jobs in 10 s; 2 workers busy 75% of the time"
    assert run.endswith("10 s, exit 0")


def test_jobs_that_were_given_up_on_are_jobs_that_the_run_got_through() -> None:
    rates = summary.lines(RunReport(1, Counts(claimed=1, discarded=1), 0, 2.0, 1), [], (), Worked(1, 0, 1.0, 1))[-2]
    assert rates == "1 page and 1 job in 2.0 s; 1 worker busy 50% of the time"
    counts = Counts(claimed=9, completed=30, discarded=20, cancelled=10, retried=5, snoozed=4, interrupted=3)
    assert summary.lines(RunReport(1, counts, 0, 60.0, 1), [], (), Worked())[-2] == "60 jobs, 1.0/s"


def test_what_waits_for_a_person_is_told_with_the_command_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = (
        Kept("paused", None, "classify", None, "x\x1b[2J\ny", 7),
        Kept("paused", "acme", None, None, None, 1),
        Kept("paused", None, "ocr", None, None, 1),
        Kept("paused", None, None, 7, None, 3),
        Kept("limit", None, "ocr", None, None, 1),
        Kept("limit", "acme", None, None, None, 2),
    )
    few = summary.lines(RunReport(1, Counts(), 9, 1.0, 0, kept=kept), [], ())
    assert few[3] == "and 3 more tenants, kinds and campaigns keep jobs back by a pause or a limit of 0"
    thousands = RunReport(1, Counts(), 9, 1.0, 0, kept=kept, kept_more=9994)
    assert summary.lines(thousands, [], ())[3].startswith("and 9,997 more tenants, ")
    assert (len(summary.plain(thousands)["kept"]), summary.plain(thousands)["kept_more"]) == (6, 9994)
    monkeypatch.setattr(summary, "_ROOMS", (summary._Room(5, 3, 3, len(kept), 6),))
    told = summary.lines(RunReport(1, Counts(), 9, 1.0, 0, kept=kept), [], ())
    assert told[:-1] == [
        r"7 classify jobs left: the kind is paused (x\x1b[2J\ny): batchproc kinds set classify --resume",
        "1 job of acme left: the tenant is paused: batchproc tenants set acme --resumed",
        "1 ocr job left: the kind is paused: batchproc kinds set ocr --resume",
        "3 jobs of campaign 7 left: it is paused: batchproc campaigns resume 7",
        "1 ocr job left: the kind has a limit of 0: batchproc kinds set ocr --limit N",
        "2 jobs of acme left: the tenant has a limit of 0: batchproc tenants set acme --max-running N",
    ]


def test_where_no_job_came_to_its_end_its_attempts_are_counted() -> None:
    told = summary.lines(RunReport(1, Counts(claimed=1, retried=1), 1, 0.057, 0), [], (), Worked(0, 0, 0.05, 1, 0.057))
    assert told[0].startswith("1 attempt in 57 ms")


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


def test_jobs_of_kinds_without_a_handler_are_told() -> None:
    report = RunReport(1, Counts(), 4, 1.0, 0, left_by_kind={"letter_date": 1, "ocr": 1, "stamp": 2})
    told = summary.lines(report, [], (), known={"ocr", "classify"})
    assert told[:2] == [
        "2 stamp jobs left: no handler for it in these settings (handlers, BATCHPROC_CONF, PYTHONPATH)",
        "1 letter_date job left: no handler for it in these settings (handlers, BATCHPROC_CONF, PYTHONPATH)",
    ]
    assert len(told) == 3
    assert not any("no handler" in line for line in summary.lines(report, [], ())), "nobody can tell"


def test_the_use_of_the_workers_is_a_share_of_their_time() -> None:
    report = RunReport(1, Counts(claimed=2, completed=2), 0, 10.0, 0)
    assert summary.plain(report, Worked(seconds=15.0, slots=2))["slot_use"] == 0.75
    assert summary.plain(report, Worked(seconds=15.0, slots=None))["slot_use"] is None
    rates, _ = summary.lines(report, [], (), Worked(seconds=15.0, slots=1))
    assert rates == "2 jobs in 10 s; 1 worker busy 100% of the time"


@pytest.mark.parametrize(
    ("seconds", "pages", "jobs", "told"),
    [
        (3.2, 700, 2, "700 pages (1 failed) and 2 jobs in 3.2 s"),
        (3.2, 0, 2, "2 jobs in 3.2 s"),
        (40.0, 200, 2, "200 pages (1 failed), 5.0/s; 2 jobs in 40 s"),
        (120.0, 60, 3, "60 pages (1 failed), 30.0/min; 3 jobs, 1.5/min"),
        (7200.0, 60, 3, "60 pages (1 failed), 30.0/h; 3 jobs, 1.5/h"),
    ],
)
def test_a_rate_is_told_of_no_more_than_there_was(seconds: float, pages: int, jobs: int, told: str) -> None:
    report = RunReport(1, Counts(claimed=jobs, completed=jobs), 0, seconds, 0)
    rates, _ = summary.lines(report, [], (), Worked(pages=pages, failed_pages=1, seconds=1.0))
    assert rates == told
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
