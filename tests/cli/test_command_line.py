"""What stands before the command on a line, and the exit code of a process whose output nobody takes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from batchproc.cli import main
from batchproc.cli.line.global_options import GlobalOptions
from batchproc.cli.shared.app import app_for

CONF = "site.yaml"
URL = "postgresql:///archive"


@pytest.fixture
def understood(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], tuple[str, list[str], str]]:
    """Of a line: the command, what is left for it, and which of the global options are given."""
    found: list[tuple[str, list[str], str]] = []

    def notice(command: click.Group, context: click.Context) -> None:
        click.Command.invoke(command, context)
        assert isinstance(context.obj, GlobalOptions)
        obj = context.obj
        given = {"v": obj.verbose, "q": obj.quiet, "c": obj.conf == Path(CONF), "d": obj.database == URL}
        (name, *arguments) = [*context._protected_args, *context.args]
        found.append((name, arguments, "".join(letter for letter, is_given in given.items() if is_given)))

    monkeypatch.setattr(main.DefaultsToRun, "invoke", notice)

    def ask(line: list[str]) -> tuple[str, list[str], str]:
        assert main.run(line) == 0
        return found.pop()

    return ask


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", ("run", [], "")),
        ("-v", ("run", [], "v")),
        ("-vv", ("run", [], "v")),
        ("-vq", ("run", [], "vq")),
        ("-qv --once 42", ("run", ["--once", "42"], "vq")),
        ("-vvv -q status", ("status", [], "vq")),
        ("--json", ("run", ["--json"], "")),
        ("--json --once 42", ("run", ["--json", "--once", "42"], "")),
        ("--once 42 --json", ("run", ["--once", "42", "--json"], "")),
        ("--json -q status", ("status", ["--json"], "q")),
        ("-q --json -v status --check", ("status", ["--json", "--check"], "vq")),
        (f"--json --conf {CONF} --quiet status", ("status", ["--json"], "qc")),
        (f"--conf={CONF} --json --database={URL} jobs list", ("jobs", ["--json", "list"], "cd")),
        (f"--json -vv --database {URL}", ("run", ["--json"], "vd")),
        ("--until 06:00 -r", ("run", ["--until", "06:00", "-r"], "")),
        ("import -r x", ("import", ["-r", "x"], "")),
    ],
)
def test_what_is_for_all_commands_stands_before_them_in_any_order(
    understood: Callable[[list[str]], tuple[str, list[str], str]],
    line: str,
    expected: tuple[str, list[str], str],
) -> None:
    assert understood(line.split()) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--json", "bogus"], "No such command 'bogus'; see: batchproc --help"),
        (["--json", "-q", "bogus", "list"], "No such command 'bogus'; see: batchproc --help"),
        (["--conf"], "Option '--conf' requires an argument"),
        (["-v", "--database"], "Option '--database' requires an argument"),
        (["--json", "--database"], "Option '--database' requires an argument"),
        (["-vx", "status"], "No such option '-x'; see: batchproc --help"),
        (
            ["--conf", "", "status"],
            "Invalid value for '--conf': it is empty: give a settings file, or leave it out; see",
        ),
        (["--conf=", "status"], "Invalid value for '--conf': it is empty: give a settings file, or leave it out; see"),
        (["--database", "", "status"], "--database: is empty: leave it out, or give a URL such as postgresql://"),
        (["--database=", "--once", "42"], "--database: is empty: leave it out, or give a URL such as postgresql://"),
        (["jobs", "list", "--conf", CONF], "--conf stands before the command: batchproc --conf FILE jobs list"),
        (["--once", "42", "--database", URL], "--database stands before the command: batchproc --database URL run"),
        (["completion"], "Missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish; see: batchproc completion"),
    ],
)
def test_a_line_that_cannot_be_is_told_by_what_is_wrong_with_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: list[str], message: str
) -> None:
    monkeypatch.delenv("BATCHPROC_DATABASE_URL", raising=False)
    monkeypatch.setenv("BATCHPROC_HOME", str(tmp_path / "home"))
    assert main.run(line) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"batchproc: {message}")
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert not (tmp_path / "home").exists(), "an embedded database was started in place of what is meant"


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("status -q", "warning"),
        ("status --json --quiet", "warning"),
        ("-q status", "warning"),
        ("jobs -q list", "warning"),
        ("jobs list -v", "debug"),
        ("jobs -q --json list -v", "debug"),
        ("jobs --json --verbose list", "debug"),
        ("db -v url", "debug"),
        ("db status -q", "warning"),
        ("--max-jobs 1 -q", "warning"),
        ("run -vq", "debug"),
        ("status", None),
    ],
)
def test_verbose_and_quiet_stand_behind_the_command_too(
    monkeypatch: pytest.MonkeyPatch, line: str, level: str | None
) -> None:
    found: list[object] = []
    real = click.Command.invoke

    def noticed(command: click.Command, context: click.Context) -> None:
        if isinstance(command, click.Group):
            real(command, context)
            return
        given = context.find_root().obj
        assert isinstance(given, GlobalOptions), "the options are known before anything is made of them"
        found.append(app_for(given).overrides.get("logging.level"))

    monkeypatch.delenv("BATCHPROC_DATABASE_URL", raising=False)
    monkeypatch.setattr(click.Command, "invoke", noticed)
    assert main.run(line.split()) == 0
    assert found == [level]


def test_what_a_command_hands_on_is_not_taken_from_it() -> None:
    psql = main.cli.commands["db"].commands["psql"]  # type: ignore[attr-defined]  # db is a group
    assert psql.make_context("psql", ["-q", "-v", "ON_ERROR_STOP=1"]).params["arguments"] == (
        "-q",
        "-v",
        "ON_ERROR_STOP=1",
    )


@pytest.mark.parametrize("line", [["-vh"], ["-hv"], ["--help", "--once", "42"], ["--json", "--help"]])
def test_help_is_given_wherever_it_is_asked_for(capsys: pytest.CaptureFixture[str], line: list[str]) -> None:
    assert main.run(line) == 0
    assert capsys.readouterr().out.startswith("Usage: batchproc [OPTIONS] COMMAND [ARGS]...")


def test_an_error_that_nobody_reads_has_its_exit_code() -> None:
    """A job of cron or a shell's script goes by it."""
    start = f'{sys.executable} -c "from batchproc.cli.main import main; main()"'
    lines = {
        f"{start} bogus 2>/dev/full": 2,
        f"{start} bogus 2>&-": 2,
        f"{start} bogus 2</dev/null": 2,
        f"trap '' PIPE; {start} bogus 2> >(:)": 2,
        f"set -o pipefail; {start} bogus 2>&1 | true": 2,
        f"{start} status 2>/dev/full": 3,
    }
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "BATCHPROC_DATABASE_URL": "postgresql://127.0.0.1:1/none",
    }
    started = {line: subprocess.Popen(["bash", "-c", line], env=environment) for line in lines}
    assert {line: process.wait(60) for line, process in started.items()} == lines


@pytest.mark.parametrize("group", ["jobs", "campaigns", "db"])
def test_a_group_without_a_command_shows_its_help_as_it_is(capsys: pytest.CaptureFixture[str], group: str) -> None:
    assert main.run([group]) == 2
    shown = capsys.readouterr().err
    assert main.run([group, "--help"]) == 0
    assert shown.splitlines() == capsys.readouterr().out.rstrip("\n").splitlines()
