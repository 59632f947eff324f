"""``jobs``: list, show, retry."""

from __future__ import annotations

from typing import Any

import click

from batchproc.cli.app import AFTER, ID, App, pass_app
from batchproc.cli.groups import JsonGroup
from batchproc.cli.output import emit_json, emit_rows, fields, json_option, table
from batchproc.core.errors import UsageError
from batchproc.core.job import JobState
from batchproc.queue.inspection import Inspection

_COLUMNS = ("job_id", "tenant", "kind", "lane", "state", "attempt", "document_id", "failure_code", "run_at")
_ATTEMPT_COLUMNS = ("number", "outcome", "error_class", "failure_code", "seconds", "error_type", "detail")


@click.group(cls=JsonGroup)
def jobs() -> None:
    """Look at jobs and run them again."""


@jobs.command("list")
@click.option("--tenant", metavar="SLUG", help="Only this tenant's.")
@click.option("--state", "states", type=click.Choice([str(s) for s in JobState]), multiple=True, help="Repeatable.")
@click.option("--kind", metavar="KIND", help="Only this kind.")
@click.option("--document", "document_id", type=ID, metavar="ID", help="Only this document's.")
@click.option("--failure-code", metavar="CODE", help="Only those that ended, or last failed, with this code.")
@click.option("--after", type=AFTER, default=0, metavar="ID", help="Continue behind this job.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Jobs a page.")
@json_option
@pass_app
def list_jobs(app: App, as_json: bool, limit: int, tenant: str | None, **filters: Any) -> None:
    """List jobs of all tenants and states, oldest first."""
    with app.connect() as connection:
        if tenant is not None:
            app.jobs.tenant(connection, tenant)
        rows = Inspection(app.schema).jobs(connection, tenant=tenant, limit=limit + 1, **filters)
    following = rows[limit - 1]["job_id"] if len(rows) > limit else None
    emit_rows("jobs", rows[:limit], _COLUMNS, following, as_json)


@jobs.command("show")
@click.argument("job_id", type=ID)
@json_option
@pass_app
def show_job(app: App, job_id: int, as_json: bool) -> None:
    """Show one job with its args, progress and attempts."""
    with app.connect() as connection:
        job = Inspection(app.schema).job(connection, job_id)
    if as_json:
        emit_json(job)
        return
    attempts = job.pop("attempts")
    fields(list(job.items()))
    if attempts:
        click.echo()
        table(_ATTEMPT_COLUMNS, [[attempt[column] for column in _ATTEMPT_COLUMNS] for attempt in attempts])


@jobs.command("retry")
@click.argument("job_ids", type=ID, nargs=-1, required=True)
@json_option
@pass_app
def retry_jobs(app: App, job_ids: tuple[int, ...], as_json: bool) -> None:
    """Make discarded or cancelled jobs available again, with fresh budgets."""
    with app.connect() as connection:
        found = dict(app.jobs.retry(connection, list(job_ids)))
    missing = [job_id for job_id in job_ids if job_id not in found]
    if as_json:
        emit_json(
            {"jobs": [{"job_id": job_id, "outcome": outcome} for job_id, outcome in found.items()], "missing": missing}
        )
    else:
        for job_id, outcome in found.items():
            click.echo(f"job {job_id}: {_explained(outcome)}")
    if missing:
        raise UsageError(f"there is no job {', '.join(map(str, missing))}", "see: batchproc jobs list")


def _explained(outcome: str) -> str:
    if outcome == "retried":
        return "available again"
    if outcome == "superseded":
        return "left as it is: a job with the same unique key waits already"
    return f"left as it is: only discarded and cancelled jobs can be retried, this one is {outcome}"
