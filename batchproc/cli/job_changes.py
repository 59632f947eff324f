"""``jobs retry``, ``cancel``, ``discard`` and ``prioritise``: of jobs by their ids, or of all that fit a filter."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from typing import Any

import click
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.app import App, pass_app
from batchproc.cli.filters import warn_of_code
from batchproc.cli.job_filters import choosing, filter_of, require_choice, require_yes, since, words_of
from batchproc.cli.output import emit_json, table
from batchproc.cli.terminal import StatusLine
from batchproc.core.errors import UsageError
from batchproc.core.job import JobState, Lane
from batchproc.engine.signals import stopping_signals
from batchproc.ops.changing_jobs import Cancel, Change, Changed, change
from batchproc.queue import cancelling, changing
from batchproc.queue.changing import Changing
from batchproc.queue.choosing import ChosenJobs

_WAITING = (JobState.SCHEDULED, JobState.AVAILABLE, JobState.HELD)
_STOPPED = 130
_GROUPS_SHOWN = 20
_COLUMNS = ("tenant", "kind", "state", "failure_code", "jobs")


@dataclass(frozen=True)
class Action:
    """One of the commands.

    ``done`` is what a changed job is, ``states`` are those that a filter chooses by itself, ``chosen_again`` is the
    filter by which ``jobs retry`` finds again what was changed.
    """

    name: str
    done: str
    states: tuple[JobState, ...]
    advice: str
    chosen_again: str | None = None


_RETRY = Action("retry", changing.RETRIED, (JobState.DISCARDED,), "only discarded and cancelled jobs can be retried")
_CANCEL = Action(
    "cancel",
    cancelling.CANCELLED,
    (*_WAITING, JobState.RUNNING),
    "only jobs that wait or run can be cancelled",
    "--state cancelled",
)
_DISCARD = Action(
    "discard", changing.DISCARDED, _WAITING, "only jobs that wait can be given up on", "--failure-code given_up"
)
_PRIORITISE = Action("prioritise", changing.PRIORITISED, _WAITING, "only jobs that wait have a place in a queue")

_WORDS = {
    changing.RETRIED: "available again",
    changing.PRIORITISED: "moved",
    changing.DISCARDED: "given up on",
    cancelling.REQUESTED: "asked to stop, but its node has not done so yet: see batchproc status",
    changing.UNWRITTEN: "left as it is: somebody holds its row, or the database refused; try again",
    "superseded": "left as it is: a job with the same unique key waits already",
}


@click.command("retry")
@choosing([JobState.DISCARDED, JobState.CANCELLED])
@pass_app
def retry_jobs(app: App, job_ids: tuple[int, ...], as_json: bool, **options: Any) -> int:
    """Make discarded or cancelled jobs available again, with fresh budgets.

    \b
    batchproc jobs retry 42 43
    batchproc jobs retry --tenant acme --failure-code source_missing
    batchproc jobs retry --campaign 7 --state cancelled   takes a cancel back
    batchproc jobs retry --newer-than 12h --dry-run

    A filter without --state chooses discarded jobs. Of a paused campaign they are held.
    """
    return _change(app, _RETRY, job_ids, options, lambda c: lambda ids: Changing(app.schema).retry(c, ids), as_json)


@click.command("cancel")
@choosing([*_WAITING, JobState.RUNNING])
@pass_app
def cancel_jobs(app: App, job_ids: tuple[int, ...], as_json: bool, **options: Any) -> int:
    """End jobs that wait or run. A running one is killed within a second, with all that it started.

    \b
    batchproc jobs cancel 42
    batchproc jobs cancel --tenant acme --kind ocr --dry-run
    batchproc jobs cancel --campaign 7 --yes              takes a reprocess back
    batchproc jobs cancel --state running --older-than 2h

    One that completes first stays completed. What was cancelled can be retried; no document changes its status.
    """
    return _change(app, _CANCEL, job_ids, options, lambda connection: Cancel(app.jobs, connection), as_json)


@click.command("discard")
@choosing(_WAITING)
@click.option("--reason", metavar="TEXT", help="Why, for those who look at the jobs later.")
@pass_app
def discard_jobs(app: App, job_ids: tuple[int, ...], as_json: bool, reason: str | None, **options: Any) -> int:
    """Give up on jobs that wait, with the failure code given_up.

    \b
    batchproc jobs discard 42 --reason "the tape is lost"
    batchproc jobs discard --failure-code source_missing --older-than 30d

    Unlike a cancel it counts as a failure: a document that has no text yet becomes failed with that code. A running
    job has to be cancelled. What was given up on can be retried.
    """
    told = {"discarded_by": _login_name()} | ({} if reason is None else {"reason": reason[:2000]})
    failing = [spec.name for spec in app.registry.specs().values() if spec.fails_document]

    def action(connection: Connection[TupleRow]) -> Change:
        return lambda ids: Changing(app.schema).discard(connection, ids, failing_kinds=failing, told=told)

    return _change(app, _DISCARD, job_ids, options, action, as_json)


@click.command("prioritise")
@choosing(_WAITING)
@click.option("--priority", type=click.IntRange(1, 9), metavar="N", help="1 to 9, lower goes first; default: 1.")
@click.option("--lane", type=click.Choice(["interactive", "bulk"]), help="Move them into this lane.")
@pass_app
def prioritise_jobs(
    app: App, job_ids: tuple[int, ...], as_json: bool, priority: int | None, lane: str | None, **options: Any
) -> int:
    """Let jobs that wait go before, or behind, others of their tenant and kind.

    \b
    batchproc jobs prioritise 42
    batchproc jobs prioritise --campaign 7 --priority 9   after all others
    batchproc jobs prioritise --document 12 --lane interactive
    batchproc jobs prioritise --campaign 7 --priority 5   as it was at first

    Whose turn it is among the tenants stays as it is; only a lane goes before another (dispatch.lanes).
    """
    wanted = 1 if priority is None and lane is None else priority
    into = None if lane is None else Lane[lane.upper()]

    def action(connection: Connection[TupleRow]) -> Change:
        return lambda ids: Changing(app.schema).prioritise(connection, ids, priority=wanted, lane=into)

    return _change(app, _PRIORITISE, job_ids, options, action, as_json)


COMMANDS = (retry_jobs, cancel_jobs, discard_jobs, prioritise_jobs)


def _change(
    app: App,
    action: Action,
    job_ids: Sequence[int],
    options: dict[str, Any],
    apply: Callable[[Connection[TupleRow]], Change],
    as_json: bool,
) -> int:
    require_choice(f"batchproc jobs {action.name}", job_ids, options)
    if job_ids and options["dry_run"]:
        raise UsageError("--dry-run goes with a filter", "batchproc jobs show JOB_ID tells of one job")
    began, stop, status = time.monotonic(), Event(), StatusLine()
    with app.connect() as connection:
        chosen = ChosenJobs(app.schema, connection, filter_of(app, connection, options, action.states))
        groups = [] if job_ids else chosen.groups()
        matched = len(set(job_ids)) if job_ids else sum(group["jobs"] for group in groups)
        if options["dry_run"]:
            changed = Changed()
        else:
            require_yes(matched, action.done, options)
            slices = [sorted(set(job_ids))] if job_ids else chosen.slices()
            with stopping_signals(stop.set):
                changed = change(
                    slices,
                    apply(connection),
                    named=bool(job_ids),
                    stop=stop,
                    tell=lambda jobs: status.show(f"{jobs} of {matched} jobs"),
                )
            status.clear()
    if as_json:
        _emit(action, matched, groups, changed, dry_run=options["dry_run"])
    elif job_ids:
        _tell_each(action, changed)
    else:
        _tell(action, matched, groups, changed, options, timedelta(seconds=time.monotonic() - began))
    for code in options["failure_codes"] if not matched else ():
        warn_of_code(app, code)
    if missing := [job_id for job_id, outcome in changed.jobs.items() if outcome == changing.UNKNOWN]:
        raise UsageError(f"there is no job {', '.join(map(str, missing))}", "see: batchproc jobs list")
    if stop.is_set():
        click.echo("stopped: give the command again to go on", err=True)
        return _STOPPED
    return 1 if changed.outcomes[changing.UNWRITTEN] or changed.outcomes[cancelling.REQUESTED] else 0


def _emit(action: Action, matched: int, groups: list[dict[str, Any]], changed: Changed, *, dry_run: bool) -> None:
    found = {job_id: outcome for job_id, outcome in changed.jobs.items() if outcome != changing.UNKNOWN}
    emit_json(
        {
            "action": action.name,
            "dry_run": dry_run,
            "matched": matched,
            "outcomes": dict(sorted(changed.outcomes.items())),
            "groups": groups,
            "jobs": [{"job_id": job_id, "outcome": outcome} for job_id, outcome in found.items()],
            "missing": [job_id for job_id in changed.jobs if job_id not in found],
        }
    )


def _tell_each(action: Action, changed: Changed) -> None:
    for job_id, outcome in changed.jobs.items():
        if outcome != changing.UNKNOWN:
            kept = f"left as it is: {action.advice}, this one is {outcome}"
            click.echo(
                f"job {job_id}: {outcome if outcome == action.done == 'cancelled' else _WORDS.get(outcome, kept)}"
            )


def _tell(
    action: Action,
    matched: int,
    groups: list[dict[str, Any]],
    changed: Changed,
    options: dict[str, Any],
    age: timedelta,
) -> None:
    if options["dry_run"]:
        _tell_groups(action, matched, groups)
        return
    done = changed.outcomes[action.done]
    click.echo(f"{done} jobs {action.done}")
    for outcome, jobs in sorted(changed.outcomes.items()):
        if outcome != action.done:
            click.echo(f"{jobs} {_WORDS.get(outcome, f'left as they are: {outcome} by now')}")
    if done and action.chosen_again:
        # What the filter said of the jobs' state and code is no longer so.
        words = [
            words_of(options, without=("states", "failure_codes")),
            action.chosen_again,
            f"--newer-than {since(age)}",
        ]
        click.echo(f"to take that back: batchproc jobs retry {' '.join(filter(None, words))}")


def _tell_groups(action: Action, matched: int, groups: list[dict[str, Any]]) -> None:
    click.echo(f"{matched} jobs would be {action.done}")
    if groups:
        table(_COLUMNS, [[group[column] for column in _COLUMNS] for group in groups[:_GROUPS_SHOWN]])
    if len(groups) > _GROUPS_SHOWN:
        click.echo(f"... and {len(groups) - _GROUPS_SHOWN} more such groups: --json has all")


def _login_name() -> str:
    """Who runs this process, by its user id: the environment's names may say anything."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
