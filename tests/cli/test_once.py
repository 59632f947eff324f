"""``run --once``: what a developer is shown of one job, and one file that leaves nothing behind."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from batchproc.core.job import Claim, Lane
from batchproc.core.outcome import Completed
from batchproc.database import connect
from batchproc.ops.drawing import broken_pdf, letter, save_png
from batchproc.ops.outcome_text import outcome_line
from tests.cli.test_commands import Command, Ran
from tests.cli.test_commands import batchproc as batchproc
from tests.engine.conftest import bench as bench
from tests.engine.running import Bench
from tests.waiting import wait_until

_OWN_TABLES = ("tenants", "documents", "processing_jobs", "ocr_revisions", "document_tags", "usage_daily", "runs")


@pytest.fixture(scope="session")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One page in English."""
    path = tmp_path_factory.mktemp("scans") / "invoice.png"
    save_png(letter(32, "eng", dpi=150, paragraphs=1).image, path, 150)
    return path


@contextmanager
def command(database_url: str, folder: Path, *arguments: str, **streams: Any) -> Iterator[subprocess.Popen[str]]:
    """The real command line, with a guardian."""
    conf = folder / "conf.yaml"
    conf.write_text("handlers: [tests.engine.job_handlers]\npool: {workers: 1}\n")
    environment = {**os.environ, "BATCHPROC_DATABASE_URL": database_url, "BATCHPROC_CONF": str(conf)}
    words = [sys.executable, "-m", "batchproc", *arguments]
    piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    with subprocess.Popen(words, env=environment, text=True, **piped) as process:
        try:
            yield process
        finally:
            process.kill()


def ran(database_url: str, folder: Path, *arguments: str) -> Ran:
    with command(database_url, folder, *arguments) as process:
        out, err = process.communicate(timeout=60)
        return Ran(process.returncode, out, err)


def counted(database_url: str) -> dict[str, int]:
    """Rows of the archive's own tables; and the schemas there are."""
    with connect(database_url) as connection:
        found = {}
        for table in _OWN_TABLES:
            row = connection.execute(f"select count(*) from batchproc.{table}".encode()).fetchone()
            assert row is not None
            found[table] = row[0]
        return found


def trials(database_url: str) -> list[str]:
    with connect(database_url) as connection:
        rows = connection.execute("select nspname from pg_namespace where nspname like 'batchproc\\_trial\\_%'")
        return [row[0] for row in rows.fetchall()]


# -- one job


def test_a_failed_job_shows_its_traceback_log_time_and_memory(
    batchproc: Command, database_url: str, tmp_path: Path
) -> None:
    batchproc("tenants", "add", "acme")
    job = batchproc("enqueue", "t_fail", "--tenant", "acme", "--json").json["job_id"]

    shown = ran(database_url, tmp_path, "run", "--once", str(job))

    failed = rf"job {job} t_fail: failed \(transient\) internal_error after [\d.]+ m?s: ValueError at job_handlers.py"
    assert re.search(failed, shown.out)
    assert re.search(r"\d m?s of processor time, at most", shown.out)
    assert "of 2048 MB of memory" in shown.out
    assert shown.err.count("ValueError: always") == 1
    assert 'job_handlers.py", line' in shown.err
    assert f"job_id={job} tenant=acme kind=t_fail attempt=1" in shown.err


def test_a_declared_failure_shows_its_code_detail_and_what_to_do_without_a_traceback(
    batchproc: Command, database_url: str, tmp_path: Path
) -> None:
    batchproc("tenants", "add", "acme")
    for kind in ("t_declared", "t_declared", "t_gone"):
        batchproc("enqueue", kind, "--tenant", "acme")
    for number, shown in enumerate(
        (ran(database_url, tmp_path, "run", "--once", "1"), batchproc("run", "--once", "2", "--in-process")), start=1
    ):
        assert f"job {number} t_declared: failed (permanent) no_luck after " in shown.out
        assert re.search(
            r" no_luck after [\d.]+ m?s: Failure at job_handlers.py:\d+; page 3 of 7$", shown.out, re.MULTILINE
        )
        assert f"acme: 1 job failed: no_luck: see: batchproc jobs show {number}" in shown.out
        assert "Traceback" not in shown.out + shown.err
    later = batchproc("run", "--once", "3", "--in-process")
    assert re.search(r"not_yet after [\d.]+ m?s: Failure at job_handlers.py", later.out)
    assert "; its volume is on its way\n" in later.out
    assert "it will be tried again: batchproc why 3 tells when" in later.out
    assert "Traceback" not in later.out + later.err


def test_with_v_or_json_a_declared_failure_shows_where_it_was_raised(
    batchproc: Command, database_url: str, tmp_path: Path
) -> None:
    batchproc("tenants", "add", "acme")
    for _ in range(2):
        batchproc("enqueue", "t_declared", "--tenant", "acme")

    raised = 'raise Failure("no_luck", detail="page 3 of 7")'
    assert raised in batchproc("-v", "run", "--once", "1", "--in-process").err
    by_worker = ran(database_url, tmp_path, "-v", "run", "--once", "2", "--json")
    assert raised in by_worker.err
    [attempt] = by_worker.json["attempts"]
    assert (attempt["outcome"], attempt["failure_code"], attempt["detail"]) == ("failed", "no_luck", "page 3 of 7")
    assert raised in attempt["traceback"]
    assert attempt["peak_bytes"] > 10_000_000
    assert attempt["processor_seconds"] >= 0


def test_a_result_shows_its_letters_and_cannot_break_its_line() -> None:
    claim = Claim(7, uuid4(), 1, "letter_date", Lane.BULK, 0, 1, 5, 0, 0, 0)
    told = outcome_line(claim, Completed(r'{"date":"14. M\u00e4rz 2015","n":"a\nb\u001b[2J\ud800"}'), 0.0)
    date, forged = '{"date": "14. März 2015", ', r'"n": "a\nb\u001b[2J\ud800"}'
    assert told == f"job 7 letter_date: completed {date}{forged} after 0.0 s"
    assert outcome_line(claim, Completed(), 0.0018) == "job 7 letter_date: completed after 2 ms"
    assert "[[[" in outcome_line(claim, Completed("[" * 100_000 + "]" * 100_000), 0.0), "too deep to be read"


def test_where_no_job_is_due_that_is_said_with_the_one_that_is_next(batchproc: Command) -> None:
    batchproc("tenants", "add", "acme")
    job = batchproc("enqueue", "t_gone", "--tenant", "acme", "--json").json["job_id"]
    tried = batchproc("run", "--once").out
    assert re.search(r"^1 attempt in [\d.]+ m?s; ", tried, re.MULTILINE)
    none = batchproc("run", "--once").out
    assert re.match(rf"no job is due; the next, job {job} t_gone of acme, is in [\d.]+ \S+: ", none)


def test_where_nothing_is_claimed_because_somebody_paused_it_that_is_told(batchproc: Command) -> None:
    batchproc("tenants", "add", "acme")
    batchproc("tenants", "add", "beta")
    assert batchproc("run", "--once", "--in-process").out == "no job is due\n", "and it makes its kinds known"
    batchproc("tenants", "set", "beta", "--paused")
    batchproc("enqueue", "t_quick", "--tenant", "acme")
    batchproc("enqueue", "t_quick", "--tenant", "beta")
    batchproc("enqueue", "t_echo", "--tenant", "beta", "--args", '{"word": "one"}')
    batchproc("kinds", "set", "t_quick", "--pause", "--reason", "moved")
    told = (
        "2 t_quick jobs left: the kind is paused (moved):\n  batchproc kinds set t_quick --resume\n"
        "2 jobs of beta left: the tenant is paused: batchproc tenants set beta --resumed\n"
    )

    in_process = batchproc("run", "--once", "--in-process")
    assert (in_process.code, in_process.out) == (0, f"no job is due\n{told}")
    assert batchproc("run", "--once").out.startswith(f"no job is due\n{told}")
    assert batchproc("run", "--kind", "t_echo", "--json").json["kept"] == [
        {"by": "paused", "tenant": "beta", "kind": None, "campaign_id": None, "reason": None, "jobs": 1}
    ]
    assert "paused" not in batchproc("run", "--once", "1").out, "one job by its id runs nevertheless"


def test_what_a_brake_has_paused_is_told_once(bench: Bench) -> None:
    bench.enqueue(bench.tenant("acme"), "t_quick")
    bench.connection.execute(
        b"insert into batchproc.kinds (kind, paused, paused_code, paused_reason, paused_at)"
        b" values ('t_quick', true, 'no_luck', 'five in a row', now())"
    )
    report = bench.run()
    assert ([braked.kind for braked in report.braked], report.kept, report.left) == (["t_quick"], (), 1)


def test_of_a_job_whose_worker_was_killed_the_memory_is_known(batchproc: Command) -> None:
    batchproc("tenants", "add", "acme")
    job = batchproc("enqueue", "t_hang_in_c", "--tenant", "acme", "--json").json["job_id"]

    [attempt] = batchproc("run", "--once", str(job), "--json").json["attempts"]

    assert (attempt["failure_code"], attempt["traceback"], attempt["processor_seconds"]) == ("timeout", None, None)
    assert attempt["peak_bytes"] > 10_000_000


def test_a_password_in_a_traceback_is_masked(tmp_path: Path) -> None:
    from batchproc.engine.attempt_notes import noted, read_notes

    def connects() -> None:
        raise OSError("cannot reach postgresql://ada:hunter2@db/archive")

    with pytest.raises(OSError, match="hunter2"), noted(tmp_path, 7):
        connects()
    notes = read_notes(tmp_path, 7)
    assert notes is not None
    assert notes.traceback is not None
    assert "postgresql://ada:***@db/archive" in notes.traceback
    assert "hunter2" not in notes.traceback


def test_in_process_stops_in_the_debugger(batchproc: Command, database_url: str, tmp_path: Path) -> None:
    batchproc("tenants", "add", "acme")
    job = batchproc("enqueue", "t_fail", "--tenant", "acme", "--json").json["job_id"]
    ours, its = pty.openpty()
    try:
        arguments = ("run", "--once", str(job), "--in-process")
        with command(database_url, tmp_path, *arguments, stdin=its, stdout=its, stderr=its) as process:
            os.close(its)
            said = _read_until(ours, "(Pdb) ")
            os.write(ours, b"p _.kind\n")
            said += _read_until(ours, "(Pdb) ")
            os.write(ours, b"q\n")
            said += _read_until(ours, "exit 0", "MB of memory")
            process.wait(30)
    finally:
        os.close(ours)
    assert "ValueError: always" in said
    assert "'t_fail'" in said, "it stands in the handler's frame"


def _read_until(terminal: int, *ends: str) -> str:
    said = ""
    while not any(end in said for end in ends):
        try:
            said += os.read(terminal, 4096).decode()
        except OSError:  # the other side is closed
            break
    return said


# -- one file


def test_a_file_goes_the_whole_way_and_leaves_nothing(
    batchproc: Command, database_url: str, tmp_path: Path, scan: Path
) -> None:
    batchproc("tenants", "add", "acme")
    before = counted(database_url)

    shown = ran(database_url, tmp_path, "run", "--once", "--file", str(scan))

    assert shown.code == 0, shown.err
    assert "job 1 ocr: completed" in shown.out
    assert "job 3 workflow: completed" in shown.out
    assert "status        completed" in shown.out
    assert "Robert Spencer" in shown.out.split("confidence")[1], "its text is shown"
    assert counted(database_url) == before
    assert trials(database_url) == []


def test_a_file_with_json_by_a_tenants_settings_and_one_kind(batchproc: Command, scan: Path) -> None:
    batchproc("tenants", "add", "acme")
    batchproc("tenants", "set", "acme", "--languages", "deu")

    shown = batchproc("run", "--once", "--file", str(scan), "--tenant", "acme", "--kind", "ocr", "--json").json

    assert [(attempt["kind"], attempt["outcome"]) for attempt in shown["attempts"]] == [("ocr", "completed")]
    assert (shown["status"], shown["page_count"], len(shown["pages"])) == ("completed", 1, 1)
    assert shown["tags"] == []


@pytest.mark.long
def test_a_kind_of_ones_own_is_done_behind_the_reading(batchproc: Command, scan: Path) -> None:
    shown = batchproc("run", "--once", "--file", str(scan), "--kind", "t_declared", "--json")
    assert shown.code == 1
    assert [(attempt["kind"], attempt["failure_code"]) for attempt in shown.json["attempts"]] == [
        ("ocr", None),
        ("t_declared", "no_luck"),
    ]


def test_a_damaged_file_fails_by_name_and_in_process_too(batchproc: Command, database_url: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pdf"
    broken_pdf(broken)
    shown = ran(database_url, tmp_path, "run", "--once", "--file", str(broken))
    assert "failed (permanent) unreadable_file" in shown.out
    assert "  what to do: scan it again\n" in shown.out
    assert "Traceback" not in shown.out + shown.err
    told = batchproc("run", "--once", "--file", str(broken), "--json", "--in-process")
    assert (told.code, told.json["status"], told.json["failure_code"]) == (1, "failed", "unreadable_file")
    assert trials(database_url) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--file", "README.md"], "--file does one file: batchproc run --once --file README.md"),
        (["--once", "--file", "nowhere.pdf"], "'nowhere.pdf' does not exist"),
        (["--once", "--file", "tests"], "is a directory"),
        (["--once", "7", "--file", "README.md"], "--file makes a job of its own: leave out 7, or --file"),
        (["--once", "--file", "README.md", "--kind", "nobodys"], "no handler declares kind nobodys"),
        (["--once", "--file", "README.md", "--tenant", "nobody"], "there is no tenant 'nobody'"),
        (["--once", "--file", "README.md", "--tenant", "a", "--tenant", "b"], "by the settings of one tenant"),
    ],
)
def test_what_cannot_be_tried_is_one_clear_line(
    batchproc: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    shown = batchproc("run", *arguments)
    assert (shown.code, shown.out) == (2, "")
    assert message in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.long),
        pytest.param(signal.SIGKILL, marks=pytest.mark.long),
    ],
)
def test_a_trial_that_is_stopped_or_killed_leaves_nothing_for_long(
    database_url: str, tmp_path: Path, scan: Path, number: signal.Signals
) -> None:
    with command(database_url, tmp_path, "run", "--once", "--file", str(scan)) as process:
        wait_until(lambda: trials(database_url), 30, "the trial's schema")
        process.send_signal(number)
        process.communicate(timeout=60)
    if number == signal.SIGKILL:
        conf = tmp_path / "empty.pdf"
        conf.touch()
        assert ran(database_url, tmp_path, "run", "--once", "--file", str(conf), "--json").code == 1
    assert trials(database_url) == []


def test_attempts_are_json_with_stable_keys(batchproc: Command) -> None:
    batchproc("tenants", "add", "acme")
    batchproc("enqueue", "t_echo", "--tenant", "acme", "--args", '{"word": "one"}')
    [attempt] = batchproc("--once", "--json").json["attempts"]
    assert list(attempt) == [
        "job_id",
        "kind",
        "outcome",
        "error_class",
        "failure_code",
        "error_type",
        "detail",
        "result",
        "seconds",
        "processor_seconds",
        "peak_bytes",
        "traceback",
    ]
    assert attempt["result"] == {"word": "one", "attempt": 1}
