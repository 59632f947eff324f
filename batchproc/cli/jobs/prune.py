"""``prune``: deletes jobs that ended long ago."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from threading import Event

import click
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.asking import MANY
from batchproc.cli.shared.filters import unknown_kinds
from batchproc.cli.shared.messages import confirm, say
from batchproc.cli.shared.output import emit_json, json_option, print_broken
from batchproc.cli.shared.terminal import StatusLine
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
@click.option("--yes", is_flag=True, help=f"On a terminal do not ask, though it is more than {MANY} jobs.")
@json_option
@pass_app
def prune(
    app: App,
    older_than: timedelta | None,
    states: tuple[str, ...],
    kinds: tuple[str, ...],
    tenant: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Delete jobs that ended long ago, with their attempts. They are gone for good; the oldest go first.

    \b
    batchproc prune                                     as retention.jobs says
    batchproc prune --older-than 30d --state completed  keep what failed longer
    batchproc prune --older-than 1d --kind classify --dry-run

    Documents, their pages and revisions, the usage of each day and what campaigns have counted stay. Without --state,
    --kind and --tenant it also forgets runs of that age, of which report then tells nothing, and nodes that are gone;
    but for each scope that runs had (all, a tenant, a lane ...) the newest run and the last that ended well stay, so
    that status --check and metrics stay true. It may go on beside a run: it deletes few at a time, and rests in
    between for as long as that took. Stopped by a signal it says what it has deleted, and the next goes on from there.
    Without a terminal, as from cron, nobody is asked. Of a --kind that nobody knows any more it only warns.
    """
    if tenant == "" or "" in kinds:
        raise UsageError(f"--{'tenant' if tenant == '' else 'kind'} is empty", "leave it out, or give it a value")
    age = older_than if older_than is not None else timedelta(seconds=app.settings.retention.jobs)
    stop = Event()
    with app.connect() as connection:
        for unknown in unknown_kinds(app, connection, kinds):
            say(f"warning: {unknown}")
        wanted = Wanted(
            states=tuple(JobState(state) for state in states),
            kinds=kinds,
            tenant_id=app.jobs.tenant(connection, tenant).tenant_id if tenant is not None else None,
        )
        if not (dry_run or yes):
            _require_yes(lambda: _pruned(app, connection, age, wanted, Event(), dry=True))
        with stopping_signals(stop.set):
            done = _pruned(app, connection, age, wanted, stop, dry=dry_run)
    _print(done, age, dry_run=dry_run, stopped=stop.is_set(), as_json=as_json)
    return _STOPPED if stop.is_set() else 0


def _pruned(
    app: App, connection: Connection[TupleRow], age: timedelta, wanted: Wanted, stop: Event, *, dry: bool
) -> Pruned:
    done, status = Pruned(), StatusLine()
    for batch in paced(Pruning(app.schema).batches(connection, age, wanted, dry=dry), stop, rest=0 if dry else REST):
        done += batch
        status.show(counted(done.jobs.total(), "job"))
    status.clear()
    return done


def _require_yes(count: Callable[[], Pruned]) -> None:
    """Asks a person whether so many are to go; raises click.Abort if not. Nobody is asked who is not there."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    found = count()
    if (jobs := found.jobs.total()) > MANY:
        runs = f" and {counted(found.runs, 'run')}" if found.runs else ""
        confirm(f"{counted(jobs, 'job')}{runs} will be deleted for good. Go on?")


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
    print_broken(f"{counted(done.jobs.total(), 'job')} {would}, with their attempts: {states}")
    if done.runs or done.nodes:
        forgotten = f"{counted(done.runs, 'run')} and {counted(done.nodes, 'node')}"
        kept = "; the newest run and the last that ended well stay" if done.runs else ""
        print_broken(f"{forgotten} {'would be ' if dry_run else ''}forgotten{kept}")
    if done.left:
        print_broken(f"{done.left} left to the next prune: somebody held them, or the database refused (see the log)")
    if stopped:
        say("stopped: give the command again to go on")
