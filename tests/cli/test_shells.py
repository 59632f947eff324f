"""How a shell's line is understood when it asks for completions, and what it is told to put in place of a word."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import sys
from pathlib import Path

import click
import pytest

from batchproc.cli import main
from batchproc.cli.completion.shells import Bash
from tests.cli.test_help import COMMANDS

URL = "postgresql://me@host:5432/db"
VARIABLES = ("COMP_LINE", "COMP_WORD", "COMP_WORDS", "COMP_CWORD")
COMMAND_NAMES = {path for path in COMMANDS if path and " " not in path}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([""], COMMAND_NAMES),
        (["--json", ""], COMMAND_NAMES),
        (["--json", "ki"], {"kinds"}),
        (["--json", "-vv", "kinds", "s"], {"set", "show"}),
        (["-qv", "--json", "--onc"], {"--once"}),
        (["--json", "--lane", ""], {"interactive", "bulk"}),
        (["--database", URL, "jobs", "li"], {"list"}),
        ([f"--database={URL}?a=b", "jobs", "li"], {"list"}),
        (["enqueue", "ocr", "--lane=in"], {"interactive"}),
        (["run", "--json", "--lane="], {"interactive", "bulk"}),
    ],
)
def test_a_line_is_understood_in_every_shell(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: list[str], expected: set[str]
) -> None:
    monkeypatch.setenv("COMP_LINE", f"{shlex.join(['batchproc', *words[:-1]])} {words[-1]}")
    monkeypatch.setenv("COMP_WORD", re.split("[=:@]", words[-1])[-1])
    monkeypatch.setenv("COMP_WORDS", os.environ["COMP_LINE"])
    told = {}
    for shell, cursor in {"bash": "", "zsh": str(len(words)), "fish": words[-1]}.items():
        monkeypatch.setenv("_BATCHPROC_COMPLETE", f"{shell}_complete")
        monkeypatch.setenv("COMP_CWORD", cursor)
        with pytest.raises(SystemExit):
            main.run([])
        lines = capfd.readouterr().out.splitlines()
        told[shell] = {re.split("[,\t]", line)[1] for line in lines} if shell != "zsh" else set(lines[1::3])
    assert told == dict.fromkeys(told, expected)


@pytest.mark.parametrize(
    ("typed", "replaced", "answers"),
    [
        ("--at=no", "no", ["noon:1", "noon:2"]),
        ("--at=no", "--at=no", ["--at=noon:1", "--at=noon:2"]),
        ("--at=noon:", "", ["1", "2"]),
        ("--at noon:2", "2", ["2"]),
        ("--at noon:2", "noon:2", ["noon:2"]),
        ("--at 'no", "no", ["noon:1", "noon:2"]),
        (r"--at no\on", r"no\on", ["noon:1", "noon:2"]),
        ("--a", "--a", ["--at"]),
        ("--at", "--at", ["--at"]),
        ("--at=noon:1 --b", "--b", ["--by"]),
    ],
)
def test_bash_is_told_what_stands_in_place_of_the_word_that_it_replaces(
    monkeypatch: pytest.MonkeyPatch, typed: str, replaced: str, answers: list[str]
) -> None:
    """It takes words apart at ``=``, ``:`` and ``@``, unless its COMP_WORDBREAKS says otherwise."""
    at = click.Option(["--at"], type=click.Choice(["noon:1", "noon:2"]))
    command = click.Command("when", params=[at, click.Option(["--by"])])
    monkeypatch.setenv("COMP_LINE", f"when {typed}")
    monkeypatch.setenv("COMP_WORD", replaced)
    told = Bash(command, {}, "when", "_WHEN_COMPLETE").complete()
    assert told.splitlines() == [f"plain,{answer}" for answer in answers]


@pytest.mark.parametrize(
    "variables",
    [
        {"_BATCHPROC_COMPLETE": "bash_complete"},
        {"_BATCHPROC_COMPLETE": "bash_complete", "COMP_LINE": "batchproc "},
        {"_BATCHPROC_COMPLETE": "zsh_complete"},
        {"_BATCHPROC_COMPLETE": "zsh_complete", "COMP_WORDS": "batchproc ", "COMP_CWORD": "one"},
        {"_BATCHPROC_COMPLETE": "fish_complete", "COMP_WORDS": "batchproc "},
        {"_BATCHPROC_COMPLETE": "powershell_complete"},
        {"_BATCHPROC_COMPLETE": "bash_nonsense"},
        {"_BATCHPROC_COMPLETE": "1"},
    ],
)
def test_completions_that_no_shell_asks_for_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variables: dict[str, str]
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main.run([]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("batchproc: _BATCHPROC_COMPLETE ")
    assert (said.out, said.err.count("\n")) == ("", 1)


PROGRAM = """#!/bin/sh
if [ "$1" = completion ] || [ "$_BATCHPROC_COMPLETE" ]; then exec {python} -P -m batchproc "$@"; fi
echo "$*" >>{done}
"""
TYPED = {
    f"true; A=b:c batchproc --json --database {URL} jobs li\t": f"--json --database {URL} jobs list",
    '~/batchproc --conf "é b:c" run --lane="in\t--onc\t': "--conf é b:c run --lane=interactive --once",
}


def test_a_person_types_into_bash_and_it_completes(tmp_path: Path) -> None:
    """As bash itself takes the line apart and puts it together again; the program notes what it was started with."""
    done = tmp_path / "done"
    program = tmp_path / "batchproc"
    program.write_text(PROGRAM.format(python=sys.executable, done=done))
    program.chmod(0o755)
    (tmp_path / "bashrc").write_text("source <(batchproc completion bash)\n")
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "HOME": str(tmp_path),
        "INPUTRC": "/dev/null",
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
    }
    bash, terminal = pty.fork()
    if bash == 0:
        os.execvpe("bash", ["bash", "--noprofile", "--rcfile", str(tmp_path / "bashrc"), "-i"], environment)
    shown = b""
    try:
        for count, line in enumerate(TYPED, 1):
            os.write(terminal, f"{line}\n".encode())
            while not done.exists() or done.read_text().count("\n") < count:
                if select.select([terminal], [], [], 0.02)[0]:
                    shown += os.read(terminal, 4096)
    finally:
        os.kill(bash, signal.SIGKILL)
        os.waitpid(bash, 0)
        os.close(terminal)
    noted = [line.rstrip() for line in done.read_text().splitlines()]
    assert noted == list(TYPED.values()), shown.decode()
