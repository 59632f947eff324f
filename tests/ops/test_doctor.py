"""The doctor: what it finds, what it advises, and that nothing it meets ends the other checks."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import pytest

from batchproc.cli import main
from batchproc.cli.installation import doctor as doctor_command
from batchproc.cli.shared import output
from batchproc.core.errors import EnvironmentFault
from batchproc.core.job import NewJob
from batchproc.database import connect
from batchproc.documents.storage_roots import StorageRoots
from batchproc.documents.walk import identity_at
from batchproc.ops.doctor import examine
from batchproc.ops.doctor.examination import CHECKS
from batchproc.ops.doctor.findings import Check, Findings, Patient, concluded
from batchproc.ops.doctor.storage import check_storage
from batchproc.queue.kind_store import KindStore
from batchproc.queue.store import JobStore
from batchproc.settings import Database, Ocr, Run, Settings, Storage, Taxonomy

PASSWORD = "s3cret-of-the-test"
NOWHERE = f"postgresql://somebody:{PASSWORD}@127.0.0.1:1/nothing"

Examine = Callable[..., Check]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def check(home: Path) -> Examine:
    """Makes one check, with settings or other attributes of the patient changed."""

    def made(name: str, url: str = NOWHERE, settings: Settings | None = None, **changes: object) -> Check:
        patient = Patient(
            settings=settings or Settings(),
            sources="the test",
            home=home,
            embedded_folder=None,
            database_url=lambda: url,
            known_url=url,
        )
        return concluded(name, replace(patient, **changes), CHECKS[name])  # type: ignore[arg-type]  # any attribute

    return made


def test_a_healthy_database_is_found_healthy(check: Examine, database_url: str) -> None:
    for name in ("database", "migrations"):
        found = check(name, database_url)
        assert (found.ok, found.advice) == (True, None), found
    assert re.search(r"a round trip takes (?:<1 ms|\d+ ms|0\.\d s)", check("database", database_url).detail)


def test_a_database_that_cannot_be_reached_fails_and_shows_no_password(check: Examine) -> None:
    for name in ("database", "migrations"):
        found = check(name)
        assert not found.ok
        assert "127.0.0.1" in found.detail
        assert found.advice is not None
        assert "database.url" in found.advice
        assert PASSWORD not in found.detail + found.advice


def test_a_direct_url_that_cannot_be_reached_fails(check: Examine, database_url: str) -> None:
    direct = Settings(database=Database(direct_url=NOWHERE))  # type: ignore[arg-type]  # pydantic makes it a secret
    found = check("database", database_url, direct)
    assert not found.ok
    assert PASSWORD not in found.detail


def waiting_for(database_url: str, kind: str) -> None:
    with connect(database_url) as connection:
        jobs = JobStore("batchproc")
        jobs.enqueue(connection, NewJob(jobs.add_tenant(connection, "acme").tenant_id, kind))
        connection.execute("insert into batchproc.kinds (kind) select unnest(%s::text[])", [[kind, "idle"]])


def test_a_paused_kind_is_told_as_long_as_jobs_of_it_wait(check: Examine, database_url: str) -> None:
    waiting_for(database_url, "classify")
    assert check("kinds", database_url).advice is None
    with connect(database_url) as connection:
        for kind in ("classify", "idle"):
            KindStore("batchproc").set(connection, kind, paused=True, reason="the disk is full")

    found = check("kinds", database_url)

    assert found.is_warning
    assert found.detail == "kind classify is paused (the disk is full) while 1 job waits for it"
    assert found.advice == "mend that, then: batchproc kinds set classify --resume"


def test_jobs_of_a_kind_that_no_handler_here_declares_are_told(check: Examine, database_url: str) -> None:
    waiting_for(database_url, "letter_date")
    found = check("kinds", database_url)
    assert found.is_warning
    assert found.detail == "1 job waits for kind letter_date, which no handler here declares"
    assert "PYTHONPATH" in str(found.advice)


def test_a_database_that_only_reads_fails(check: Examine, database_url: str) -> None:
    found = check(
        "database", f"{database_url}{'&' if '?' in database_url else '?'}options=-cdefault_transaction_read_only%3Don"
    )
    assert not found.ok
    assert "can only be read: default_transaction_read_only is on" in found.detail


def test_too_few_connections_for_the_workers_fail(check: Examine, database_url: str) -> None:
    assert check("database", database_url, workers=4).advice is None
    found = check("database", database_url, workers=100_000)
    assert not found.ok
    assert "100000 workers need 100004 connections, " in found.detail
    assert found.advice is not None
    assert "pool.workers" in found.advice


def test_connections_that_others_have_taken_are_a_warning(check: Examine, database_url: str) -> None:
    with connect(database_url) as one:
        row = one.execute("select current_setting('max_connections')::int").fetchone()
        assert row is not None
        with contextlib.ExitStack() as others:
            for _ in range(3):
                others.enter_context(connect(database_url))
            found = check("database", database_url, workers=row[0] - 5)
    assert found.is_warning
    assert "are free now" in found.detail


def test_a_missing_migration_fails_unless_it_is_applied_by_itself(
    check: Examine, empty_database_url: str, home: Path
) -> None:
    found = check("migrations", empty_database_url)
    assert (found.ok, found.advice) == (False, "run: batchproc migrate")
    assert check("migrations", empty_database_url, embedded_folder=home).ok


def test_missing_languages_fail_and_missing_orientation_warns(check: Examine, tmp_path: Path) -> None:
    (tmp_path / "eng.traineddata").write_bytes(b"")
    some = Settings(ocr=Ocr(languages=("eng", "fra"), tessdata=(tmp_path,)))
    found = check("languages", settings=some)
    assert not found.ok
    assert "the language fra of ocr.languages" in found.detail
    assert found.advice is not None
    assert "fra.traineddata" in found.advice
    warned = check("languages", settings=Settings(ocr=Ocr(languages=("eng",), tessdata=(tmp_path,))))
    assert warned.is_warning
    assert check("languages", settings=Settings(ocr=Ocr(languages=("eng",)))).ok


def test_wrong_rules_fail_with_their_place(check: Examine, tmp_path: Path) -> None:
    rules = tmp_path / "taxonomy"
    assert not check("rules", settings=Settings(taxonomy=Taxonomy(folder=rules))).ok
    rules.mkdir()
    (rules / "default.yaml").write_text("version: 1\nrules:\n  - nam: x\n")
    found = check("rules", settings=Settings(taxonomy=Taxonomy(folder=rules)))
    assert not found.ok
    assert f"{rules}/default.yaml:3" in found.detail
    assert check("rules").ok


def test_storage_roots_that_are_missing_fail_and_empty_ones_warn(check: Examine, tmp_path: Path) -> None:
    missing, empty, full = tmp_path / "missing", tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    full.mkdir()
    (full / "scan.pdf").write_bytes(b"")
    found = check("folders", settings=Settings(storage=Storage(roots=(missing, full))))
    assert not found.ok
    assert str(missing) in found.detail
    assert check("folders", settings=Settings(storage=Storage(roots=(empty,)))).is_warning
    fine = check("folders", settings=Settings(storage=Storage(roots=(full,))))
    assert (fine.ok, fine.advice) == (True, None)


@pytest.mark.parametrize(("mode", "ok", "warns"), [(0o700, True, False), (0o750, True, True), (0o770, False, False)])
def test_others_may_neither_write_nor_look_into_the_home(
    check: Examine, home: Path, mode: int, ok: bool, warns: bool
) -> None:
    home.chmod(mode)
    found = check("folders")
    assert (found.ok, found.is_warning) == (ok, warns)
    if mode != 0o700:
        assert found.advice == f"chmod 700 {home}"


def test_a_home_that_cannot_be_made_fails(check: Examine, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    found = check("folders", home=tmp_path / "file" / "home")
    assert not found.ok
    assert check("folders", home=tmp_path / "new" / "home").ok


def test_little_space_warns(check: Examine) -> None:
    found = check("disk_space", settings=Settings(storage=Storage(min_free=2**60)))
    assert found.is_warning
    assert "only" in found.detail
    assert check("disk_space", settings=Settings(storage=Storage(min_free=1))).advice is None


def test_a_worker_is_really_started(check: Examine) -> None:
    found = check("pool")
    assert found.ok, found
    assert "tesseract" in found.detail
    assert "classify, ocr, workflow" in found.detail
    assert found.advice is None


def test_accepted_codes_that_no_kind_declares_are_told_of(check: Examine) -> None:
    found = check("pool", settings=Settings(run=Run(accept_codes=("encryptd", "encrypted", "poison"))))
    assert found.is_warning
    assert "run.accept_codes: no kind declares the failure code encryptd: encrypted is the nearest" in found.detail
    assert "encrypted:" not in found.detail
    assert found.advice == "correct run.accept_codes, or add the module of its kind to `handlers`"


def test_a_worker_that_cannot_load_a_language_is_of_no_use(check: Examine, tmp_path: Path) -> None:
    (tmp_path / "eng.traineddata").write_bytes(b"damaged")
    found = check("pool", settings=Settings(ocr=Ocr(languages=("eng",), tessdata=(tmp_path,))))
    assert not found.ok
    assert "damaged language data for eng" in found.detail


def test_handlers_that_cannot_be_imported_fail_the_pool(check: Examine) -> None:
    found = check("pool", settings=Settings(handlers=("batchproc_test.no_such_module",)))
    assert not found.ok
    assert "batchproc_test.no_such_module" in found.detail


@pytest.mark.parametrize(
    "error",
    [EnvironmentFault("broken", "mend it"), ValueError("broken"), OSError(5, "broken"), AssertionError("broken")],
)
def test_a_check_that_breaks_is_its_own_fault_only(home: Path, error: Exception) -> None:
    def breaks(_patient: Patient, findings: Findings) -> None:
        findings.note("this was still fine")
        raise error

    patient = Patient(Settings(), "the test", home, None, lambda: NOWHERE, NOWHERE)
    found = concluded("x", patient, breaks)
    assert not found.ok
    assert "broken" in found.detail
    assert "this was still fine" in found.detail
    assert found.advice


def test_whatever_a_check_quotes_no_password_is_shown(home: Path) -> None:
    def quotes(_patient: Patient, findings: Findings) -> None:
        findings.fault(f"cannot use {NOWHERE}", f"set password={PASSWORD}\n")

    found = concluded("x", Patient(Settings(), "the test", home, None, lambda: NOWHERE, NOWHERE), quotes)
    assert found.advice is not None
    assert PASSWORD not in found.detail + found.advice
    assert "\n" not in found.advice


def test_all_checks_are_made_whatever_they_find(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CHECKS:
        monkeypatch.setitem(CHECKS, name, lambda _patient, _findings: 1 / 0)
    found = list(examine(Patient(Settings(), "the test", home, None, lambda: NOWHERE, NOWHERE)))
    assert [check.check for check in found] == list(CHECKS)
    assert not any(check.ok for check in found)


def doctor(home: Path, *arguments: str, **variables: str) -> tuple[int, dict[str, dict[str, object]], str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BATCHPROC_")}
    done = subprocess.run(
        [sys.executable, "-m", "batchproc", *arguments, "doctor", "--json"],
        env={**environment, "BATCHPROC_HOME": str(home), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.count("\n") == 1
    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    return done.returncode, checks, done.stdout + done.stderr


def test_the_command_succeeds_on_a_healthy_installation(home: Path, database_url: str, tmp_path: Path) -> None:
    conf = tmp_path / "mine.yaml"
    conf.write_text("storage: {min_free: 0}\n")
    code, checks, shown = doctor(home, "--conf", str(conf), "--database", database_url)
    assert code == 0, shown
    assert list(checks) == list(CHECKS)
    assert all(check["ok"] and check["advice"] is None for check in checks.values()), shown
    assert f"{conf} (--conf)" in str(checks["settings"]["detail"])


def test_the_command_fails_with_3_and_shows_no_password(home: Path) -> None:
    code, checks, shown = doctor(home, BATCHPROC_DATABASE_URL=NOWHERE)
    assert code == 3
    assert [name for name, check in checks.items() if not check["ok"]] == [
        "database",
        "migrations",
        "storage",
        "tenants",
        "passwords",
        "kinds",
    ]
    assert PASSWORD not in shown


def test_settings_that_cannot_be_read_are_a_failed_check(home: Path) -> None:
    code, checks, _ = doctor(home, BATCHPROC_POOL__WORKERS="0", BATCHPROC_DATABASE_URL=NOWHERE)
    assert code == 3
    assert list(checks) == list(CHECKS)
    assert "BATCHPROC_POOL__WORKERS: must be at least 1" in str(checks["settings"]["detail"])
    assert {check["ok"] for check in checks.values()} == {False}


def on_a_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    monkeypatch.setattr(output, "screen_width", lambda: 80)
    assert main.run([*arguments, "doctor"]) == 3
    return click.unstyle(capsys.readouterr().out).splitlines()


def test_each_root_is_a_line_and_those_that_are_gone_come_first(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "batchproc.cli.installation.doctor.examine", lambda patient: [concluded("storage", patient, check_storage)]
    )
    roots = [tmp_path / name for name in ("a", "b", "gone", "z")]
    for root in roots:
        if root.name != "gone":
            root.mkdir()
    conf = tmp_path / "conf.yaml"
    conf.write_text(f"storage: {{roots: [{', '.join(map(str, roots))}]}}\n")
    with connect(database_url) as connection:
        StorageRoots("batchproc").renew(
            connection, {bytes(root): identity_at(bytes(root))[0] for root in roots if root.name in "ab"}
        )
    lines = on_a_screen(capsys, monkeypatch, "--conf", str(conf), "--database", database_url)
    text = " ".join(" ".join(lines).split())
    marks = [line.split()[0] for line in lines if line.startswith(("FAILED ", "warning ", "ok "))]
    assert marks == ["FAILED", "ok", "ok", "ok"]
    gone, *fine = text.split(" ok ")
    assert gone.startswith(f"FAILED storage the storage root {roots[2]} cannot be opened")
    assert gone.endswith(f"what to do: mount it; if it will never come back: batchproc storage forget {roots[2]}")
    assert fine == [
        f"{roots[0]} is known",
        f"{roots[1]} is known",
        f"{roots[3]} is new: no file of it was imported yet",
    ]


def test_what_is_well_does_not_bury_what_is_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = Findings()
    for number in range(40):
        findings.note(f"/srv/{number} is known")
    findings.warning("/srv/odd is empty", "mount it")
    long = "/srv/" + "a-long-name-" * 5 + "end"
    findings.fault(f"the storage root {long} is gone", "mount it")
    monkeypatch.setattr(output, "screen_width", lambda: 80)
    assert doctor_command._print(findings.conclude("storage"), None) == "mount it"
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "FAILED  storage     the storage root",
        f"        {long} is",
        "        gone",
        "                    what to do: mount it",
    ], "a path that is too long for its column has the lines after it beside it"
    assert lines[4:6] == ["warning             /srv/odd is empty", "ok                  /srv/0 is known"]
    assert lines[-1] == "ok                  and 30 more that are as they should be"
    assert len(lines) == 16


def test_a_typo_in_the_settings_is_the_one_thing_that_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text("pool: {wrokers: 3}\n")
    lines = on_a_screen(capsys, monkeypatch, "--conf", str(conf))
    assert [line for line in lines if "FAILED" in line] == lines[:1]
    text = " ".join(" ".join(lines).split())
    assert "pool.wrokers" in text
    assert text.endswith(
        f"not checked before that is mended: {', '.join(name for name in CHECKS if name != 'settings')}"
    )
