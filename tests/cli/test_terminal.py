"""Lines that are written over fit into the terminal: of one that wraps, all but its last row would stay."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest
from rich.cells import cell_len

from batchproc.cli.run.progress import ProgressLine
from batchproc.cli.shared.terminal import StatusLine
from batchproc.engine.counts import Counts
from batchproc.engine.run_report import Begun
from batchproc.ops.run_ahead import RunLook
from batchproc.queue.inspection_run import Due, Retries

Terminal = Callable[[int], int]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Makes stderr a terminal of so many columns; returns what reads what it shows."""
    opened: list[int] = []
    streams: list[TextIO] = []

    def made(columns: int) -> int:
        shown, inner = os.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        stream = os.fdopen(inner, "w", encoding="utf-8")
        opened.append(shown)
        streams.append(stream)
        monkeypatch.setattr(sys, "stderr", stream)
        return shown

    yield made
    monkeypatch.undo()
    for stream in streams:
        stream.close()
    for descriptor in opened:
        os.close(descriptor)


def first_line(shown: int) -> str:
    data = b""
    while not data.endswith(b"\x1b[K"):
        data += os.read(shown, 1)
    return data.removesuffix(b"\x1b[K").decode().removeprefix("\r")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("12 of 40 jobs", "12 of 40 jobs"),
        ("x" * 19, "x" * 19),
        ("x" * 20, "x" * 18 + "…"),
        ("文" * 12, "文" * 9 + "…"),
        ("two\nlines", "two\\nlines"),
    ],
)
def test_a_line_ends_before_the_last_column(terminal: Terminal, text: str, line: str) -> None:
    shown = terminal(20)
    StatusLine().show(text)
    assert first_line(shown) == line
    assert cell_len(line) < 20


def test_the_progress_of_a_run_stays_one_line(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchproc.cli.run.progress._EVERY", 0.3)
    shown = terminal(40)
    look = RunLook(Due(waiting=123_456_789, running=1000), Retries(1000, 40.0), 43_500.0)
    with ProgressLine(lambda _: lambda: look) as line:
        line.begin(Begun(1, frozenset(), Counts(completed=1_000_000, discarded=10_000)))  # as many as a long night has
        lines = [first_line(shown) for _ in range(2)]
    assert lines[1].startswith("1,000,000 done")
    assert [line for line in lines if cell_len(line) >= 40] == []


def test_a_terminal_that_does_not_know_its_width_is_taken_for_a_usual_one(terminal: Terminal) -> None:
    shown = terminal(0)
    StatusLine().show("x" * 100)
    assert first_line(shown) == "x" * 78 + "…"


def test_without_a_terminal_nothing_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "err").open("w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        StatusLine().show("x")
        monkeypatch.undo()
    assert (tmp_path / "err").read_text() == ""
