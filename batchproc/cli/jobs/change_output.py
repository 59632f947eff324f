"""The changes that people make to jobs, and what is said of what became of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from batchproc.cli.jobs.choosing import words_of
from batchproc.cli.shared.output import broken, emit_json, print_broken, table
from batchproc.core.counted import counted
from batchproc.core.job import JobState
from batchproc.ops.changing_jobs import ALREADY, Changed
from batchproc.queue import cancelling, changing, job_states
from batchproc.queue.pruning import FINISHED

WAITING = (JobState.SCHEDULED, JobState.AVAILABLE, JobState.HELD)
_GROUPS_SHOWN = 20
_COLUMNS = ("tenant", "kind", "state", "failure_code", "jobs")


@dataclass(frozen=True)
class Action:
    """One of the commands.

    ``done`` is what a changed job is, in one word, and ``told`` what is said of it; ``states`` are those that a filter
    chooses by itself, ``chosen_again`` is the filter by which ``jobs retry`` finds again what was changed.
    """

    name: str
    done: str
    told: str
    states: tuple[JobState, ...]
    advice: str
    chosen_again: str | None = None


RETRY = Action(
    "retry",
    changing.RETRIED,
    "waits again",
    (JobState.DISCARDED,),
    "only discarded and cancelled jobs can be retried",
)
CANCEL = Action(
    "cancel",
    cancelling.CANCELLED,
    "cancelled",
    (*WAITING, JobState.RUNNING),
    "only jobs that wait or run can be cancelled",
    "--state cancelled",
)
DISCARD = Action(
    "discard",
    changing.DISCARDED,
    "given up on",
    WAITING,
    "only jobs that wait can be given up on",
    "--failure-code given_up",
)
PRIORITISE = Action("prioritise", changing.PRIORITISED, "moved", WAITING, "only jobs that wait have a place in a queue")

_WORDS = {
    changing.RETRIED_HELD: "held again with its paused campaign: batchproc campaigns list, then resume",
    changing.RETRIED_ALREADY: "waits or runs already",
    changing.PRIORITISED_ALREADY: "has that place already",
    changing.DISCARDED_ALREADY: "is discarded already",
    cancelling.REQUESTED: "asked to stop, but its node has not done so yet: see batchproc status",
    job_states.UNWRITTEN: "left as it is: somebody holds its row, or the database refused; try again",
    ALREADY: "is cancelled already",
    "superseded": "left as it is: a job with the same unique key waits already",
}
_COUNTED = {
    changing.RETRIED_ALREADY: "waited or ran already",
    changing.PRIORITISED_ALREADY: "had that place already",
    changing.DISCARDED_ALREADY: "discarded already",
    ALREADY: "cancelled already",
}
"""In place of those where it is said of several jobs."""
_ALREADY = {
    **{(RETRY.name, state): changing.RETRIED_ALREADY for state in (*WAITING, JobState.RUNNING)},
    (CANCEL.name, JobState.CANCELLED): ALREADY,
    (DISCARD.name, JobState.DISCARDED): changing.DISCARDED_ALREADY,
}
"""Of an action, and the state of a job that it would leave."""


def unlike(action: Action, changed: Changed) -> int:
    """How many of the jobs that were named are not as they were asked for; what is unknown is an error of its own."""
    alike = {action.done, changing.RETRIED_HELD, *_ALREADY.values(), changing.PRIORITISED_ALREADY}
    return sum(outcome not in {*alike, job_states.UNKNOWN} for outcome in changed.jobs.values())


def foreseen(action: Action, state: JobState) -> str:
    """What would become of a job in that state."""
    changeable = (*action.states, JobState.CANCELLED) if action is RETRY else action.states
    return action.done if state in changeable else _ALREADY.get((action.name, state), str(state))


def emit(action: Action, matched: int, groups: list[dict[str, Any]], changed: Changed, *, dry_run: bool) -> None:
    """As JSON."""
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


def tell_each(action: Action, changed: Changed, *, dry_run: bool) -> None:
    """Of jobs that were named, one by one."""
    for job_id, outcome in changed.jobs.items():
        if outcome == job_states.UNKNOWN:
            continue
        if outcome == action.done:
            told = f"would be {action.done}" if dry_run else action.told
        else:
            already = " already" if outcome in FINISHED else ""
            told = _WORDS.get(outcome, f"is {outcome}{already}, and left so: {action.advice}")
        _print(f"job {job_id}: {told}")
    done = [str(job_id) for job_id, outcome in changed.jobs.items() if outcome == action.done]
    if done and action.chosen_again and not dry_run:
        _print(f"to take that back: batchproc jobs retry {' '.join(done)}")


def _print(line: str) -> None:
    for part in broken(line, indent=2):
        click.echo(part)


def tell(
    action: Action,
    matched: int,
    groups: list[dict[str, Any]],
    changed: Changed,
    options: dict[str, Any],
    took: str,
) -> None:
    """Of jobs that a filter chose; ``took``: words that choose what ended in the time that the change took."""
    if options["dry_run"]:
        _tell_groups(action, matched, groups)
        return
    done = changed.outcomes[action.done]
    click.echo(f"{counted(done, 'job')} {action.done}")
    for outcome, jobs in sorted(changed.outcomes.items()):
        if outcome != action.done:
            kept = f"left as {'it is' if jobs == 1 else 'they are'}: {outcome} by now"
            _print(f"{jobs:,} {(_WORDS | _COUNTED).get(outcome, kept)}")
    if done and action.chosen_again:
        # What the filter said of the jobs' state and code is no longer so.
        words = [words_of(options, without=("states", "failure_codes")), action.chosen_again, took]
        _print(f"to take that back: batchproc jobs retry {' '.join(filter(None, words))}")


def _tell_groups(action: Action, matched: int, groups: list[dict[str, Any]]) -> None:
    print_broken(f"{counted(matched, 'job')} would be {action.done}")
    if groups:
        table(_COLUMNS, [[group[column] for column in _COLUMNS] for group in groups[:_GROUPS_SHOWN]])
    if len(groups) > _GROUPS_SHOWN:
        print_broken(f"... and {len(groups) - _GROUPS_SHOWN} more such groups: --json has all")
