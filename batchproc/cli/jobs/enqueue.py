"""``enqueue``: adds one job, or many from standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime

import click
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.shared.app import ID, App, pass_app
from batchproc.cli.shared.messages import say
from batchproc.cli.shared.output import emit_json, json_option, print_broken
from batchproc.core.counted import counted
from batchproc.core.errors import UsageError
from batchproc.core.job import NewJob
from batchproc.documents.languages import split_languages
from batchproc.ops import enqueueing
from batchproc.ops.enqueueing import JobLine
from batchproc.ops.languages import LanguageCheck
from batchproc.queue.store import Tenant, UnknownOwner


@click.command()
@click.argument("kind")
@click.option("--tenant", required=True, metavar="SLUG", help="Whose job it is.")
@click.option("--args", "args_text", default="{}", metavar="JSON", help="A JSON object.")
@click.option("--document", "document_id", type=ID, metavar="ID", help="The document it works on.")
@click.option("--lane", type=click.Choice(["interactive", "bulk"]), help="Default: the kind's own, else bulk.")
@click.option("--priority", type=click.IntRange(1, 9), default=5, show_default=True, help="Lower goes first.")
@click.option(
    "--at", "at_text", metavar="TIME", help="Not before this time (22:00 or ISO 8601; local without an offset)."
)
@click.option("--unique", "unique_key", metavar="KEY", help="Add nothing while a job with this key waits.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read one JSON object a line: args, document_id, ...")
@click.option("--force", is_flag=True, help="Also a kind that nobody knows (yet).")
@json_option
@pass_app
def enqueue(
    app: App,
    kind: str,
    tenant: str,
    args_text: str,
    document_id: int | None,
    at_text: str | None,
    unique_key: str | None,
    from_stdin: bool,
    force: bool,
    as_json: bool,
    lane: str | None,
    priority: int,
) -> None:
    """Enqueue a job of KIND.

    \b
    batchproc enqueue classify --tenant acme --document 7
    batchproc enqueue export --tenant acme --args '{"document_id": 7}' --at 22:00
    """
    line = JobLine(
        args=enqueueing.parse_args(args_text),
        document_id=document_id,
        run_at=enqueueing.parse_time(at_text, datetime.now().astimezone()) if at_text is not None else None,
        unique_key=unique_key,
    )
    with app.connect() as connection:
        owner = app.jobs.tenant(connection, tenant)
        if not force:
            enqueueing.require_known_kind(app.registry, app.jobs, connection, kind)

        asked: set[tuple[str, ...] | None] = set()
        unsaid: set[int] = set()

        def job(of: JobLine) -> NewJob:
            new = enqueueing.new_job(app.registry, owner, kind, of, lane=lane, priority=priority)
            languages = enqueueing.asked_languages(new)
            if check is not None and languages is None and new.document_id is not None:
                unsaid.add(new.document_id)
            else:
                asked.add(languages)
            return new

        check = None
        if kind in app.registry and app.registry[kind].spec.needs_languages:
            check = LanguageCheck(app.settings, app.jobs, connection, owner.settings.get("languages"))
        if from_stdin:
            _many(app, connection, job, as_json)
        else:
            new = job(line)
            asked |= _hinted(app, connection, owner, unsaid)
            if check is not None and not force:
                for languages in asked:
                    check.require_detection(languages)
            _one(app, connection, owner, new, as_json)
        if check is not None:
            # Not while many are copied: the connection is busy then.
            _warn(check, asked | _hinted(app, connection, owner, unsaid))


def _hinted(
    app: App, connection: Connection[TupleRow], owner: Tenant, document_ids: Collection[int]
) -> set[tuple[str, ...] | None]:
    """What the hints of these documents ask for; None for those without."""
    hints = app.documents.of_tenant(owner.tenant_id).hints(connection, document_ids) if document_ids else set()
    return {split_languages(hint) if hint else None for hint in hints}


def _warn(check: LanguageCheck, asked: Iterable[tuple[str, ...] | None]) -> None:
    for languages in sorted(asked, key=lambda languages: languages or ()):
        warning = check.warning(languages)
        if warning is not None:
            say(f"warning: {warning}")


def _one(app: App, connection: Connection[TupleRow], owner: Tenant, job: NewJob, as_json: bool) -> None:
    entry = app.registry.get(job.kind)
    try:
        enqueued = app.jobs.enqueue(connection, job, entry.spec if entry is not None else None)
    except UnknownOwner:
        raise UsageError(
            f"tenant {owner.slug} has no document {job.document_id}",
            f"see: batchproc documents list --tenant {owner.slug}",
        ) from None
    if as_json:
        emit_json({"job_id": enqueued.job_id, "duplicate": enqueued.duplicate})
    elif enqueued.duplicate:
        print_broken(f"job {enqueued.job_id} waits already under that key")
    else:
        click.echo(f"job {enqueued.job_id}")


def _many(app: App, connection: Connection[TupleRow], job: Callable[[JobLine], NewJob], as_json: bool) -> None:
    def jobs() -> Iterator[NewJob]:
        for number, line in enqueueing.parse_lines(sys.stdin.buffer):
            try:
                yield job(line)
            except UsageError as error:
                raise UsageError(f"line {number}: {error}", "nothing was enqueued") from None

    with connection.transaction():
        count = app.jobs.enqueue_many(connection, jobs(), app.registry.specs())
    if as_json:
        emit_json({"enqueued": count})
    else:
        click.echo(counted(count, "job"))
