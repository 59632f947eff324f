"""What the documentation says is so: its sessions are run, and what it names exists."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest
from PIL import Image
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc import config
from batchproc.cli import commands
from batchproc.cli.main import cli
from batchproc.database import connect
from batchproc.handlers import registry
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure
from batchproc.ops.drawing import broken_pdf, letter, pdf, save_png
from batchproc.ops.drawing.text import Language
from batchproc.settings import KindOverride, Settings
from tests.cli.test_config import keys_of
from tests.handlers.running_job import add_document, add_tenant, running_job
from tests.ocr.encrypted import encrypted_pdf

REPO = Path(__file__).parents[2]
README = REPO / "README.md"
HANDLERS = REPO / "batchproc" / "docs" / "handlers.md"
PAGES = [README, *sorted((REPO / "batchproc" / "docs").glob("*.md"))]

# Options of other programs, and files of the reader's, that the pages name.
FOREIGN_OPTIONS = {"--foreground"}
FOREIGN_NAMES = {"site.yaml", "archive_handlers.py", "connection.transaction", "psycopg.connect", "tempfile.tempdir"}

_DPI = 200  # enough to be read well, and quicker than 300


@dataclass(frozen=True)
class Fence:
    """A fenced block: its language, its text, and the file that the line before it names."""

    language: str
    text: str
    file: str | None


@dataclass
class Step:
    """One command of a session and the lines it is said to print; ``...`` stands for any lines."""

    command: str
    expected: list[str] = field(default_factory=list)


def fences(page: Path) -> list[Fence]:
    pattern = re.compile(r"(?:`(/[^`\n]+)`:\n\n)?^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [Fence(m[2], m[3], m[1]) for m in pattern.finditer(page.read_text("utf-8"))]


def steps(page: Path) -> list[Step]:
    """The commands of all sessions of a page, in order."""
    found: list[Step] = []
    for fence in fences(page):
        for line in fence.text.splitlines() if fence.language == "console" else ():
            if line.startswith("$ "):
                found.append(Step(line[2:]))
            else:
                found[-1].expected.append(line)
    return found


# -- the sessions are run


@pytest.fixture
def reader(tmp_path: Path, database_url: str) -> Session:
    """A reader with an empty home, the scans that the README speaks of, and the files that it has them write."""
    scans = tmp_path / "srv" / "scans"
    scans.mkdir(parents=True)
    draw_scans(scans)
    for fence in fences(README):
        if fence.file is not None:
            path = tmp_path / fence.file.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fence.text, "utf-8")
    launcher = tmp_path / "bin" / "batchproc"
    launcher.parent.mkdir()
    launcher.write_text(
        f'#!/bin/sh\nPYTHONPATH={REPO}${{PYTHONPATH:+:$PYTHONPATH}} exec {sys.executable} -P -m batchproc "$@"\n'
    )
    launcher.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BATCHPROC_", "PYTHON"))}
    environment = {
        **kept,
        "HOME": str(tmp_path),
        "BATCHPROC_HOME": str(tmp_path / "home"),
        "BATCHPROC_DATABASE_URL": database_url,
        "BATCHPROC_POOL__WORKERS": "1",  # so that the jobs that follow others always get the same numbers
    }
    return Session(tmp_path, environment)


def draw_scans(folder: Path) -> None:
    save_png(_scan(18, "deu"), folder / "rechnung.png", _DPI)
    broken_pdf(folder / "broken.pdf")
    pdf([_scan(53), _scan(69)], folder / "lease.pdf", _DPI)
    save_png(_scan(32, paragraphs=2), folder / "invoice.png", _DPI)


def _scan(seed: int, language: Language = "eng", paragraphs: int = 1) -> Image.Image:
    return letter(seed, language, dpi=_DPI, paragraphs=paragraphs).image


@dataclass
class Session:
    """A shell in ``folder``, in which ``/srv`` stands for the folder of that name there."""

    folder: Path
    environment: dict[str, str]

    def run(self, commands: Iterable[str]) -> list[tuple[int, str]]:
        """The exit code and the output, errors included, of each command."""
        script = ["exec 2>&1"]
        for command in commands:
            script.append(command.replace("/srv/", f"{self.folder}/srv/"))
            script.append(r"code=$?; printf '\036%d\036' $code; (exit $code)")
        shell = subprocess.run(
            ["timeout", "--kill-after=10", "90", "bash", "-c", "\n".join(script)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        parts = shell.stdout.replace(f"{self.folder}/srv/", "/srv/").split("\x1e")
        return [(int(code), output) for output, code in zip(parts[0::2], parts[1::2], strict=False)]


def steady(text: str) -> str:
    """Text without what differs from run to run: times, durations, line numbers, the width of columns."""
    text = re.sub(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"\b\d\d:\d\d:\d\d\b", "TIME", text)
    text = re.sub(r"\b\d+\.\d+(?:e-\d+)?\b", "N", text)
    text = re.sub(r"\.py:\d+", ".py:N", text)
    return "".join(" ".join(line.split()) + "\n" for line in text.splitlines())


def matches(expected: list[str], output: str) -> bool:
    lines = steady("\n".join(expected)).splitlines(keepends=True)
    pattern = "".join("(?:.*\n)*" if line == "...\n" else re.escape(line) for line in lines)
    return re.fullmatch(pattern, steady(output)) is not None


def test_the_sessions_of_the_readme(reader: Session) -> None:
    told = steps(README)
    done = reader.run(step.command for step in told)
    assert len(done) == len(told), "the shell ended early"
    following = [step.command for step in told[1:]] + [""]
    for step, after, (code, output) in zip(told, following, done, strict=True):
        assert matches(step.expected, output), f"$ {step.command}\n{output}\nbut README.md says\n" + "\n".join(
            step.expected
        )
        assert code == 0 or after == "echo $?", f"$ {step.command} exits with {code}:\n{output}"


def test_the_example_with_a_file(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = next(fence.text for fence in fences(HANDLERS) if "@handler" in fence.text)
    (tmp_path / "thumbnail_example.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = registry.load(["thumbnail_example"])["thumbnail"]
    monkeypatch.setitem(entry.function.__globals__, "FOLDER", tmp_path)
    scan = tmp_path / "scan.png"
    save_png(letter(1, dpi=72, paragraphs=1).image, scan, dpi=72)
    with connect(database_url) as connection:
        ctx = _context(connection, tmp_path, scan)
        made = Path(entry.function(ctx, entry.args_model(size=64)).path)
        assert made.read_bytes().startswith(b"\x89PNG")
        assert entry.function(ctx, entry.args_model(size=64)).path == str(made), "it is idempotent"
    assert {path.name for path in tmp_path.glob("acme-*")} == {made.name}


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


def code_of(page: Path) -> Iterator[str]:
    """Every piece of code on a page that is not Python: spans, and the lines of blocks and sessions."""
    text = page.read_text("utf-8")
    for fence in fences(page):
        if fence.language in ("console", ""):
            yield from (line.removeprefix("$ ") for line in fence.text.splitlines() if line.startswith("$ "))
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from (line.strip() for line in re.findall(r"^ {4,}\S.*$", text, re.MULTILINE))
    yield from re.findall(r"`([^`\n]+)`", text)


def command_lines(page: Path) -> Iterator[str]:
    """What follows ``batchproc`` in code, and spans that begin with the name of a command."""
    for code in code_of(page):
        if called := re.search(r"(?:^|[\s/])batchproc +([a-z-].*)", code):
            yield called[1]
        elif code.split()[0] in cli.commands:
            yield code


def problem_with(line: str) -> str | None:
    """The first command or option in ``line`` that does not exist."""
    words = shlex.split(re.split(r"\s{2,}|\s[|>#]", line)[0])  # up to an explanation, a pipe or a comment
    if words and words[0].startswith("--"):
        words.insert(0, "run")  # as the command line itself has it
    command: click.Command = cli
    while words:
        word = words.pop(0)
        if word.startswith("-") and word.strip("-"):
            option = options_of(command).get(word.partition("=")[0])
            if option is None:
                return f"{command.name} has no {word}"
            if not option.is_flag and "=" not in word and words:
                words.pop(0)
        elif isinstance(command, click.Group):
            if word not in command.commands:
                return f"{command.name} has no command {word}"
            command = command.commands[word]
            if command.context_settings.get("ignore_unknown_options"):
                return None  # what follows is another program's
    return None


def options_of(command: click.Command) -> dict[str, click.Option]:
    """The options of one command by each of their names, ``--help`` too."""
    return {
        name: option
        for option in command.get_params(click.Context(command))
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }


def all_options(command: click.Command) -> set[str]:
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return set(options_of(command)).union(*map(all_options, inner))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path) -> None:
    commands.register(cli)
    lines = list(command_lines(page))
    assert lines, "the page names no command, or they are not found"
    assert [problem for line in lines if (problem := problem_with(line))] == []
    named = {option for code in code_of(page) for option in re.findall(r"^--[a-z-]+", code)}
    assert named - all_options(cli) - FOREIGN_OPTIONS == set()


def test_what_does_not_exist_is_found() -> None:
    commands.register(cli)
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


KEYS = frozenset(keys_of(Settings))
SECTIONS = frozenset(key[: end.start()] for key in KEYS for end in re.finditer(r"\.", key)) | set(Settings.model_fields)


def has_setting(key: str) -> bool:
    """Whether ``pool.workers``, ``kinds.ocr.timeout`` or a section such as ``ocr.bounds`` is a setting."""
    of_a_kind = re.fullmatch(r"kinds\.\w+\.(\w+)", key)
    return key in KEYS | SECTIONS or (of_a_kind is not None and of_a_kind[1] in KindOverride.model_fields)


def exists(name: str) -> bool:
    """Whether a dotted name in code is a setting, a module or name of batchproc, part of the context, or a file."""
    first, _, rest = name.partition(".")
    if first in Settings.model_fields:
        return has_setting(name)
    if first == "ctx":
        return hasattr(Context, rest) or rest in Context.__dataclass_fields__
    if first == "batchproc":
        module, _, attribute = name.rpartition(".")
        return importlib.util.find_spec(name) is not None if module != "batchproc" else _is_public(attribute)
    return name in FOREIGN_NAMES or any(REPO.rglob(name))


def _is_public(name: str) -> bool:
    import batchproc

    return name in batchproc.__all__ or importlib.util.find_spec(f"batchproc.{name}") is not None


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
