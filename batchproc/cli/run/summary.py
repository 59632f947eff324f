"""The end of ``run``: its summary on stdout.

Not even that outlasts the run's window: where the database takes too long to tell the figures, it goes without them.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import click
import psycopg

from batchproc.cli.shared.app import App
from batchproc.cli.shared.output import emit_json, print_broken
from batchproc.core.errors import BatchprocError
from batchproc.engine.node import RunReport
from batchproc.engine.window import Window, patience
from batchproc.ops import summary
from batchproc.ops.failure_lines import EXAMPLES, failure_lines
from batchproc.ops.summary import Worked
from batchproc.ops.within import OutOfTime, within
from batchproc.queue.run_history import RunHistory


def show_summary(
    app: App, report: RunReport, as_json: bool, *, quiet: bool, more: dict[str, Any], window: Window | None = None
) -> None:
    """Prints the summary; with ``quiet`` only of a run that somebody has to look at.

    Args:
        more: further keys for the JSON.
        window: of the run, which is to be gone at its end.
    """
    if quiet and not as_json and report.exit_code == 0:
        return
    done, failures = _looked_up(app, report, window, as_json=as_json)
    if as_json:  # without the figures that nobody could tell
        emit_json(summary.plain(report, done) | more)
        return
    told = summary.lines(report, failures, app.settings.run.accept_codes, done, _known_kinds(app, report))
    for line in summary.on_screen(told):
        click.echo(line)
    if done is None:
        print_broken(f"the database did not tell more in time: batchproc report {report.run_id}")


def show_failures(app: App, report: RunReport) -> None:
    """Prints what failed in a run that shows no summary, and what to do about it."""
    _, failures = _look_up(app, report, as_json=False)
    told = failure_lines(failures, summary.SHOWN_GROUPS, EXAMPLES, f"batchproc report {report.run_id}")
    for line in summary.on_screen(told):
        click.echo(line)


def _known_kinds(app: App, report: RunReport) -> Collection[str] | None:
    """The kinds of these settings; None when nothing is left that asks for them, or they cannot be told any more."""
    try:
        return app.registry.specs() if report.left else None
    except BatchprocError:  # the settings were read again, and their handlers cannot be imported
        return None


def _looked_up(
    app: App, report: RunReport, window: Window | None, *, as_json: bool
) -> tuple[Worked | None, list[dict[str, Any]]]:
    """What the run got through and what failed; None and nothing when its window leaves no time for that."""
    if window is None:
        return _look_up(app, report, as_json=as_json)
    try:
        return within(patience(window, math.inf), lambda: _look_up(app, report, as_json=as_json))
    except (OutOfTime, psycopg.Error, BatchprocError):
        return None, []


def _look_up(app: App, report: RunReport, *, as_json: bool) -> tuple[Worked, list[dict[str, Any]]]:
    history = RunHistory(app.schema)
    with app.connect() as connection:
        done = summary.worked(connection, history, report.run_id)
        if as_json:
            return done, []
        return done, history.failures(
            connection,
            run_id=report.run_id,
            partial=bool(report.counts.partial),
            accepted=app.settings.run.accept_codes,
            groups=summary.ASKED_GROUPS,
            examples=EXAMPLES,
        )
