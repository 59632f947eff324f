"""``jobs retry``, ``cancel``, ``discard`` and ``prioritise``: of jobs by their ids, or of all that fit a filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

import click
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.app import App, pass_app
from batchproc.cli.exit_codes import left_over
from batchproc.cli.filters import warn_of_code
from batchproc.cli.job_filters import choosing, ended_within, filter_of, require_choice, require_yes, words_of
from batchproc.cli.login import login_name
from batchproc.cli.messages import say
from batchproc.cli.output import emit_json, table
from batchproc.cli.terminal import StatusLine
from batchproc.core.counted import counted
from batchproc.core.errors import UsageError
from batchproc.core.job import JobState, Lane
from batchproc.engine.signals import stopping_signals
from batchproc.ops.changing_jobs import ALREADY, Cancel, Change, Changed, change
from batchproc.queue import cancelling, changing, job_states
from batchproc.queue.changing import Changing
from batchproc.queue.choosing import ChosenJobs
from batchproc.queue.inspection import Inspection

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
    changing.RETRIED: "waits again",
    changing.RETRIED_HELD: "held again with its paused campaign: batchproc campaigns list, then resume",
    changing.PRIORITISED: "moved",
    changing.DISCARDED: "given up on",
    cancelling.REQUESTED: "asked to stop, but its node has not done so yet: see batchproc status",
    job_states.UNWRITTEN: "left as it is: somebody holds its row, or the database refused; try again",
    ALREADY: "left as it is: cancelled already",
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

    A filter without --state chooses discarded jobs. Of a paused campaign they are held, and what was cancelled or given
    up on before it was due waits for that time again.
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
    told = {"discarded_by": login_name()} | ({} if reason is None else {"reason": reason[:2000]})
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
    stop, status = Event(), StatusLine()
    with app.connect() as connection:
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
        _emit(action, matched, groups, changed, dry_run=options["dry_run"])
    elif job_ids:
        _tell_each(action, changed, dry_run=options["dry_run"])
    else:
        _tell(action, matched, groups, changed, options, took)
    if not matched and action is _RETRY and not options["states"]:
        _hint_at_cancelled(app, options)
    for code in options["failure_codes"] if not matched else ():
        warn_of_code(app, code)
    if missing := [job_id for job_id, outcome in changed.jobs.items() if outcome == job_states.UNKNOWN]:
        raise UsageError(f"there is no job {', '.join(map(str, missing))}", "see: batchproc jobs list")
    if stop.is_set():
        say("stopped: give the command again to go on")
        return _STOPPED
    return left_over(changed.outcomes[job_states.UNWRITTEN], changed.outcomes[cancelling.REQUESTED])


def _emit(action: Action, matched: int, groups: list[dict[str, Any]], changed: Changed, *, dry_run: bool) -> None:
    found = {job_id: outcome for job_id, outcome in changed.jobs.items() if outcome != job_states.UNKNOWN}
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


def _foreseen(app: App, connection: Connection[TupleRow], action: Action, job_ids: Sequence[int]) -> dict[int, str]:
    """What would become of each of these jobs, by the state that it is in."""
    states = Inspection(app.schema).states(connection, sorted(set(job_ids)))
    changeable = (*action.states, JobState.CANCELLED) if action is _RETRY else action.states
    return {
        job_id: job_states.UNKNOWN
        if job_id not in states
        else action.done
        if states[job_id] in changeable
        else str(states[job_id])
        for job_id in sorted(set(job_ids))
    }


def _tell_each(action: Action, changed: Changed, *, dry_run: bool) -> None:
    for job_id, outcome in changed.jobs.items():
        if outcome == job_states.UNKNOWN:
            continue
        told = _WORDS.get(outcome, f"left as it is: {action.advice}, this one is {outcome}")
        if outcome == action.done and dry_run:
            told = f"would be {action.done}"
        elif outcome == action.done == cancelling.CANCELLED:
            told = outcome
        click.echo(f"job {job_id}: {told}")
    done = [str(job_id) for job_id, outcome in changed.jobs.items() if outcome == action.done]
    if done and action.chosen_again and not dry_run:
        click.echo(f"to take that back: batchproc jobs retry {' '.join(done)}")


def _hint_at_cancelled(app: App, options: dict[str, Any]) -> None:
    """A retry that finds nothing among the discarded jobs may be meant for cancelled ones."""
    with app.connect() as connection:
        chosen = ChosenJobs(app.schema, connection, filter_of(app, connection, options, [JobState.CANCELLED]))
        cancelled = sum(group["jobs"] for group in chosen.groups())
    if cancelled:
        fit, those = ("fits", "it") if cancelled == 1 else ("fit", "those")
        told = f"{counted(cancelled, 'cancelled job')} {fit} as well: --state cancelled chooses {those}"
        say(told)


def _tell(
    action: Action,
    matched: int,
    groups: list[dict[str, Any]],
    changed: Changed,
    options: dict[str, Any],
    took: str,
) -> None:
    if options["dry_run"]:
        _tell_groups(action, matched, groups)
        return
    done = changed.outcomes[action.done]
    click.echo(f"{counted(done, 'job')} {action.done}")
    for outcome, jobs in sorted(changed.outcomes.items()):
        if outcome != action.done:
            kept = f"left as {'it is' if jobs == 1 else 'they are'}: {outcome} by now"
            click.echo(f"{jobs} {_WORDS.get(outcome, kept)}")
    if done and action.chosen_again:
        # What the filter said of the jobs' state and code is no longer so.
        words = [words_of(options, without=("states", "failure_codes")), action.chosen_again, took]
        click.echo(f"to take that back: batchproc jobs retry {' '.join(filter(None, words))}")


def _tell_groups(action: Action, matched: int, groups: list[dict[str, Any]]) -> None:
    click.echo(f"{counted(matched, 'job')} would be {action.done}")
    if groups:
        table(_COLUMNS, [[group[column] for column in _COLUMNS] for group in groups[:_GROUPS_SHOWN]])
    if len(groups) > _GROUPS_SHOWN:
        click.echo(f"... and {len(groups) - _GROUPS_SHOWN} more such groups: --json has all")
