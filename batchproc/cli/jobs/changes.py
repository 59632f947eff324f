"""``jobs retry``, ``cancel``, ``discard`` and ``prioritise``: of jobs by their ids, or of all that fit a filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

import click
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.jobs.change_output import (
    CANCEL,
    DISCARD,
    PRIORITISE,
    RETRY,
    WAITING,
    Action,
    emit,
    foreseen,
    tell,
    tell_each,
    unlike,
)
from batchproc.cli.jobs.choosing import choosing, ended_within, filter_of, require_choice
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.asking import require_yes
from batchproc.cli.shared.exit_codes import left_over
from batchproc.cli.shared.filters import require_kinds, warn_of_code
from batchproc.cli.shared.login import login_name
from batchproc.cli.shared.messages import say
from batchproc.cli.shared.terminal import StatusLine
from batchproc.core.counted import counted
from batchproc.core.errors import UsageError
from batchproc.core.job import JobState, Lane
from batchproc.engine.signals import stopping_signals
from batchproc.ops.changing_jobs import Cancel, Change, Changed, change
from batchproc.queue import cancelling, job_states
from batchproc.queue.changing import Changing
from batchproc.queue.choosing import ChosenJobs
from batchproc.queue.inspection import Inspection

_STOPPED = 130


@click.command("retry")
@choosing([JobState.DISCARDED, JobState.CANCELLED])
@pass_app
def retry_jobs(app: App, job_ids: tuple[int, ...], as_json: bool, **options: Any) -> int:
    """Run discarded or cancelled jobs again, with fresh budgets.

    \b
    batchproc jobs retry 42 43
    batchproc jobs retry --tenant acme --failure-code source_missing
    batchproc jobs retry --campaign 7 --state cancelled   takes a cancel back
    batchproc jobs retry --newer-than 12h --dry-run

    A filter without --state chooses discarded jobs. Of a paused campaign they are held, and what was cancelled or given
    up on before it was due waits for that time again. Exits with 1 if a job that was named by its id was not retried.
    """
    return _change(app, RETRY, job_ids, options, lambda c: lambda ids: Changing(app.schema).retry(c, ids), as_json)


@click.command("cancel")
@choosing([*WAITING, JobState.RUNNING])
@pass_app
def cancel_jobs(app: App, job_ids: tuple[int, ...], as_json: bool, **options: Any) -> int:
    """End jobs that wait or run. A running one is killed within a second, with all that it started.

    \b
    batchproc jobs cancel 42
    batchproc jobs cancel --tenant acme --kind ocr --dry-run
    batchproc jobs cancel --campaign 7 --yes              takes a reprocess back
    batchproc jobs cancel --state running --older-than 2h

    One that completes first stays completed. What was cancelled can be retried; no document changes its status. Exits
    with 1 if a job that was named by its id is not cancelled, or still runs after five seconds.
    """
    return _change(app, CANCEL, job_ids, options, lambda connection: Cancel(app.jobs, connection), as_json)


@click.command("discard")
@choosing(WAITING)
@click.option("--reason", metavar="TEXT", help="Why, for those who look at the jobs later.")
@pass_app
def discard_jobs(app: App, job_ids: tuple[int, ...], as_json: bool, reason: str | None, **options: Any) -> int:
    """Give up on jobs that wait, with the failure code given_up.

    \b
    batchproc jobs discard 42 --reason "the tape is lost"
    batchproc jobs discard --failure-code source_missing --older-than 30d

    Unlike a cancel it counts as a failure: a document that has no text yet becomes failed with that code. A running
    job has to be cancelled. What was given up on can be retried. Exits with 1 if a job that was named by its id is not
    discarded.
    """
    told = {"discarded_by": login_name()} | ({} if reason is None else {"reason": reason[:2000]})
    failing = [spec.name for spec in app.registry.specs().values() if spec.fails_document]

    def action(connection: Connection[TupleRow]) -> Change:
        return lambda ids: Changing(app.schema).discard(connection, ids, failing_kinds=failing, told=told)

    return _change(app, DISCARD, job_ids, options, action, as_json)


@click.command("prioritise")
@choosing(WAITING)
@click.option("--priority", type=click.IntRange(1, 9), metavar="N", help="1 to 9, lower goes first; default: 1.")
@click.option("--lane", type=click.Choice(["interactive", "bulk"]), help="Move them into this lane.")
@pass_app
def prioritise_jobs(
    app: App, job_ids: tuple[int, ...], as_json: bool, priority: int | None, lane: str | None, **options: Any
) -> int:
    """Let jobs that wait go before or behind others of their kind.

    \b
    batchproc jobs prioritise 42
    batchproc jobs prioritise --campaign 7 --priority 9   after all others
    batchproc jobs prioritise --document 12 --lane interactive
    batchproc jobs prioritise --campaign 7 --priority 5   as it was at first

    Whose turn it is among the tenants stays as it is; only a lane goes before another (dispatch.lanes). Exits with 1 if
    a job that was named by its id does not wait.
    """
    wanted = 1 if priority is None and lane is None else priority
    into = None if lane is None else Lane[lane.upper()]

    def action(connection: Connection[TupleRow]) -> Change:
        return lambda ids: Changing(app.schema).prioritise(connection, ids, priority=wanted, lane=into)

    return _change(app, PRIORITISE, job_ids, options, action, as_json)


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
    stop, status = Event(), StatusLine()
    with app.connect() as connection:
        require_kinds(app, connection, options["kinds"])
        chosen = ChosenJobs(app.schema, connection, filter_of(app, connection, options, action.states))
        groups = [] if job_ids else chosen.groups()
        matched = len(set(job_ids)) if job_ids else sum(group["jobs"] for group in groups)
        if options["dry_run"]:
            changed, took = Changed(jobs=_foreseen(app, connection, action, job_ids)), ""
        else:
            require_yes(matched, "jobs", action.done, yes=options["yes"])
            began = chosen.now()
            slices = [sorted(set(job_ids))] if job_ids else chosen.slices()
            with stopping_signals(stop.set):
                changed = change(
                    slices,
                    apply(connection),
                    named=bool(job_ids),
                    stop=stop,
                    tell=lambda jobs: None if job_ids else status.show(f"{jobs} of {counted(matched, 'job')}"),
                )
            status.clear()
            took = ended_within(began, chosen.now())
    if as_json:
        emit(action, matched, groups, changed, dry_run=options["dry_run"])
    elif job_ids:
        tell_each(action, changed, dry_run=options["dry_run"])
    else:
        tell(action, matched, groups, changed, options, took)
    if not matched and action is RETRY and not options["states"]:
        _hint_at_cancelled(app, options)
    for code in options["failure_codes"] if not matched else ():
        warn_of_code(app, code)
    if missing := [job_id for job_id, outcome in changed.jobs.items() if outcome == job_states.UNKNOWN]:
        raise UsageError(f"there is no job {', '.join(map(str, missing))}", "see: batchproc jobs list")
    if stop.is_set():
        say("stopped: give the command again to go on")
        return _STOPPED
    if not options["dry_run"] and unlike(action, changed):
        return 1
    return left_over(changed.outcomes[job_states.UNWRITTEN], changed.outcomes[cancelling.REQUESTED])


def _foreseen(app: App, connection: Connection[TupleRow], action: Action, job_ids: Sequence[int]) -> dict[int, str]:
    """What would become of each of these jobs, by the state that it is in."""
    states = Inspection(app.schema).states(connection, sorted(set(job_ids)))
    return {
        job_id: foreseen(action, states[job_id]) if job_id in states else job_states.UNKNOWN
        for job_id in sorted(set(job_ids))
    }


def _hint_at_cancelled(app: App, options: dict[str, Any]) -> None:
    """A retry that finds nothing among the discarded jobs may be meant for cancelled ones."""
    with app.connect() as connection:
        chosen = ChosenJobs(app.schema, connection, filter_of(app, connection, options, [JobState.CANCELLED]))
        cancelled = sum(group["jobs"] for group in chosen.groups())
    if cancelled:
        fit, those = ("fits", "it") if cancelled == 1 else ("fit", "those")
        told = f"{counted(cancelled, 'cancelled job')} {fit} as well: --state cancelled chooses {those}"
        say(told)
