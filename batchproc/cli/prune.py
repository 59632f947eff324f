"""``prune``: deletes jobs that ended long ago."""

from __future__ import annotations

from datetime import timedelta
from threading import Event

import click

from batchproc.cli.app import App, pass_app
from batchproc.cli.messages import say
from batchproc.cli.output import emit_json, json_option
from batchproc.cli.terminal import StatusLine
from batchproc.core.counted import counted
from batchproc.core.errors import UsageError
from batchproc.core.job import JobState
from batchproc.engine.signals import stopping_signals
from batchproc.ops.pruning import REST, paced
from batchproc.queue.pruning import FINISHED, Pruned, Pruning, Wanted
from batchproc.setting_types import parse_age

_STOPPED = 130


def _age(_context: click.Context, _option: click.Parameter, value: str | None) -> timedelta | None:
    try:
        return timedelta(seconds=parse_age(value)) if value is not None else None
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option(
    "--older-than", callback=_age, metavar="DURATION", help="Ended longer ago, such as 90d; default: retention.jobs."
)
@click.option(
    "--state",
    "states",
    type=click.Choice([state.value for state in FINISHED]),
    multiple=True,
    help="Only jobs that ended so; repeatable.",
)
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only jobs of this kind; repeatable.")
@click.option("--tenant", metavar="SLUG", help="Only this tenant's jobs.")
@click.option("--dry-run", is_flag=True, help="Only say how many would be deleted.")
@json_option
@pass_app
def prune(
    app: App,
    older_than: timedelta | None,
    states: tuple[str, ...],
    kinds: tuple[str, ...],
    tenant: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Delete jobs that ended long ago, with their attempts, oldest first.

    \b
    batchproc prune                                     as retention.jobs says
    batchproc prune --older-than 30d --state completed  keep what failed longer
    batchproc prune --older-than 1d --kind classify --dry-run

    Documents, their pages and the usage of each day stay. It may go on beside a run: it deletes few at a time, and
    rests in between for as long as that took. Stopped by a signal it says what it has deleted, and the next goes on
    from there. Without --state, --kind and --tenant it also forgets runs of that age, and nodes that are gone.
    """
    if tenant == "" or "" in kinds:
        raise UsageError(f"--{'tenant' if tenant == '' else 'kind'} is empty", "leave it out, or give it a value")
    age = older_than if older_than is not None else timedelta(seconds=app.settings.retention.jobs)
    stop, done, status = Event(), Pruned(), StatusLine()
    with app.connect() as connection, stopping_signals(stop.set):
        wanted = Wanted(
            states=tuple(JobState(state) for state in states),
            kinds=kinds,
            tenant_id=app.jobs.tenant(connection, tenant).tenant_id if tenant is not None else None,
        )
        batches = Pruning(app.schema).batches(connection, age, wanted, dry=dry_run)
        for batch in paced(batches, stop, rest=0 if dry_run else REST):
            done += batch
            status.show(counted(done.jobs.total(), "job"))
    status.clear()
    _print(done, age, dry_run=dry_run, stopped=stop.is_set(), as_json=as_json)
    return _STOPPED if stop.is_set() else 0


def _print(done: Pruned, age: timedelta, *, dry_run: bool, stopped: bool, as_json: bool) -> None:
    by_state = {state.value: done.jobs[state] for state in FINISHED}
    if as_json:
        emit_json(
            {
                "jobs": done.jobs.total(),
                "by_state": by_state,
                "left": done.left,
                "runs": done.runs,
                "nodes": done.nodes,
                "older_than": age.total_seconds(),
                "dry_run": dry_run,
                "stopped": stopped,
            }
        )
        return
    would = "would be deleted" if dry_run else "deleted"
    states = ", ".join(f"{n} {state}" for state, n in by_state.items())
    click.echo(f"{counted(done.jobs.total(), 'job')} {would}: {states}")
    if done.runs or done.nodes:
        forgotten = f"{counted(done.runs, 'run')} and {counted(done.nodes, 'node')}"
        click.echo(f"{forgotten} {'would be ' if dry_run else ''}forgotten")
    if done.left:
        click.echo(f"{done.left} left to the next prune: somebody held them, or the database refused (see the log)")
    if stopped:
        say("stopped: give the command again to go on")
