"""Errors, warnings and notes on stderr: on a terminal within its width, to be copied from; elsewhere a line each."""

from __future__ import annotations

import ast
import io
import os
import sys
from collections import Counter
from pathlib import Path

import click
import pytest
from rich.cells import cell_len

from batchproc.cli import main
from batchproc.cli.jobs import why
from batchproc.cli.reprocessing import reprocess
from batchproc.cli.shared import messages, output
from batchproc.cli.shared.messages import confirm, say, wrapped
from batchproc.ops.estimates import Estimate
from batchproc.ops.reprocessing import Reprocessed
from batchproc.ops.why import Answer, Reason
from tests.cli.documentation import REPO
from tests.cli.test_terminal import Terminal, terminal

__all__ = ["terminal"]

# Message, and the commands in it.
TOLD = [
    (
        "document 8 has no text (failed, unreadable_file); see: batchproc documents show 8",
        ["batchproc documents show 8"],
    ),
    (
        "1234 had failed as out_of_memory and get no job: split the document, or raise pool.memory_limit_mb, then:"
        " batchproc reprocess --failure-code out_of_memory",
        ["batchproc reprocess --failure-code out_of_memory"],
    ),
    (
        "tenant müller: the password file /etc/keys cannot be used: give it another:"
        " batchproc tenants set müller --password-file PATH, then try it again: batchproc jobs retry 42",
        ["batchproc tenants set müller --password-file PATH", "batchproc jobs retry 42"],
    ),
    (
        "the node, process 7, was killed by signal 9 (SIGKILL): if nobody did that by hand, look for a lack of memory:"
        " dmesg | grep -i oom",
        ["dmesg | grep -i oom"],
    ),
    (
        "写真と文書の保存 写真と文書の保存 写真と文書の保存: mount it, or, if it will never come back:"
        " batchproc storage forget '/srv/Akten, alt  (2)'",
        ["batchproc storage forget '/srv/Akten, alt  (2)'"],
    ),
    (
        "a schema of its own: BATCHPROC_DATABASE__SCHEMA=demo_2 batchproc demo or batchproc run --until 06:00",
        ["BATCHPROC_DATABASE__SCHEMA=demo_2 batchproc demo", "batchproc run --until 06:00"],
    ),
    ("check that the server runs and that database.url is right (batchproc doctor)", ["(batchproc doctor)"]),
]


def shown_on(shown: int) -> list[str]:
    """What the terminal has been sent, line by line."""
    sys.stderr.flush()
    click.echo("that is all", err=True)
    data = b""
    while not data.endswith(b"that is all\r\n"):
        data += os.read(shown, 4096)
    return data.decode().split("\r\n")[:-2]


@pytest.mark.parametrize("width", [52, 60, 66, 72, 80, 100])
@pytest.mark.parametrize(("text", "commands"), TOLD)
def test_lines_are_broken_between_words_and_never_in_a_command(text: str, commands: list[str], width: int) -> None:
    lines = wrapped(text, width)
    assert [line for line in lines if cell_len(line) > width] == []
    assert (len(lines) > 1) == (cell_len(text) > width)
    assert [line[:2] for line in lines[1:]] == ["  "] * (len(lines) - 1)
    for command in commands:
        assert any(command in line for line in lines), command
    joined = " ".join(line.strip() for line in lines)
    assert joined.replace(",", "").split() == text.replace(",", "").split(), "nothing is lost"


def test_a_command_that_would_be_broken_stands_alone_to_be_copied() -> None:
    text, (command, retry) = TOLD[2]
    lines = wrapped(text, 80)
    assert lines[-2:] == [f"    {command}", f"  then try it again: {retry}"]
    assert wrapped(text, 42)[-3:] == [command, "  then try it again:", f"    {retry}"]
    assert wrapped(text, len(command) + 1)[-2] == f" {command}", "as far right as there is room"


def test_a_command_longer_than_a_line_is_left_to_the_terminal_which_copies_it_whole() -> None:
    command = "batchproc jobs retry " + " ".join(map(str, range(1000, 1020)))
    assert wrapped(f"to take that back: {command}, or wait", 80) == ["to take that back:", command, "  or wait"]


def test_a_word_longer_than_a_line_is_not_broken() -> None:
    path = "/srv/archive/" + "a-very-long-name-" * 6
    assert wrapped(f"batchproc: {path}: it is not there", 80) == ["batchproc:", f"  {path}:", "  it is not there"]


def test_commands_stay_whole_in_what_doctor_and_why_tell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "batchproc tenants set stadtwerke-weimar-nord --password-file PATH"
    reason = Reason("paused", "the password file cannot be read " * 4, f"let it be one of mode 0600, or: {command}")
    why._print(Answer(1, "stadtwerke", "ocr", "bulk", "available", (reason,), None, None))
    assert f"    {command}" in capsys.readouterr().out.splitlines()

    monkeypatch.setattr(output, "screen_width", lambda: 80)
    lines = output.broken(f"{'':20}what to do: {reason.remedy}, then again: {TOLD[0][1][0]}", indent=20)
    assert lines[1:] == [" " * (80 - len(command)) + command, f"{'':20}then again: {TOLD[0][1][0]}"]


def test_errors_warnings_and_usage_errors_fit_the_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(60)
    assert main.run(["jobs", "list", "--state", "nothing"]) == 2
    lines = shown_on(shown)
    assert max(map(cell_len, lines)) <= 60
    assert lines[0].startswith("batchproc: Invalid value for '--state': 'nothing' is not")
    assert lines[-1] == "    batchproc jobs list --help"
    assert len(lines) == 4

    monkeypatch.delenv("BATCHPROC_CONF", raising=False)
    assert main.run(["--conf", "/no/such/folder/of/settings.yaml", "--database", "postgresql://x", "status"]) == 2
    lines = shown_on(shown)
    assert lines == [
        "batchproc: /no/such/folder/of/settings.yaml: cannot read",
        "  these settings: No such file or directory",
    ]


def test_a_question_leaves_room_for_what_is_typed(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(40)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    with pytest.raises(click.Abort):
        confirm("1234 jobs of the tenant will be cancelled. Go on?")
    click.echo(err=True)
    assert [line.rstrip() for line in shown_on(shown)] == [
        "1234 jobs of the tenant will be",
        "  cancelled. Go on? [y/N]:",
    ]


def test_without_a_terminal_a_message_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "err").open("w", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stderr", file)
        for text, _ in TOLD:
            say(text)
        monkeypatch.undo()
    assert (tmp_path / "err").read_text("utf-8").splitlines() == [text for text, _ in TOLD]


def test_all_that_is_said_on_stderr_goes_the_same_way() -> None:
    """Apart from lines that are written over, and the help of a group of commands, which click has broken."""
    elsewhere = []
    for file in sorted((REPO / "batchproc" / "cli").rglob("*.py")):
        if file.name != Path(messages.__file__).name:
            for call in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(call, ast.Call):
                    named = {word.arg: word.value for word in call.keywords}
                    if "err" in named and "nl" not in named:
                        elsewhere.append(f"{file.name}: {ast.unparse(call)}")
    assert elsewhere == ["main.py: partial(click.echo, error.format_message(), err=True)"]


def test_a_sentence_on_stdout_is_broken_between_words_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, _ in TOLD:
        output.print_broken(text)
    assert capsys.readouterr().out.splitlines() == [text for text, _ in TOLD], "elsewhere it is one line"
    monkeypatch.setattr(output, "screen_width", lambda: 80)
    for text, _ in TOLD:
        output.print_broken(text)
    assert capsys.readouterr().out.splitlines() == [line for text, _ in TOLD for line in wrapped(text, 80)]

    done = Reprocessed(selected=12, queued_otherwise=1, differs_in=Counter(languages=1, mode=1), campaign_id=7)
    estimate = Estimate(pages=0, pages_unknown=0, worker_seconds=None, workers=1, seconds=None)
    reprocess._print(done, estimate, dry_run=False, pilot=False, as_json=False)
    assert [line for line in capsys.readouterr().out.splitlines() if cell_len(line) > 80] == []


def test_every_sentence_on_stdout_goes_that_way() -> None:
    """What is printed by click itself is no sentence: a heading, a line of what was broken, or what is to be read by
    a program."""
    elsewhere = []
    for file in sorted((REPO / "batchproc" / "cli").rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "click.echo" and is_sentence(call.args[:1]):
                elsewhere.append(f"{file.name}: {ast.unparse(call)}")
    # It brings its own lines.
    assert elsewhere == ["revisions.py: click.echo(_described(past))"]


def is_sentence(told: list[ast.expr]) -> bool:
    """An f-string of some words, or what a function here makes; not with a line break, which headings have."""
    match told:
        case [ast.JoinedStr(values)]:
            words = "".join(str(part.value) if isinstance(part, ast.Constant) else " it " for part in values)
            return len(words.split()) > 3 and "\n" not in words
        case [ast.Call(ast.Name(name))]:
            return name.startswith("_")
    return False
