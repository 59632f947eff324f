"""``status --check``: one line and an exit code for a monitoring system, whatever happens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import click
import psycopg

from batchproc.cli.shared.app import App
from batchproc.cli.shared.filters import require_kinds
from batchproc.cli.shared.output import emit_json
from batchproc.core.errors import BatchprocError
from batchproc.core.job import Lane
from batchproc.core.shown_text import one_line, redact
from batchproc.ops.status_check import Verdict, judge, unknown
from batchproc.queue.inspection_night import look_at_night


class CheckCommand(click.Command):
    """With ``--check`` an option that is wrong ends with 3 (unknown), not with 2, which would be critical."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asked, as_json = "--check" in args, "--json" in args  # parsing takes them out
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if not asked:
                raise
            _print(unknown(f"{error.format_message()} See: {ctx.command_path} --help"), 0, as_json=as_json)
            ctx.exit(3)


@dataclass(frozen=True)
class Checked:
    """What the nights are to be for; empty means all."""

    tenants: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    lane: str | None = None


def check(app: App, max_age: timedelta, checked: Checked, as_json: bool) -> int:
    """Prints the verdict; its exit code."""
    seconds = max_age.total_seconds()
    verdict = _judged(app, seconds, checked)
    _print(verdict, seconds, as_json=as_json)
    return int(verdict.level)


def _print(verdict: Verdict, max_age: float, *, as_json: bool) -> None:
    if as_json:
        emit_json(verdict.plain())
    else:
        click.echo(one_line(verdict.line(max_age)))


def _judged(app: App, max_age: float, checked: Checked) -> Verdict:
    try:
        with app.connect() as connection:
            require_kinds(app, connection, checked.kinds)
            night = look_at_night(
                connection,
                app.schema,
                tenant_ids=[app.jobs.tenant(connection, slug).tenant_id for slug in checked.tenants],
                kinds=checked.kinds,
                lanes=[Lane[checked.lane.upper()]] if checked.lane else [],
                of_late=max_age,
            )
            return judge(night, max_age)
    except BatchprocError as error:
        return unknown(redact(str(error)))
    except (psycopg.Error, OSError) as error:
        return unknown(f"{type(error).__name__}: check it with: batchproc doctor")
