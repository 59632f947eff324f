"""How commands print: one JSON object on one line, or a plain table."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any, TypeVar
from uuid import UUID

import click
from rich.cells import cell_len

from batchproc.cli.shared.messages import say, wrapped
from batchproc.cli.shared.tables import EMPTY, laid_out, left_out
from batchproc.core.shown_text import one_line

Command = TypeVar("Command", bound=Callable[..., Any])
_LEAST_WIDTH = 20


def json_option(command: Command) -> Command:
    """Adds ``--json``, passed as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object on one line.")(command)


def emit_json(value: Any) -> None:
    """Prints ``value`` as JSON on one line of stdout. Times are ISO 8601 with their offset.

    What is not printable stands as ``\\uNNNN``: on a terminal some of it would move the cursor or turn the text round.
    """
    click.echo(json_text(value))


def json_text(value: Any) -> str:
    """As ``emit_json`` prints it."""
    text = json.dumps(value, default=_plain, ensure_ascii=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def emit_rows(
    name: str, rows: Sequence[dict[str, Any]], columns: Sequence[str], following: int | None, as_json: bool
) -> None:
    """Prints a listing: ``{name: rows, "next": following}`` as JSON, else a table of ``columns``."""
    if as_json:
        emit_json({name: rows, "next": following})
        return
    table(columns, [[row[column] for column in columns] for row in rows])
    if following is not None:
        say(f"more with --after {following}")


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints a table; on a terminal long texts are cut to fit its width, elsewhere nothing is."""
    right = [
        bool(rows) and all(isinstance(row[i], int | float) or row[i] is None for row in rows)
        for i in range(len(columns))
    ]
    cells, width = [[shown(value) for value in row] for row in rows], screen_width()
    for line in laid_out(columns, cells, right, width):
        click.echo(line)
    if missing := left_out(columns, cells, width):
        say(f"not shown in {width} columns: {', '.join(missing)}; --json has all")


def screen_width() -> int | None:
    """Cells that a line may take on the terminal; None elsewhere, where nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fields(pairs: Sequence[tuple[str, Any]]) -> None:
    """Prints ``name  value`` lines; on a terminal long values are broken between words to fit its width."""
    longest = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        for line in broken(f"{name.ljust(longest)}  {shown(value)}", indent=longest + 2):
            click.echo(line)


def print_broken(sentence: str) -> None:
    """Prints a sentence; on a terminal broken between words to fit its width, elsewhere as one line."""
    width = screen_width()
    for line in [sentence] if width is None else wrapped(sentence, max(_LEAST_WIDTH, width)):
        click.echo(line)


def broken(line: str, *, indent: int) -> list[str]:
    """The line, on a terminal within its width: all but its first part is set in. Words and commands stay whole."""
    width = screen_width()
    if width is None or cell_len(line) <= width:
        return [line]
    parts = wrapped(line[indent:], max(_LEAST_WIDTH, width - indent), indent=0, command_indent=0)
    # A long command begins further left rather than that the terminal breaks it.
    set_in = (max(0, min(indent, width - cell_len(part))) for part in parts[1:])
    return [line[:indent] + parts[0], *(" " * cells + part for cells, part in zip(set_in, parts[1:], strict=True))]


def figure(value: float) -> str:
    """With three digits, or all before the point: never as a power of ten."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def shown(value: Any) -> str:
    """A value on one line of a terminal, with nothing in it that could move the cursor."""
    if value is None:
        return EMPTY
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, list | tuple):
        return ", ".join(shown(item) for item in value) or "-"
    if isinstance(value, dict):
        return one_line(json.dumps(value, default=_plain, ensure_ascii=False))
    return one_line(str(value))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
