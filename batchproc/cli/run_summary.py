"""The end of ``run``: its summary on stdout."""

from __future__ import annotations

from typing import Any

import click

from batchproc.cli.app import App
from batchproc.cli.output import emit_json
from batchproc.engine.node import RunReport
from batchproc.ops import summary
from batchproc.queue.run_history import RunHistory


def show_summary(app: App, report: RunReport, as_json: bool, *, quiet: bool, more: dict[str, Any]) -> None:
    """Prints the summary; with ``quiet`` only of a run that somebody has to look at.

    Args:
        more: further keys for the JSON.
    """
    if quiet and not as_json and report.exit_code == 0:
        return
    history = RunHistory(app.schema)
    accepted = app.settings.run.accept_codes
    with app.connect() as connection:
        done = summary.worked(connection, history, report.run_id)
        if as_json:
            emit_json(summary.plain(report, done) | more)
            return
        failures = history.failures(
            connection,
            run_id=report.run_id,
            partial=bool(report.counts.partial),
            accepted=accepted,
            groups=summary.SHOWN_GROUPS,
            examples=summary.EXAMPLES,
        )
    for line in summary.on_screen(summary.lines(report, failures, accepted, done)):
        click.echo(line)
