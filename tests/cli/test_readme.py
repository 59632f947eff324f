"""What the documentation says is so: its sessions are run, and what it names exists."""

from __future__ import annotations

import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc import config
from batchproc.cli.main import cli
from batchproc.database import connect
from batchproc.handlers import registry
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure
from batchproc.ops.drawing import letter, save_png
from tests.cli.documentation import (
    FOREIGN_OPTIONS,
    HANDLERS,
    PAGES,
    README,
    Fence,
    all_options,
    check_sessions,
    code_of,
    command_lines,
    exists,
    fences,
    has_setting,
    problem_with,
    session_of,
)
from tests.handlers.running_job import add_document, add_tenant, running_job
from tests.ocr.encrypted import encrypted_pdf

# -- the sessions are run


@pytest.mark.timeout(240)
def test_the_sessions_of_the_readme(tmp_path: Path, database_url: str) -> None:
    check_sessions(README, session_of(README, tmp_path, database_url))


def test_the_link_gives_a_clone_its_name(tmp_path: Path) -> None:
    """Where nothing is: a fresh home has neither the folder nor a PATH that leads there."""
    [lines] = re.findall(r"(?:^ {4}.*\n)*^ {4}ln -s .*\n(?:^ {4}.*\n)*", README.read_text("utf-8"), re.MULTILINE)
    launcher = tmp_path / "clone" / "bin" / "batchproc"
    launcher.parent.mkdir(parents=True)
    launcher.write_text("#!/bin/sh\necho started\n")
    launcher.chmod(0o755)
    (tmp_path / "home").mkdir()
    ran = subprocess.run(
        ["bash", "-ec", textwrap.dedent(lines) + "cd /\nbatchproc\n"],
        cwd=tmp_path / "clone",
        env={"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "started\n", "")


def test_the_example_with_a_file(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = next(fence.text for fence in fences(HANDLERS) if "@handler" in fence.text)
    (tmp_path / "thumbnail_example.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = registry.load(["thumbnail_example"])["thumbnail"]
    monkeypatch.setitem(entry.function.__globals__, "FOLDER", tmp_path / "thumbnails")  # which nothing has made
    scan = tmp_path / "scan.png"
    save_png(letter(1, dpi=72, paragraphs=1).image, scan, dpi=72)
    with connect(database_url) as connection:
        ctx = _context(connection, tmp_path, scan)
        made = Path(entry.function(ctx, entry.args_model(size=64)).path)
        assert made.read_bytes().startswith(b"\x89PNG")
        assert entry.function(ctx, entry.args_model(size=64)).path == str(made), "it is idempotent"
    assert {path.name for path in (tmp_path / "thumbnails").iterdir()} == {made.name}


def test_the_example_of_the_handlers_page_opens_what_a_tenants_password_opens(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = next(fence.text for fence in fences(HANDLERS) if "@handler" in fence.text)
    (tmp_path / "encrypted_thumbnail_example.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = registry.load(["encrypted_thumbnail_example"])["thumbnail"]
    monkeypatch.setitem(entry.function.__globals__, "FOLDER", tmp_path)
    (tmp_path / "letter.pdf").write_bytes(encrypted_pdf("A letter with secrets", user=b"open sesame"))
    passwords = tmp_path / "passwords"
    passwords.write_text("open sesame\n")
    passwords.chmod(0o600)
    with connect(database_url) as connection:
        ctx = _context(connection, tmp_path, tmp_path / "letter.pdf", password_file=str(passwords))
        assert Path(entry.function(ctx, entry.args_model()).path).exists()
        passwords.unlink()
        with pytest.raises(Failure) as caught:
            entry.function(ctx, entry.args_model())
    assert caught.value.code in entry.spec.failure_codes


def _context(connection: Connection[TupleRow], folder: Path, scan: Path, **settings: str) -> Context:
    tenant_id = add_tenant(connection, **settings)
    document_id = add_document(connection, tenant_id, scan)
    return running_job(connection, folder, kind="thumbnail", tenant_id=tenant_id, document_id=document_id)


@pytest.mark.parametrize("fence", [f for f in fences(README) if f.language == "yaml"], ids=lambda f: f.text[:20])
def test_settings_files_are_valid(fence: Fence, tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(fence.text, "utf-8")
    config.load(file, {})


# -- what is named exists


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path) -> None:
    lines = list(command_lines(page))
    assert lines, "the page names no command, or they are not found"
    assert [problem for line in lines if (problem := problem_with(line))] == []
    named = {option for code in code_of(page) for option in re.findall(r"^--[a-z-]+", code)}
    assert named - all_options(cli) - FOREIGN_OPTIONS == set()


def test_what_does_not_exist_is_found() -> None:
    lines = ["jobs lost", "frobnicate", "run --ones 3", "--onec 3", "jobs list --tenant acme --stat available"]
    assert [problem_with(line) for line in lines] == [
        "jobs has no command lost",
        "cli has no command frobnicate",
        "run has no --ones",
        "run has no --onec",
        "list has no --stat",
    ]
    assert problem_with("--conf site.yaml jobs list --state available --json | wc --lines") is not None
    assert problem_with("jobs list --state available --json | wc --lines") is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_and_names_exist(page: Path) -> None:
    spans = [re.sub(r"\(.*\)$", "", code) for code in code_of(page)]
    dotted = {span for span in spans if re.fullmatch(r"[a-z_]+(?:\.[a-z_]+)+", span)}
    assert {name for name in dotted if not exists(name)} == set()
    variables = {variable for code in code_of(page) for variable in re.findall(r"BATCHPROC_\w+__\w+", code)}
    keys = {variable: variable.removeprefix("BATCHPROC_").lower().replace("__", ".") for variable in variables}
    assert {variable for variable, key in keys.items() if not has_setting(key)} == set()


def test_unknown_settings_are_found() -> None:
    assert has_setting("pool.workers")
    assert has_setting("database.schema")
    assert has_setting("ocr.bounds.max_pages")
    assert has_setting("kinds.ocr.timeout")
    assert not has_setting("pool.wrokers")
    assert not has_setting("kinds.ocr.wrong")
    assert not has_setting("pool.workers.more")


def rows(page: Path, heading: str) -> set[str]:
    """The names in the first column of the table below a heading."""
    section = page.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return {name for cell in re.findall(r"^\| (.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)", cell)}


def test_the_options_of_a_kind_are_documented() -> None:
    assert rows(HANDLERS, "Options of the kind") == set(registry.handler.__annotations__) - {"name", "return"}


def test_the_context_is_documented() -> None:
    public = {name for name in {*Context.__dataclass_fields__, *vars(Context)} if not name.startswith("_")}
    assert rows(HANDLERS, "The context") == public - {"connect", "end", "sink", "follow_ups"}
