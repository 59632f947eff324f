"""What the commands of the benches share: their options, and how their figures are printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from batchproc.cli.app import App
from batchproc.cli.output import emit_json, table
from batchproc.cli.terminal import StatusLine
from batchproc.ops.bench.schema import Urls

runs_option = click.option(
    "--runs", type=click.IntRange(1, 100), default=3, show_default=True, help="The median counts."
)


def begin(app: App) -> tuple[Urls, StatusLine]:
    """The database of a bench, and the lines that tell what goes on; its log is kept quiet without ``-v``."""
    if not app.verbose:
        app.override(logging__level="warning")
    return Urls(app.database_url, app.direct_url), StatusLine()


def show(plain: Mapping[str, Any], as_json: bool, conclusion: str) -> None:
    """Prints the figures of a bench: one JSON object, or a table of its ``runs`` and the conclusion under it."""
    if as_json:
        emit_json(plain)
        return
    rows = plain["runs"]
    table(list(rows[0]), [list(row.values()) for row in rows])
    click.echo(f"\n{conclusion}")
