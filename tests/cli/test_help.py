"""Help: every command shows an example that exists, within 80 cells; and shells complete."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from batchproc.cli import main
from batchproc.cli.examples import EXAMPLES
from batchproc.cli.main import cli
from tests.cli.documentation import problem_with


def tree(command: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    for name, inner in command.commands.items() if isinstance(command, click.Group) else ():
        yield from tree(inner, (*path, name))


COMMANDS = dict(tree())

# Up to an explanation, a pipe or the bracket of a $(...).
_EXAMPLE = re.compile(r"^ *(?:\S+ \S*\()?batchproc ((?:-|\w)[^|)]*?)(?:\s{2,}.*|\s\|.*|\).*)?$", re.MULTILINE)


def help_of(path: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main.run([*path.split(), "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("path", COMMANDS)
def test_help_shows_examples_that_exist(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = help_of(path, capsys)
    examples = _EXAMPLE.findall(shown)
    of_this = [line for line in examples if line.startswith(path) or not path]
    assert of_this, f"batchproc {path} --help has no example of itself:\n{shown}"
    assert [problem for line in examples if (problem := problem_with(line))] == []
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    listed = shown.partition("\nCommands:\n")[2]
    assert [line for line in listed.splitlines() if line.endswith("...")] == [], "no description is cut"
    assert "922337" not in shown, "the range of the database's numbers is nobody's business"


def test_every_example_is_of_a_command_that_exists() -> None:
    assert set(EXAMPLES) - set(COMMANDS) == set()


def test_an_example_says_of_an_order_what_its_command_says(capsys: pytest.CaptureFixture[str]) -> None:
    orders = re.compile(r"(?:oldest|newest) first")
    for path, lines in EXAMPLES.items():
        for line in lines:
            said = orders.search(line)
            named = max((name for name in COMMANDS if line.startswith(name)), key=len)
            if said:
                assert said[0] in help_of(named, capsys).split("Examples:")[0], (path, line)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_of_the_shells_are_valid(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main.run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "_BATCHPROC_COMPLETE" in script
    if shutil.which(shell) is None:
        return
    file = tmp_path / "completion"
    file.write_text(script)
    subprocess.run([shell, "-n", str(file)], check=True, timeout=30)
