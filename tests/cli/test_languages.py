"""What a person is told of languages that nobody has: where they are asked for, not at page 1 of the night."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batchproc.cli import main
from batchproc.database import connect
from batchproc.ocr import detection
from tests.cli.test_commands import Command, Ran
from tests.ocr.drawn import ENGLISH, page, saved

NODE = """
    insert into batchproc.nodes (node_id, lease_until, host, pid, slots, kinds, languages, code_version)
    values (gen_random_uuid(), clock_timestamp() + interval '1 hour', 'h', 1, 1, '{ocr}', %s, '1')
"""


@pytest.fixture
def batchproc(
    database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> Command:
    """Runs one command on the test's database, with short waits."""
    monkeypatch.setenv("BATCHPROC_DATABASE_URL", database_url)
    monkeypatch.delenv("BATCHPROC_CONF", raising=False)
    conf = tmp_path / "conf.yaml"
    conf.write_text("pool: {workers: 1}\ndispatch: {lease: 1, poll_interval: 0.1}\n")

    def run(*arguments: str) -> Ran:
        code = main.run(["--conf", str(conf), *arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    run("tenants", "add", "acme")
    return run


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    file = tmp_path / "archive" / "scan.png"
    file.parent.mkdir()
    file.write_bytes(saved(page(ENGLISH), "PNG"))
    return file


@pytest.fixture
def lives(database_url: str) -> Callable[..., None]:
    """A node that runs now and has these languages."""

    def add(*languages: str) -> None:
        with connect(database_url) as connection:
            connection.execute(NODE.encode(), [list(languages)])

    return add


@pytest.fixture
def no_detection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "is_installed", lambda: False)


FRENCH = "warning: the language fra is installed neither here"


def test_import_warns_of_a_language_that_nobody_has(batchproc: Command, scan: Path, lives: Callable[..., None]) -> None:
    ran = batchproc("import", str(scan), "--tenant", "acme", "--language", "fra+deu")
    assert ran.code == 0
    assert FRENCH in ran.err
    assert "deu, eng" in ran.err
    assert "put fra.traineddata into a folder that ocr.tessdata names" in ran.err
    assert batchproc("jobs", "list", "--json").json["jobs"][0]["state"] == "available"
    again = batchproc("import", str(scan), "--tenant", "acme", "--language", "fra+deu")
    assert again.err == "", "a duplicate gets no job"
    other = scan.with_name("other.png")
    other.write_bytes(scan.read_bytes() + b"other")
    lives("fra", "deu")
    assert batchproc("import", str(other), "--tenant", "acme", "--language", "fra+deu").err == ""


def test_import_warns_of_the_tenants_languages_and_of_a_manifests(batchproc: Command, scan: Path) -> None:
    batchproc("tenants", "set", "acme", "--languages", "ita")
    assert "the language ita" in batchproc("import", str(scan), "--tenant", "acme").err
    other = scan.with_name("other.png")
    other.write_bytes(scan.read_bytes() + b"other")
    manifest = scan.with_name("manifest")
    manifest.write_text('{"path": "other.png", "language": "script/Latin"}\n')
    ran = batchproc("import", "--manifest", str(manifest), "--tenant", "acme")
    assert "the language script/Latin" in ran.err
    assert ran.code == 0


@pytest.mark.parametrize(
    "language", ["../deu", "deu;eng", "deu+auto", "deu+deu", "+".join(f"l{n}" for n in range(17)), "x" * 32, "deu/../x"]
)
def test_what_is_no_language_is_refused(batchproc: Command, scan: Path, language: str) -> None:
    refused = batchproc("import", str(scan), "--tenant", "acme", "--language", language)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert batchproc("tenants", "set", "acme", "--languages", language.replace("+", ",")).code == 2
    manifest = scan.with_name("manifest")
    manifest.write_text(f'{{"path": "scan.png", "language": "{language}"}}\n')
    assert "invalid_line" in batchproc("import", "--manifest", str(manifest), "--tenant", "acme").err


def test_tenants_set_warns_and_does_as_it_is_told(batchproc: Command) -> None:
    ran = batchproc("tenants", "set", "acme", "--languages", "fra,eng", "--json")
    assert ran.code == 0
    assert ran.json["settings"] == {"languages": ["fra", "eng"]}
    assert f"warning: tenant acme: {FRENCH.removeprefix('warning: ')}" in ran.err
    assert batchproc("tenants", "set", "acme", "--languages", "deu").err == ""
    assert batchproc("tenants", "set", "acme", "--languages", "").err == ""


def test_enqueue_warns_of_what_the_args_the_document_or_the_tenant_ask_for(batchproc: Command, scan: Path) -> None:
    batchproc("import", str(scan), "--tenant", "acme", "--language", "ita", "--no-jobs")
    assert "the language ita" in batchproc("enqueue", "ocr", "--tenant", "acme", "--document", "1").err
    asked = ("--args", '{"languages": ["fra"]}')
    assert FRENCH in batchproc("enqueue", "ocr", "--tenant", "acme", "--document", "1", *asked).err
    assert batchproc("enqueue", "classify", "--tenant", "acme", "--document", "1").err == ""


def test_enqueue_of_many_warns_of_the_documents_hints_too(
    batchproc: Command, scan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batchproc("import", str(scan), "--tenant", "acme", "--language", "ita", "--no-jobs")

    def many(*lines: str) -> Ran:
        lines_of_input = io.TextIOWrapper(io.BytesIO("\n".join(lines).encode()))
        monkeypatch.setattr("sys.stdin", lines_of_input)
        return batchproc("enqueue", "ocr", "--tenant", "acme", "--stdin")

    ran = many('{"document_id": 1}', '{"args": {"document_id": 1}}', '{"args": {"document_id": 1}}')
    assert (ran.code, ran.err.count("the language ita")) == (0, 1)
    assert many('{"document_id": 1, "args": {"languages": ["eng"]}}').err == "", "what a job says itself goes first"


@pytest.mark.long
def test_doctor_looks_at_the_settings_and_at_tenants(
    batchproc: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    batchproc("tenants", "set", "acme", "--languages", "fra")
    checks = {check["check"]: check for check in batchproc("doctor", "--json").json["checks"]}
    assert checks["languages"]["ok"]
    assert checks["tenants"]["ok"], "a warning: another node may be there at night"
    assert "tenant acme: the language fra" in checks["tenants"]["detail"]
    assert "tenants set acme" in checks["tenants"]["advice"]
    monkeypatch.setenv("BATCHPROC_OCR__LANGUAGES", "[eng, fra]")
    checks = {check["check"]: check for check in batchproc("doctor", "--json").json["checks"]}
    assert not checks["languages"]["ok"]
    assert "the language fra of ocr.languages is not installed" in checks["languages"]["detail"]


def test_the_summary_names_the_document_what_is_missing_and_what_to_do(batchproc: Command, scan: Path) -> None:
    batchproc("import", str(scan), "--tenant", "acme", "--language", "fra")
    ran = batchproc("run")
    assert ran.code == 1
    assert "acme: 1 job failed: missing_language: install the language" in ran.out
    assert "document 1" in ran.out
    assert "no node has fra" in ran.out
    assert "failure codes: missing_language 1" in ran.out
    job = batchproc("jobs", "show", "1", "--json").json
    assert (job["attempt"], job["attempts"], job["result"]) == (0, [], {"missing_languages": ["fra"]})
    assert batchproc("documents", "show", "1", "--json").json["failure_code"] == "missing_language"


def test_one_job_by_its_id_says_that_its_languages_are_not_here(batchproc: Command, scan: Path) -> None:
    batchproc("import", str(scan), "--tenant", "acme", "--language", "fra")
    for more in ((), ("--in-process",)):
        ran = batchproc("run", "--once", "1", *more)
        assert ran.code == 2
        assert "job 1 needs the language fra, and that is not installed here" in ran.err
    assert batchproc("jobs", "show", "1", "--json").json["state"] == "available"


# -- auto


@pytest.mark.usefixtures("no_detection")
def test_auto_without_the_extra_is_refused_where_it_is_asked_for(
    batchproc: Command, scan: Path, monkeypatch: pytest.MonkeyPatch, lives: Callable[..., None]
) -> None:
    hint = "pip install lingua-language-detector"
    refused = [
        batchproc("import", str(scan), "--tenant", "acme", "--language", "auto"),
        batchproc("tenants", "set", "acme", "--languages", "auto"),
        batchproc("enqueue", "ocr", "--tenant", "acme", "--args", '{"document_id": 1, "languages": ["auto"]}'),
    ]
    assert [(ran.code, hint in ran.err) for ran in refused] == [(2, True)] * 3
    assert batchproc("documents", "list", "--json").json["documents"] == []
    monkeypatch.setenv("BATCHPROC_OCR__LANGUAGES", "[auto, eng, deu]")
    checks = {check["check"]: check for check in batchproc("doctor", "--json").json["checks"]}
    assert not checks["languages"]["ok"]
    assert hint in checks["languages"]["advice"]
    monkeypatch.delenv("BATCHPROC_OCR__LANGUAGES")
    lives("auto", "eng", "deu")
    assert batchproc("tenants", "set", "acme", "--languages", "auto").code == 0, "another node can"


def test_settings_of_auto_alone_are_refused(batchproc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCHPROC_OCR__LANGUAGES", "[auto]")
    ran = batchproc("tenants", "list")
    assert ran.code == 2
    assert "must name the languages to choose from after auto" in ran.err


@pytest.mark.long
@pytest.mark.skipif(not detection.is_installed(), reason="lingua is not installed")
def test_auto_is_recorded_with_the_page_and_its_candidates_with_the_revision(
    batchproc: Command, scan: Path, database_url: str
) -> None:
    german = "Die Bäume müssen über Nacht", "größer geworden sein, sagte", "der Förster auf der Straße"
    scan.write_bytes(saved(page(german), "PNG"))
    assert batchproc("import", str(scan), "--tenant", "acme", "--language", "auto").err == ""
    assert batchproc("run").code == 0
    with connect(database_url) as connection:
        row = connection.execute(
            "select p.languages, p.engine_calls, p.text, r.languages, r.profile ->> 'detect'"
            " from batchproc.ocr_pages p join batchproc.ocr_revisions r using (revision_id)"
        ).fetchone()
    assert row is not None
    assert row[0] == ["deu", "eng"]
    assert row[1] == 1, "German is tried before English, so it need not be read again"
    assert "über" in row[2]
    assert row[3] == ["eng", "deu"], "all candidates"
    assert row[4].startswith("lingua ")
