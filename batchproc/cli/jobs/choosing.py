"""The options that choose jobs, for the commands that change many of them, and what they choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import click
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.shared.ages import Age, Moment
from batchproc.cli.shared.app import ID, App
from batchproc.cli.shared.asking import MANY
from batchproc.cli.shared.filters import FailureCode
from batchproc.cli.shared.output import json_option
from batchproc.core.errors import UsageError
from batchproc.core.job import JobState
from batchproc.queue.choosing import JobFilter

Command = Callable[..., Any]

_TIMES = ("older_than", "newer_than", "ended_since", "ended_until")
_FILTERS = ("tenant", "kinds", "states", "failure_codes", "campaign_id", "document_id", *_TIMES)
_FLAGS = {
    "tenant": "--tenant",
    "kinds": "--kind",
    "states": "--state",
    "failure_codes": "--failure-code",
    "campaign_id": "--campaign",
    "document_id": "--document",
}


def choosing(states: Sequence[JobState]) -> Callable[[Command], Command]:
    """Adds ``JOB_ID...`` and the options that choose jobs, ``--dry-run``, ``--yes`` and ``--json`` to a command.

    Args:
        states: those that ``--state`` may name.
    """
    options = (
        click.argument("job_ids", type=ID, nargs=-1),
        click.option("--tenant", metavar="SLUG", help="Only this tenant's."),
        click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind; repeatable."),
        click.option(
            "--state", "states", type=click.Choice([str(s) for s in states]), multiple=True, help="Repeatable."
        ),
        click.option(
            "--failure-code",
            "failure_codes",
            type=FailureCode(),
            multiple=True,
            metavar="CODE",
            help="Only those that ended, or last failed, with this code; repeatable.",
        ),
        click.option("--campaign", "campaign_id", type=ID, metavar="ID", help="Only this campaign's."),
        click.option("--document", "document_id", type=ID, metavar="ID", help="Only this document's."),
        click.option("--older-than", type=Age(), metavar="AGE", help="Ended, or else enqueued, longer ago: 90d."),
        click.option("--newer-than", type=Age(), metavar="AGE", help="Ended, or else enqueued, within that time: 12h."),
        click.option("--ended-since", type=Moment(), metavar="TIME", help="Ended at that time (ISO 8601) or later."),
        click.option("--ended-until", type=Moment(), metavar="TIME", help="Ended at that time or before."),
        click.option("--all", "everything", is_flag=True, help="All of them, where no other filter is given."),
        click.option("--dry-run", is_flag=True, help="Only say which jobs it would be."),
        click.option("--yes", is_flag=True, help=f"Do not ask, though a filter chooses more than {MANY} jobs."),
        json_option,
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def require_choice(command: str, job_ids: Sequence[int], options: dict[str, Any]) -> None:
    """Raises UsageError unless either ids or a filter say which jobs."""
    empty = [flag for name, flag in _FLAGS.items() if options[name] == "" or options[name] == ("",)]
    if empty:
        raise UsageError(f"{empty[0]} is empty", "leave it out, or give it a value")
    given = any(options[name] is not None and options[name] != () for name in _FILTERS)
    if job_ids and (given or options["everything"]):
        raise UsageError("job ids go without filters", "leave one of them out")
    if given and options["everything"]:
        raise UsageError("--all does not go with a filter", "leave one of them out")
    if not job_ids and not given and not options["everything"]:
        raise UsageError("nothing says which jobs", f"give their ids, a filter, or --all; see: {command} --help")


def filter_of(
    app: App, connection: Connection[TupleRow], options: dict[str, Any], states: Sequence[JobState]
) -> JobFilter:
    """What the options choose; ``states``: those that count where ``--state`` names none."""
    tenant = options["tenant"]
    return JobFilter(
        states=tuple(JobState(state) for state in options["states"]) or tuple(states),
        tenant_id=None if tenant is None else app.jobs.tenant(connection, tenant).tenant_id,
        kinds=options["kinds"] or None,
        failure_codes=options["failure_codes"] or None,
        campaign_id=options["campaign_id"],
        document_id=options["document_id"],
        older_than=options["older_than"],
        newer_than=options["newer_than"],
        ended_since=options["ended_since"],
        ended_until=options["ended_until"],
    )


def words_of(options: dict[str, Any], without: Sequence[str] = ()) -> str:
    """The filters as words of the command line, to be given again."""
    words: list[str] = []
    for name, flag in _FLAGS.items():
        values = options[name] if isinstance(options[name], tuple) else (options[name],)
        if name not in without:
            words += [f"{flag} {value}" for value in values if value is not None]
    return " ".join(words)


def ended_within(begin: datetime, end: datetime) -> str:
    """Words for what ended between these times, whenever they are given; rounded to milliseconds outwards."""
    first, last = (time.astimezone() for time in (begin, end + timedelta(microseconds=999)))
    return (
        f"--ended-since {first.isoformat(timespec='milliseconds')}"
        f" --ended-until {last.isoformat(timespec='milliseconds')}"
    )
