"""``jobs``: list, show, and what ``changes`` adds."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import click

from batchproc.cli.jobs.changes import COMMANDS
from batchproc.cli.line.groups import JsonGroup
from batchproc.cli.shared.ages import Age
from batchproc.cli.shared.app import AFTER, ID, App, pass_app
from batchproc.cli.shared.filters import require_kinds
from batchproc.cli.shared.output import broken, emit_json, emit_rows, fields, json_option, shown, table
from batchproc.core.durations import duration
from batchproc.core.job import JobState
from batchproc.queue.inspection import Inspection

_COLUMNS = ("job_id", "tenant", "kind", "lane", "state", "attempt", "document_id", "failure_code", "run_at")
_ATTEMPT_COLUMNS = ("no", "attempt", "outcome", "error_class", "failure_code", "took")


@click.group(cls=JsonGroup)
def jobs() -> None:
    """Look at jobs, run them again, end, give up on or move them."""


@jobs.command("list")
@click.option("--tenant", metavar="SLUG", help="Only this tenant's.")
@click.option("--state", "states", type=click.Choice([str(s) for s in JobState]), multiple=True, help="Repeatable.")
@click.option("--kind", metavar="KIND", help="Only this kind.")
@click.option("--document", "document_id", type=ID, metavar="ID", help="Only this document's.")
@click.option("--failure-code", metavar="CODE", help="Only those that ended, or last failed, with this code.")
@click.option("--campaign", "campaign_id", type=ID, metavar="ID", help="Only this campaign's.")
@click.option("--older-than", type=Age(), metavar="AGE", help="Ended, or else enqueued, longer ago: 90d.")
@click.option("--newer-than", type=Age(), metavar="AGE", help="Ended, or else enqueued, within that time: 12h.")
@click.option("--after", type=AFTER, default=0, metavar="ID", help="Continue behind this job.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Jobs a page.")
@json_option
@pass_app
def list_jobs(app: App, as_json: bool, limit: int, tenant: str | None, kind: str | None, **filters: Any) -> None:
    """List jobs of all tenants and states, oldest first.

    \b
    batchproc jobs list --state discarded --newer-than 12h
    batchproc jobs list --tenant acme --failure-code encrypted --json
    """
    with app.connect() as connection:
        if tenant is not None:
            app.jobs.tenant(connection, tenant)
        if kind is not None:
            require_kinds(app, connection, [kind])
        rows = Inspection(app.schema).jobs(connection, tenant=tenant, kind=kind, limit=limit + 1, **filters)
    following = rows[limit - 1]["job_id"] if len(rows) > limit else None
    emit_rows("jobs", rows[:limit], _COLUMNS, following, as_json)


@jobs.command("show")
@click.argument("job_id", type=ID)
@json_option
@pass_app
def show_job(app: App, job_id: int, as_json: bool) -> None:
    """Show one job with its args, progress and attempts.

    no counts all attempts; attempt counts those since the budgets were fresh, so a retry begins with 1 again.
    """
    with app.connect() as connection:
        job = Inspection(app.schema).job(connection, job_id)
    if as_json:
        emit_json(job)
        return
    attempts = job.pop("attempts")
    fields(list(job.items()))
    if attempts:
        _show_attempts(attempts)


def _show_attempts(attempts: list[dict[str, Any]]) -> None:
    """A table, and below it what each says of its error, whole: a table would cut it. What several in a row say alike
    stands once."""
    rows = [
        attempt | {"no": no, "attempt": attempt["number"], "took": duration(attempt["seconds"])}
        for no, attempt in enumerate(attempts, 1)
    ]
    click.echo()
    table(_ATTEMPT_COLUMNS, [[row[column] for column in _ATTEMPT_COLUMNS] for row in rows])
    for told, alike in groupby(rows, key=_error):
        if told:
            numbers = [row["no"] for row in alike]
            number = f"{numbers[0]:>2}: " if len(numbers) == 1 else f"{numbers[0]:>2} to {numbers[-1]}: "
            for line in broken(number + told, indent=len(number)):
                click.echo(line)


def _error(attempt: dict[str, Any]) -> str:
    return ": ".join(shown(attempt[part]) for part in ("error_type", "detail") if attempt[part])


for _command in COMMANDS:
    jobs.add_command(_command)
