"""How benches print, and what all commands have in common: widths, and the numbers that they take."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from batchproc.cli.benches.common import show
from batchproc.cli.main import cli
from batchproc.cli.shared.filters import FiniteRange
from batchproc.ops.bench.figures import counted

RUNS = [
    {
        "side": "fair",
        "alone_per_second": 1234.5,
        "ratio": 0.81,
        "p99_gap_ms": 12.34,
        "p99_gap_alone_ms": None,
        "longest_gap_ms": 120.1,
        "longest_gap_alone_ms": 88.0,
        "unpaced_per_second": 81234,
    }
]


def commands() -> Iterator[click.Context]:
    """Of every command."""
    return below(cli)


def below(command: click.Command, parent: click.Context | None = None) -> Iterator[click.Context]:
    settings = {**command.context_settings, "terminal_width": 80}
    context = click.Context(command, info_name=command.name, parent=parent, **settings)
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from below(found, context)


def test_figures_and_conclusion_fit_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show({"runs": RUNS}, False, "a conclusion " * 20 + "\nPostgreSQL 18")

    lines = capsys.readouterr().out.splitlines()

    assert max(map(len, lines)) <= 80
    assert "alone_per_second" not in lines[0]
    headed = " ".join(lines[:4]).split()
    assert headed.count("longest") == 2, lines[:4]
    assert " ".join(" ".join(lines).split()).endswith("a conclusion PostgreSQL 18")


def test_a_narrow_table_keeps_its_headings_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show({"runs": [{"ratio": 0.5, "jobs_per_second": 10}]}, False, "done")
    assert capsys.readouterr().out == "ratio  jobs_per_second\n  0.5               10\n\ndone\n"


def test_one_is_no_plural() -> None:
    assert [counted(number, "node") for number in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]


def test_no_help_is_wider_than_80_columns() -> None:
    wide = [line for context in commands() for line in context.get_help().splitlines() if len(line) > 80]
    assert wide == []


def test_no_number_may_be_nan_or_infinite() -> None:
    options = [(context, option) for context in commands() for option in context.command.params]
    numbers = [(context, option) for context, option in options if isinstance(option.type, click.types.FloatParamType)]
    assert len(numbers) >= 6
    for context, option in numbers:
        assert isinstance(option.type, FiniteRange), option.name
        for text in ("nan", "inf", "-inf"):
            with pytest.raises(click.BadParameter):
                option.type.convert(text, option, context)
