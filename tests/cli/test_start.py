"""What a start of the command line imports: the command that is named, and nothing for the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from keyword import iskeyword
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem

from batchproc.cli.line.lazy import LazyCommands, LazyGroup, Listed
from batchproc.cli.main import cli

# Lines of commands one after the other in one process, and after each: its code, and which modules there are by then.
_STARTS = """
import contextlib, io, json, os, sys
from batchproc.cli.main import run
found = []
for line in json.loads(sys.argv[1]):
    name, *words = line.split()
    os.environ.pop("_BATCHPROC_COMPLETE", None)
    if line.endswith("<TAB>"):
        asked = line.removesuffix("<TAB>")
        os.environ.update(_BATCHPROC_COMPLETE="zsh_complete", COMP_WORDS=asked, COMP_CWORD=str(len(words)))
        words = []
    said = io.TextIOWrapper(io.BytesIO(), write_through=True)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = run(words)
        except SystemExit as end:
            code = end.code
    found.append([code, said.buffer.getvalue().decode(), list(sys.modules)])
json.dump(found, sys.stdout)
"""
_NEEDS_NO_DATABASE = [
    "batchproc --version",
    "batchproc --help",
    "batchproc completion bash",
    "batchproc ki<TAB>",
    "batchproc stats",
]
_DEAR = ("psycopg", "pydantic", "loguru", "yaml", "asyncio", "rich")
_OF_OTHERS = (
    "batchproc.engine.node",
    "batchproc.engine.dispatcher",
    "batchproc.handlers.ocr",
    "batchproc.ops.bench",
    "batchproc.ops.demo",
    "batchproc.ops.doctor",
    "batchproc.ops.report",
    "jinja2",
    "matplotlib",
    "pebble",
    "rich.console",
)


def test_a_start_imports_nothing_of_the_commands_that_are_not_named(database_url: str) -> None:
    lines = [*_NEEDS_NO_DATABASE, "batchproc tenants list --json", "batchproc status --json", "batchproc jobs list"]
    done = subprocess.run(
        [sys.executable, "-c", _STARTS, json.dumps(lines)],
        env=os.environ | {"BATCHPROC_DATABASE_URL": database_url, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    starts = dict(zip(lines, json.loads(done.stdout), strict=True))

    assert {line: code for line, (code, _, _) in starts.items() if code} == {"batchproc stats": 2}
    assert "kinds" in starts["batchproc ki<TAB>"][1]
    for line, (_, _, modules) in starts.items():
        unwanted = _OF_OTHERS if line not in _NEEDS_NO_DATABASE else (*_OF_OTHERS, *_DEAR, "batchproc.cli.shared.app")
        assert set(unwanted) & set(modules) == set(), line


def test_the_end_looks_for_no_garbage() -> None:
    code = (
        "from batchproc.cli.main import main\n"
        "class Garbage:\n    def __del__(self): print('collected')\n"
        "left = Garbage()\n"
        "left.itself = left\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert (done.stdout.startswith("batchproc, version"), done.stdout.count("\n")) == (True, 1)


def test_every_name_is_of_a_command_that_is_called_so() -> None:
    commands = dict(cli.commands)

    assert {name: command.name for name, command in commands.items() if command.name != name} == {}
    assert list(commands) == cli.list_commands(click.Context(cli, **cli.context_settings)), (
        "they stand in the order of --help"
    )


def test_every_command_is_in_the_file_of_its_name() -> None:
    places = {name: command.callback.__module__ for name, command in cli.commands.items() if command.callback}

    assert set(places) == set(cli.commands)
    assert [name for name, module in places.items() if module.split(".")[3:] != [name + "_" * iskeyword(name)]] == []


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_the_list_of_commands_says_what_they_say_of_themselves(width: int) -> None:
    real = click.Group(commands=dict(cli.commands))
    lists = []
    for group in (cli, real):
        formatter = click.HelpFormatter(width=width)
        group.format_commands(click.Context(group, **group.context_settings), formatter)
        lists.append(formatter.getvalue())

    assert lists[0] == lists[1]


def test_a_shell_is_told_what_the_commands_say_of_themselves() -> None:
    def told(group: click.Group, incomplete: str) -> list[tuple[str, str | None]]:
        items: list[CompletionItem] = group.shell_complete(click.Context(group, **group.context_settings), incomplete)
        return [(item.value, item.help) for item in items]

    real = click.Group(commands=dict(cli.commands))
    for incomplete in ("", "d", "re", "x"):
        assert told(cli, incomplete) == told(real, incomplete)


@pytest.mark.parametrize("word", ["stats", "nonsense", "job"])
def test_an_unknown_command_is_told_as_ever(word: str) -> None:
    messages = []
    for group in (cli, click.Group(commands=dict(cli.commands))):
        with pytest.raises(click.UsageError) as caught:
            group.resolve_command(click.Context(group, info_name="batchproc", **group.context_settings), [word])
        messages.append(caught.value.format_message())

    assert messages[0] == messages[1]
    assert f"No such command '{word}'" in messages[0]


def test_a_command_that_cannot_be_imported_is_not_taken_for_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken_command.py").write_text("{}['a key of its own']\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    group = LazyGroup(commands=LazyCommands({"broken": Listed("broken_command:command", "")}, lambda *_: None))

    with pytest.raises(KeyError, match="a key of its own"):
        group.resolve_command(click.Context(group, **group.context_settings), ["broken"])
