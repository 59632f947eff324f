"""What the commands of the benches share: their options, and how their figures are printed."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import click

from batchproc.cli.shared.app import App
from batchproc.cli.shared.output import emit_json, shown
from batchproc.cli.shared.tables import laid_out
from batchproc.cli.shared.terminal import StatusLine
from batchproc.ops.bench.schema import Urls

_WIDTH = 80

runs_option = click.option(
    "--runs", type=click.IntRange(1, 100), default=3, show_default=True, help="The median counts."
)


def begin(app: App) -> tuple[Urls, StatusLine]:
    """The database of a bench, and the lines that tell what goes on; its log is kept quiet without ``-v``."""
    if not app.verbose:
        app.override(logging__level="warning")
    return Urls(app.database_url, app.direct_url), StatusLine()


def show(plain: Mapping[str, Any], as_json: bool, conclusion: str) -> None:
    """Prints the figures of a bench: one JSON object, or a table of its ``runs`` and the conclusion under it.

    Both within the terminal's width, or 80 elsewhere.
    """
    if as_json:
        emit_json(plain)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH
    rows = plain["runs"]
    for line in _table(list(rows[0]), [list(row.values()) for row in rows], width):
        click.echo(line)
    click.echo()
    for sentence in conclusion.splitlines():
        click.echo(
            textwrap.fill(sentence, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        )


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]], width: int) -> list[str]:
    """With its headings on several lines where they would be too wide on one."""
    cells = [[shown(value) for value in row] for row in rows]
    right = [
        all(value is None or isinstance(value, int | float) for value in column) for column in zip(*rows, strict=True)
    ]
    lines = laid_out(names, cells, right, None)
    if max(map(len, lines)) <= width:
        return lines
    columns = zip(names, zip(*cells, strict=True), strict=True)
    stacked = [_stacked(name, max(map(len, column))) for name, column in columns]
    height = max(map(len, stacked))
    first, *others = zip(*([""] * (height - len(lines)) + lines for lines in stacked), strict=True)
    return laid_out(first, [*others, *cells], right, None)


def _stacked(heading: str, width: int) -> list[str]:
    """The words of a heading on as few lines as its column's cells have room for."""
    lines: list[str] = []
    for word in heading.split("_"):
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f"_{word}"
        else:
            lines.append(word)
    return lines
