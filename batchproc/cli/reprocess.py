"""``reprocess``: enqueues documents again, by what their last OCR left."""

from __future__ import annotations

from typing import Any

import click
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.app import ID, App, pass_app
from batchproc.cli.filters import FailureCode, FiniteRange, warn_of_code
from batchproc.cli.output import emit_json, json_option
from batchproc.core.errors import UsageError
from batchproc.core.job import Lane
from batchproc.documents.languages import hint_problem, split_languages
from batchproc.documents.selection import Filter
from batchproc.ops.languages import LanguageCheck
from batchproc.ops.reprocessing import Reprocessed, Reprocessing, Wish, versions_before

_STATUSES = ("pending", "completed", "partial", "failed")
_REASONS = {"person": "have a person's text", "no_text": "have no text to classify"}


@click.command()
@click.option("--tenant", metavar="SLUG", help="Only this tenant's documents.")
@click.option("--status", "statuses", type=click.Choice(_STATUSES), multiple=True, help="In this status; repeatable.")
@click.option(
    "--below-confidence",
    type=FiniteRange(0, 100),
    metavar="N",
    help="Recognised with less confidence, 0 to 100, or with a page on which no word was found.",
)
@click.option("--engine-before", metavar="VERSION", help="Recognised by an older version of an engine, such as 5.5.")
@click.option(
    "--failure-code",
    "failure_codes",
    type=FailureCode(),
    multiple=True,
    metavar="CODE",
    help="Whose last OCR failed with this code; repeatable.",
)
@click.option("--document", "document_ids", type=ID, multiple=True, metavar="ID", help="This document; repeatable.")
@click.option("--all", "everything", is_flag=True, help="All documents, where no other filter is given.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Enqueue N jobs at most, oldest documents first.")
@click.option("--dry-run", is_flag=True, help="Only say what would be enqueued.")
@click.option("--kind", type=click.Choice(["ocr", "classify"]), default="ocr", show_default=True, help="Of the jobs.")
@click.option("--mode", type=click.Choice(["skip", "redo", "force"]), help="How to read pages that have a text layer.")
@click.option("--language", metavar="LANG[+LANG]", help="Recognise in these languages, such as deu or deu+eng.")
@click.option("--lane", type=click.Choice(["interactive", "bulk"]), help="Default: the kind's own, else bulk.")
@click.option("--priority", type=click.IntRange(1, 9), default=5, show_default=True, help="Lower goes first.")
@json_option
@pass_app
def reprocess(app: App, as_json: bool, limit: int | None, dry_run: bool, **options: Any) -> None:
    """Enqueue documents again: those that fit all filters.

    \b
    batchproc reprocess --status partial                    failed pages only
    batchproc reprocess --tenant acme --below-confidence 70 --dry-run
    batchproc reprocess --engine-before 5.5.4 --limit 5000  so many each night
    batchproc reprocess --failure-code missing_language     now it is installed
    batchproc reprocess --document 7 --mode force --language deu
    batchproc reprocess --tenant acme --kind classify       by its new rules

    A document of which a job of that kind waits already gets no second one, whoever enqueued it, so a command that was
    cut short can be given again; how many of those wait with another mode or other languages is told. With
    --status partial only the failed pages of partial documents are read, and the others kept, unless --mode redo or
    force is given. Documents that failed for their content (encrypted, too_large, unreadable_file, unsupported_type,
    empty_file) are left alone unless --status failed, --failure-code or --document asks for them, and text that a
    person made always.
    Those of paused tenants are enqueued, and wait.
    """
    _require_filter(options)
    entry = app.registry[options["kind"]]
    wish = _wish(options, entry.spec.lane)
    work = Reprocessing(app.jobs, entry, wish, _command(options, limit))
    with app.connect() as connection:
        _check_languages(app, connection, wish)
        done = work.run(connection, _filter(app, connection, options), limit=limit, dry=dry_run)
    _print(done, dry_run, as_json)
    if not done.selected:
        for code in options["failure_codes"]:
            warn_of_code(app, code)


def _check_languages(app: App, connection: Connection[TupleRow], wish: Wish) -> None:
    """Warns of languages that nobody has; raises UsageError for ``auto`` where nobody can detect one."""
    if (languages := wish.args.get("languages")) is None:
        return
    check = LanguageCheck(app.settings, app.jobs, connection, None)
    check.require_detection(tuple(languages))
    if (warning := check.warning(tuple(languages))) is not None:
        click.echo(f"warning: {warning}", err=True)


def _require_filter(options: dict[str, Any]) -> None:
    empty = [name for name in ("tenant", "engine_before") if options[name] == ""]
    if empty:
        raise UsageError(f"--{empty[0].replace('_', '-')} is empty", "leave it out, or give it a value")
    given = any(options[name] for name in ("tenant", "statuses", "engine_before", "document_ids", "failure_codes"))
    given = given or options["below_confidence"] is not None
    if not given and not options["everything"]:
        raise UsageError("nothing says which documents", "give --status, --tenant or another filter, or --all")
    if given and options["everything"]:
        raise UsageError("--all does not go with a filter", "leave one of them out")


def _filter(app: App, connection: Connection[TupleRow], options: dict[str, Any]) -> Filter:
    tenant, version = options["tenant"], options["engine_before"]
    return Filter(
        tenant_id=app.jobs.tenant(connection, tenant).tenant_id if tenant is not None else None,
        document_ids=options["document_ids"] or None,
        statuses=options["statuses"] or None,
        below_confidence=options["below_confidence"],
        failure_codes=options["failure_codes"] or None,
        engine_versions=versions_before(connection, app.schema, version) if version is not None else None,
    )


def _wish(options: dict[str, Any], kinds_lane: Lane | None) -> Wish:
    args: dict[str, Any] = {}
    if options["mode"] is not None:
        args["mode"] = options["mode"]
    if options["language"] is not None:
        hint = options["language"].replace(",", "+")
        if (problem := hint_problem(hint)) is not None:
            raise UsageError(f"--language {options['language']!r}: the languages {problem}", "see: batchproc doctor")
        args["languages"] = list(split_languages(hint))
    if args and options["kind"] != "ocr":
        raise UsageError("--mode and --language are for --kind ocr", "leave them out")
    chosen = Lane[options["lane"].upper()] if options["lane"] is not None else kinds_lane
    return Wish(
        kind=options["kind"],
        args=args,
        lane=Lane.BULK if chosen is None else chosen,
        priority=options["priority"],
        failed_pages_only=(
            options["kind"] == "ocr" and "partial" in options["statuses"] and options["mode"] in (None, "skip")
        ),
        with_bad_content="failed" in options["statuses"] or bool(options["document_ids"] or options["failure_codes"]),
    )


def _command(options: dict[str, Any], limit: int | None) -> str:
    """What was asked for, as words of the command line."""
    words = ["reprocess"]
    values = {**options, "limit": limit}
    for parameter in click.get_current_context().command.params:
        flag, value = parameter.opts[0], values.get(parameter.name or "")
        if value is True:
            words.append(flag)
        elif isinstance(value, tuple):
            words += [word for one in value[:20] for word in (flag, str(one))]
        elif value not in (None, False):
            words += [flag, str(value)]
    return " ".join(words)


def _print(done: Reprocessed, dry_run: bool, as_json: bool) -> None:
    left_alone = dict(sorted(done.left_alone.items()))
    if as_json:
        emit_json(
            {
                "selected": done.selected,
                "enqueued": done.enqueued,
                "already_queued": done.already_queued,
                "queued_otherwise": done.queued_otherwise,
                "differs_in": dict(sorted(done.differs_in.items())),
                "left_alone": left_alone,
                "campaign_id": done.campaign_id,
                "dry_run": dry_run,
            }
        )
        return
    would = "would be enqueued" if dry_run else "enqueued"
    click.echo(f"{done.selected} documents selected: {done.enqueued} {would}, {done.already_queued} queued already")
    if done.queued_otherwise:
        differing = ", ".join(f"{name} of {count}" for name, count in sorted(done.differs_in.items()))
        click.echo(
            f"{done.queued_otherwise} of those queued ask for something else ({differing}): run them first (batchproc"
            " run), then give this command again"
        )
    for reason, count in left_alone.items():
        click.echo(f"{count} left alone: they {_REASONS.get(reason, f'failed as {reason}')}")
    if done.campaign_id is not None:
        click.echo(f"campaign {done.campaign_id}")
