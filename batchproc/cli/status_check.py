"""``status --check``: one line and an exit code for a monitoring system, whatever happens."""

from __future__ import annotations

from datetime import timedelta

import click
import psycopg

from batchproc.cli.app import App
from batchproc.cli.output import emit_json
from batchproc.core.errors import BatchprocError
from batchproc.log import one_line, redact
from batchproc.ops.status_check import Verdict, judge, unknown
from batchproc.queue.inspection_night import look_at_night


class CheckCommand(click.Command):
    """With ``--check`` an option that is wrong ends with 3 (unknown), not with 2, which would be critical."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asked = "--check" in args
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if not asked:
                raise
            click.echo(unknown(f"{error.format_message()} See: {ctx.command_path} --help").line(0))
            ctx.exit(3)


def check(app: App, max_age: timedelta, as_json: bool) -> int:
    """Prints the verdict; its exit code."""
    seconds = max_age.total_seconds()
    verdict = _judged(app, seconds)
    if as_json:
        emit_json(verdict.plain())
    else:
        click.echo(one_line(verdict.line(seconds)))
    return int(verdict.level)


def _judged(app: App, max_age: float) -> Verdict:
    try:
        with app.connect() as connection:
            return judge(look_at_night(connection, app.schema), max_age)
    except BatchprocError as error:
        return unknown(redact(str(error)))
    except (psycopg.Error, OSError) as error:
        return unknown(f"{type(error).__name__}: check it with: batchproc doctor")
