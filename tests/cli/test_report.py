"""``report``, ``usage`` and the summary of ``run``, as the command line prints them after real runs."""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batchproc.engine.node import RunOptions
from tests.cli.shell import Shell
from tests.engine.running import HANDLERS, Bench, bench_on, only
from tests.ocr import drawn

QUICK_OCR: dict[str, Any] = {"ocr": {"languages": ["eng"], "dpi": 70, "orientation": False}}


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    made = bench_on(database_url)
    yield made
    made.connection.close()


@pytest.fixture
def shell(bench: Bench, capfd: pytest.CaptureFixture[str]) -> Shell:
    return Shell(bench.url, capfd, codes=(0, 1))


def test_the_report_of_a_run_agrees_with_its_tables(bench: Bench, shell: Shell, tmp_path: Path) -> None:
    acme, beta = bench.tenant("acme"), bench.tenant("beta")
    for tenant, kind, jobs in (
        (acme, "t_quick", 6),
        (acme, "t_declared", 3),
        (beta, "t_brief", 2),
        (beta, "t_fail", 1),
    ):
        for _ in range(jobs):
            bench.enqueue(tenant, kind)
    run = bench.run()

    found = shell.json("report")

    assert found["subject"]["name"] == f"run {run.run_id}"
    assert found["subject"]["counts"] == run.counts.plain()
    assert (found["subject"]["slots"], found["subject"]["exit_code"], found["subject"]["pruned"]) == (2, 1, 0)
    tables = bench.rows(
        "select j.kind, count(*), sum(a.seconds)::float from batchproc.job_attempts a"
        " join batchproc.processing_jobs j using (job_id) group by 1"
    )
    assert {k["kind"]: (k["attempts"], pytest.approx(k["seconds"])) for k in found["kinds"]} == {
        kind: (attempts, seconds) for kind, attempts, seconds in tables
    }
    assert {k["kind"]: (k["completed"], k["discarded"]) for k in found["kinds"]} == {
        "t_quick": (6, 0),
        "t_declared": (0, 3),
        "t_brief": (2, 0),
        "t_fail": (0, 1),
    }
    assert [(g["tenant"], g["failure_code"], g["jobs"]) for g in found["failures"]] == [
        ("acme", "no_luck", 3),
        ("beta", "internal_error", 1),
    ]
    assert found["retried"][0] | {"seconds": 0} == {
        "kind": "t_fail",
        "failure_code": "internal_error",
        "attempts": 4,
        "seconds": 0,
    }
    assert sum(sum(stretch["completed"].values()) for stretch in found["stretches"]) == 8
    busy = sum(sum(stretch["busy"].values()) for stretch in found["stretches"])
    assert busy == pytest.approx(found["worker_seconds"], rel=0.02)
    assert 0 < found["slot_use"] <= 1
    assert {tenant["tenant"] for tenant in found["tenants"]} == {"acme", "beta"}

    page = tmp_path / "night.html"
    assert shell.run("report", str(run.run_id), "--html", str(page)) == 0
    assert (shell.out, shell.err) == (f"run {run.run_id}: {page}\n", "")
    text = page.read_text("utf-8")
    assert f"<h1>Run {run.run_id}</h1>" in text
    assert "page 3 of 7" in text
    assert list(tmp_path.iterdir()) == [page]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(page.stat().st_mode) == 0o666 & ~mask
    assert shell.run("report", "--html", "-") == 0
    assert shell.out == text

    assert shell.run("report") == 0
    assert re.search(r"^jobs completed +8$", shell.out, re.MULTILINE)
    assert "acme: no_luck, 3 jobs: see: batchproc jobs show " in shell.out
    assert max(len(line) for line in shell.out.splitlines() if not line.startswith("    ")) <= 80


def test_summary_and_report_tell_of_one_run_alike(bench: Bench, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCHPROC_HANDLERS", json.dumps([HANDLERS]))
    tenant = bench.tenant("acme")
    for kind in ("t_brief", "t_brief", "t_declared"):
        bench.enqueue(tenant, kind)
    summed = shell.json("run", "--workers", "2")
    found = shell.json("report", str(summed["run_id"]))
    assert summed["seconds"] == pytest.approx(found["subject"]["seconds"], abs=0.0006), "rounded"
    for key in ("worker_seconds", "slot_use", "pages", "failed_pages"):
        assert summed[key] == pytest.approx(found[key], abs=0.0006), key
    assert summed["partial_codes"] == {}


def test_a_retry_changes_no_report_but_says_that_it_happened(bench: Bench, shell: Shell) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_declared") for _ in range(3)]
    bench.run()
    before = shell.json("report")
    assert shell.run("jobs", "retry", str(jobs[0])) == 0
    after = shell.json("report")
    for key in ("subject", "stretches", "retried", "worker_seconds", "tenants"):
        assert after[key] == before[key], key
    assert [(kind["discarded"], kind["retried"]) for kind in after["kinds"]] == [(3, 1)]
    assert (before["retried_since"], after["retried_since"]) == (0, 1)
    [was], [now] = before["failures"], after["failures"]
    assert [example["now"] for example in now["examples"]] == ["available", None, None]
    assert now | {"examples": was["examples"]} == was, "what failed, and with what, stays in the report of that night"
    assert shell.run("report") == 0
    told = f"retried since: 1 of the jobs given up on; what came of it: batchproc jobs show {jobs[0]}"
    assert told in shell.out.splitlines()
    assert len(told) <= 80
    assert re.search(r"^given up on +3$", shell.out, re.MULTILINE)


def test_a_report_keeps_a_failure_whatever_became_of_its_job(bench: Bench, shell: Shell, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    [[document]] = bench.rows(
        "insert into batchproc.documents (tenant_id, root, path, sha256, bytes) values (%s, '/', 'a.pdf', %s, 1)"
        " returning document_id",
        tenant,
        b"s" * 32,
    )
    job = bench.enqueue(tenant, "t_declared", document_id=document)
    night = bench.run().run_id
    failed = f"    job {job} t_declared document {document} a.pdf (page 3 of 7)"
    told = f"retried since: 1 of the jobs given up on; what came of it: batchproc jobs show {job}"

    def report() -> list[str]:
        assert shell.run("report", night) == 0
        assert re.search(r"^given up on +1$", shell.out, re.MULTILINE)
        assert "What to look at" in shell.out
        [line] = [line for line in shell.out.splitlines() if line.startswith("    job ")]
        return [line, *(line for line in shell.out.splitlines() if line == told)]

    assert report() == [failed]
    for command, now in (("retry", "available"), ("discard", "discarded, given_up")):
        assert shell.run("jobs", command, job) == 0
        assert report() == [f"{failed}; now {now}", told]
    page = tmp_path / "night.html"
    assert shell.run("report", night, "--html", page) == 0
    assert f"{told}.</p>" in page.read_text()
    assert "(page 3 of 7); now discarded, given_up</li>" in page.read_text()
    # In another run.
    bench.rows("update batchproc.processing_jobs set run_id = %s, failure_code = 'no_luck' returning 1", night + 1)
    assert report() == [f"{failed}; now discarded, no_luck", told]
    bench.rows("update batchproc.processing_jobs set state = 'completed', failure_code = null returning 1")
    assert report() == [f"{failed}; now completed", told]


def test_a_night_that_may_do_one_job_is_none_of_those_in_which_somebody_looked(bench: Bench, shell: Shell) -> None:
    acme = bench.tenant("acme")
    for _ in range(2):
        bench.enqueue(acme, "t_quick")
    night = bench.run(RunOptions(workers=1, max_jobs=1))
    looked = bench.run(RunOptions(workers=1, once=True))
    assert [run.counts.claimed for run in (night, looked)] == [1, 1]
    assert shell.json("report")["subject"]["id"] == night.run_id
    listed = shell.json("report", "--list")["runs"]
    assert [(run["run_id"], run["single"]) for run in listed] == [(looked.run_id, True), (night.run_id, False)]


def test_what_a_handler_said_is_cut_and_on_a_terminal_a_path_is_cut_to_fit(
    bench: Bench, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = bench.tenant("acme")
    path = "/archive/" + "folder/" * 100 + "letter.pdf"
    [[document]] = bench.rows(
        "insert into batchproc.documents (tenant_id, root, path, sha256, bytes) values (%s, '/', %s, %s, 1)"
        " returning document_id",
        tenant,
        path.encode(),
        b"s" * 32,
    )
    bench.enqueue(tenant, "t_declared", document_id=document)
    bench.run()
    bench.rows("update batchproc.job_attempts set detail = repeat('said ', 300) returning 1")
    assert shell.run("report") == 0
    [line] = [line for line in shell.out.splitlines() if line.startswith("    job ")]
    assert f" {path} (said said" in line
    assert len(line) < len(path) + 130
    monkeypatch.setattr("batchproc.cli.shared.output.screen_width", lambda: 80)
    monkeypatch.setattr("batchproc.cli.reports.report.screen_width", lambda: 80)
    assert shell.run("report") == 0
    [line] = [line for line in shell.out.splitlines() if line.startswith("    job ")]
    assert len(line) <= 80
    assert "/letter.pdf (said" in line


def test_what_was_pruned_is_said_to_be_missing(bench: Bench, shell: Shell) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_quick") for _ in range(4)]
    bench.run()
    bench.rows("delete from batchproc.processing_jobs where job_id = any(%s) returning 1", jobs[:3])
    assert shell.json("report")["subject"]["pruned"] == 3
    shell.run("report")
    assert "3 of its attempts have been pruned, and are not counted here" in shell.out
    assert sum(row["completed"] for row in shell.json("usage")["usage"]) == 4


@pytest.mark.long
def test_the_report_of_a_campaign_compares_texts(bench: Bench, shell: Shell, tmp_path: Path) -> None:
    bench.tenant("acme")
    for number in range(2):
        words = drawn.shown(f"Letter number {number} about the roof")
        (tmp_path / f"{number}.pdf").write_bytes(drawn.pdf(drawn.PdfPage(words)))
    (tmp_path / "odd <b>.pdf").write_bytes(b"")
    assert shell.run("import", str(tmp_path), "--tenant", "acme") == 0
    assert bench.run(RunOptions(workers=2), **QUICK_OCR).counts.codes == {"empty_file": 1}
    first = shell.json("report")
    assert (first["pages"], first["result"]["first_texts"], first["result"]["compared"]) == (2, 2, 0)
    assert [(slow["tenant"], slow["path"]) for slow in first["slowest"]][-1] == ("acme", "odd <b>.pdf")

    assert shell.run("reprocess", "--status", "completed", "--mode", "force") == 0
    [[campaign]] = bench.rows("select max(campaign_id) from batchproc.campaigns")
    going_on = shell.json("report", "--campaign", str(campaign))
    assert (going_on["subject"]["goes_on"], going_on["subject"]["left"], going_on["kinds"]) == (True, 2, [])
    assert shell.run("report", "--campaign", str(campaign)) == 0
    assert "It goes on since" in shell.out
    bench.run(RunOptions(workers=2), **QUICK_OCR)
    done = shell.json("report", "--campaign", str(campaign))
    assert (done["subject"]["goes_on"], done["subject"]["left"], done["pages"]) == (False, 0, 2)
    assert done["result"]["compared"] == 2
    page = tmp_path / "campaign.html"
    assert shell.run("report", "--campaign", str(campaign), "--html", str(page)) == 0
    assert "reprocess" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["report"], 2, "there has been no run"),
        (["report", "7"], 2, "there is no run 7"),
        (["report", "--campaign", "7"], 2, "there is no campaign 7"),
        (["report", "7", "--campaign", "7"], 2, "a run or on a campaign"),
        (["usage", "--tenant", "nobody"], 2, "there is no tenant 'nobody'"),
        (["usage", "--kind", "ocr", "--kind", "nope"], 2, "there is no kind 'nope': see: batchproc kinds list"),
        (["usage", "--since", "2026-02-02", "--until", "2026-02-01"], 2, "give the earlier day to --since"),
    ],
)
def test_wrong_usage_is_one_line(shell: Shell, arguments: list[str], code: int, message: str) -> None:
    assert shell.run(*arguments) == code
    assert message in shell.err
    assert (shell.err.count("\n"), shell.out) == (1, "")


def test_a_page_that_cannot_be_written_leaves_nothing(bench: Bench, shell: Shell, tmp_path: Path) -> None:
    bench.rows("insert into batchproc.runs (node_id, finished_at) values (gen_random_uuid(), now()) returning 1")
    assert shell.run("report", "--html", str(tmp_path / "none" / "a.html")) == 3
    assert "none/a.html: No such file or directory: name a file" in shell.err
    taken = tmp_path / "taken"
    taken.mkdir()
    assert shell.run("report", "--html", str(taken)) in (2, 3)
    assert list(tmp_path.iterdir()) == [taken]


def test_a_page_goes_through_a_link_and_into_a_device(bench: Bench, shell: Shell, tmp_path: Path) -> None:
    bench.rows("insert into batchproc.runs (node_id, finished_at) values (gen_random_uuid(), now()) returning 1")
    page, link = tmp_path / "page.html", tmp_path / "newest.html"
    link.symlink_to(page)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, 1 << 20)
        for file in (link, Path(os.devnull), pipe):
            assert shell.run("report", "--html", str(file)) == 0, shell.err
        assert os.read(reading, 15).lower() == b"<!doctype html>"
    finally:
        os.close(reading)
    assert link.is_symlink()
    assert "</html>" in page.read_text()
    assert Path(os.devnull).is_char_device()
    assert pipe.is_fifo()


def test_usage_tells_days_tenants_and_kinds_in_slices(bench: Bench, shell: Shell) -> None:
    for slug, jobs in (("acme", 3), ("beta", 1)):
        tenant = bench.tenant(slug)
        for _ in range(jobs):
            bench.enqueue(tenant, "t_quick")
    bench.run()
    found = shell.json("usage", "--by", "tenant")
    assert [(row["tenant"], row["completed"], row["attempts"]) for row in found["usage"]] == [
        ("acme", 3, 3),
        ("beta", 1, 1),
    ]
    assert list(found["usage"][0]) == [
        *("tenant", "attempts", "completed", "discarded", "worker_seconds"),
        *("pages_text", "pages_ocr", "pages_blank", "pages_failed", "pages"),
    ]
    first = shell.json("usage", "--limit", "1")
    assert (len(first["usage"]), first["next"], first["usage"][0]["tenant"]) == (1, 1, "acme")
    rest = shell.json("usage", "--limit", "1", "--after", "1")
    assert (rest["usage"][0]["tenant"], rest["next"]) == ("beta", None)
    assert shell.run("usage", "--by", "kind", "--by", "tenant", "--tenant", "beta") == 0
    header, row = shell.out.splitlines()
    assert header.split() == ["tenant", "kind", "attempts", "completed", "discarded", "pages", "pages_failed", "time"]
    assert row.split()[:4] == ["beta", "t_quick", "1", "1"]
    assert shell.json("usage", "--until", "2020-01-01")["usage"] == []
    assert shell.json("usage", "--kind", "ocr")["usage"] == [], "it has a handler, and has not run"
    assert shell.json("usage", "--kind", "t_quick", "--by", "kind")["usage"][0]["completed"] == 4, "it has run"


@pytest.mark.parametrize("option", ["--since", "--until"])
@pytest.mark.parametrize("day", ["0001-01-01", "0001-01-05", "9999-12-31"])
def test_usage_knows_the_ends_of_the_calendar(bench: Bench, shell: Shell, option: str, day: str) -> None:
    bench.enqueue(bench.tenant("acme"), "t_quick")
    bench.run()
    found = shell.json("usage", option, day)["usage"]
    assert len(found) == (option == "--since" and day < "2000"), found


def test_the_summary_of_a_run_is_what_its_json_says(
    bench: Bench, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCHPROC_HANDLERS", json.dumps([HANDLERS]))
    tenant = bench.tenant("acme")
    for kind in ("t_quick", "t_declared", "t_declared"):
        bench.enqueue(tenant, kind)
    assert shell.run("run", "--workers", "2") == 1
    *failed, codes, rates, last = shell.out.splitlines()
    assert failed[0].startswith("acme: 2 jobs failed: no_luck: see: batchproc jobs show ")
    assert [line.split(" (")[1] for line in failed[-2:]] == ["page 3 of 7)"] * 2
    assert codes == "failure codes: no_luck 2"
    assert re.fullmatch(r"3 jobs in [\d.]+ m?s; 2 workers busy \d+% of the time", rates)
    assert re.fullmatch(r"run 1: 3 claimed, 1 completed, 2 discarded, 0 left, [\d.]+ s, exit 1", last)

    bench.enqueue(tenant, "t_quick")
    assert shell.run("run", "--workers", "2") == 0
    assert (shell.out, shell.err) == ("", "")

    bench.enqueue(tenant, "t_declared")
    found = shell.json("run", "--workers", "2")
    assert (found["run_id"], found["exit_code"], found["codes"], found["slots"]) == (3, 1, {"no_luck": 1}, 2)
    assert 0 <= found["slot_use"] <= 1
    assert (found["left_by_kind"], found["window_ended"], found["pages"]) == ({}, False, 0)


def test_runs_are_listed_and_a_report_without_a_number_is_on_the_newest_that_was_a_night(
    bench: Bench, shell: Shell, tmp_path: Path
) -> None:
    assert shell.json("report", "--list") == {"runs": [], "next": None}
    acme = bench.tenant("acme")
    for kind in ("t_quick", "t_declared"):
        bench.enqueue(acme, kind)
    night = bench.run(RunOptions(workers=1, scope=only(acme))).run_id
    single = bench.run(RunOptions(workers=1, job_id=bench.enqueue(acme, "t_quick"))).run_id
    bench.enqueue(acme, "t_quick")
    pilot = bench.run(RunOptions(workers=1, pilot=True)).run_id
    empty = bench.run(RunOptions(workers=1)).run_id

    assert shell.json("report")["subject"]["id"] == night, "not one of those in which somebody tried something"
    listed = shell.json("report", "--list")
    assert [run["run_id"] for run in listed["runs"]] == [empty, pilot, single, night]
    of_night = listed["runs"][-1]
    assert (of_night["tenants"], of_night["completed"], of_night["discarded"], of_night["exit_code"]) == (
        ["acme"], 1, 1, 1,
    )  # fmt: skip
    assert [(run["single"], run["pilot"]) for run in listed["runs"]] == [
        (False, False), (False, True), (True, False), (False, False),
    ]  # fmt: skip
    page = shell.json("report", "--list", "--limit", "2")
    assert page["next"] == pilot
    rest = shell.json("report", "--list", "--after", str(pilot))
    assert [run["run_id"] for run in rest["runs"]] == [single, night]

    assert shell.run("report", "--list") == 0
    lines = shell.out.splitlines()
    assert lines[0].split() == ["run_id", "began", "took", "scope", "completed", "discarded", "left", "exit"]
    assert [word in line for word, line in zip(("all", "pilot", "one job", "acme"), lines[1:], strict=True)] == [
        True
    ] * 4
    assert shell.run("report", "--list", "7") == 2
