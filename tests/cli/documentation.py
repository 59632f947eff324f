"""The documentation as tests read it: its sessions, which they run, and what it names, which has to exist."""

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
from PIL import Image

from batchproc.cli.main import cli
from batchproc.handlers.context import Context
from batchproc.ops.drawing import broken_pdf, letter, pdf, save_png
from batchproc.ops.drawing.text import Language
from batchproc.settings import KindOverride, Settings
from tests.cli.test_config import keys_of

REPO = Path(__file__).parents[2]
README = REPO / "README.md"
HANDLERS = REPO / "batchproc" / "docs" / "handlers.md"
PAGES = [README, *sorted((REPO / "batchproc" / "docs").glob("*.md"))]

# Options of other programs, and files of the reader's, that the pages name.
FOREIGN_OPTIONS = {"--foreground"}
FOREIGN_NAMES = {
    "site.yaml",
    "archive_handlers.py",
    "connection.transaction",
    "psycopg.connect",
    "tempfile.tempdir",
    "error.type",
}

_LONGEST = 200
"""Seconds that a page's sessions may take, on a machine that does other things as well."""

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


# -- the sessions


def session_of(page: Path, folder: Path, database_url: str) -> Session:
    """A reader with an empty home, the scans that the pages speak of, and the files that this page has them write."""
    scans = folder / "srv" / "scans"
    scans.mkdir(parents=True)
    draw_scans(scans)
    for fence in fences(page):
        if fence.file is not None:
            path = folder / fence.file.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fence.text.replace("/srv/", f"{folder}/srv/"), "utf-8")
    launcher = folder / "bin" / "batchproc"
    launcher.parent.mkdir()
    launcher.write_text(
        f'#!/bin/sh\nPYTHONPATH={REPO}${{PYTHONPATH:+:$PYTHONPATH}} exec {sys.executable} -P -m batchproc "$@"\n'
    )
    launcher.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BATCHPROC_", "PYTHON"))}
    environment = {
        **kept,
        "HOME": str(folder),
        "BATCHPROC_HOME": str(folder / "home"),
        "PATH": f"{launcher.parent}:{kept['PATH']}",  # as with the link that the README advises
        "BATCHPROC_DATABASE_URL": database_url,
        "BATCHPROC_POOL__WORKERS": "1",  # so that the jobs that follow others always get the same numbers
    }
    return Session(folder, environment)


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
            ["timeout", "--kill-after=10", str(_LONGEST), "bash", "-c", "\n".join(script)],
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
    text = re.sub(r"(?:<1|\b\d+(?:\.\d+)?) m?s\b|\b\d+ min(?: \d\d s)?\b", "N s", text)
    text = re.sub(r"(?<![\w.])(?:<1|\d+(?:\.\d+)?) (?:ms|s|min(?: \d\d s)?)\b", "TOOK", text)
    text = re.sub(r"\b\d+\.\d+(?:e-\d+)?\b", "N", text)
    text = re.sub(r"\.py:\d+", ".py:N", text)
    text = re.sub(r"\bat most \d+ of\b", "at most N of", text)
    return "".join(" ".join(line.split()) + "\n" for line in text.splitlines())


def matches(expected: list[str], output: str) -> bool:
    lines = steady("\n".join(expected)).splitlines(keepends=True)
    pattern = "".join("(?:.*\n)*" if line == "...\n" else re.escape(line) for line in lines)
    return re.fullmatch(pattern, steady(output)) is not None


def check_sessions(page: Path, reader: Session) -> None:
    """Runs the sessions of a page in one shell, and compares what they print; an exit code but 0 has to be shown."""
    told = steps(page)
    done = reader.run(step.command for step in told)
    assert len(done) == len(told), "the shell ended early"
    following = [step.command for step in told[1:]] + [""]
    for step, after, (code, output) in zip(told, following, done, strict=True):
        assert matches(step.expected, output), f"$ {step.command}\n{output}\nbut {page.name} says\n" + "\n".join(
            step.expected
        )
        assert code == 0 or after == "echo $?", f"$ {step.command} exits with {code}:\n{output}"


# -- what is named


def code_of(page: Path) -> Iterator[str]:
    """Every piece of code on a page that is not Python: spans, and the lines of blocks and sessions."""
    text = page.read_text("utf-8")
    for fence in fences(page):
        if fence.language in ("console", ""):
            yield from (line.removeprefix("$ ") for line in fence.text.splitlines() if line.startswith("$ "))
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from (line.strip() for line in re.findall(r"^ {4,}\S.*$", text, re.MULTILINE))
    for paragraph in re.split(r"\n\s*\n", text):
        yield from re.findall(r"`([^`]+)`", re.sub(r"\s*\n\s*", " ", paragraph))  # one may go over the end of a line


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
        for option in command.get_params(click.Context(command, help_option_names=["-h", "--help"]))
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }


def all_options(command: click.Command) -> set[str]:
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return set(options_of(command)).union(*map(all_options, inner))


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
