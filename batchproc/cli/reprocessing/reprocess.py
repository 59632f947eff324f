"""``reprocess``: enqueues documents again, by what their last OCR left."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import click
from click.core import ParameterSource
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.reprocessing.pilot import Pilot, pilot_scope, require_readers, run_pilot
from batchproc.cli.reprocessing.selection import choosing_documents, filter_of, require_choice
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.filters import warn_of_code
from batchproc.cli.shared.messages import say
from batchproc.cli.shared.output import emit_json, json_option, print_broken
from batchproc.cli.shared.terminal import StatusLine
from batchproc.config.loading import worker_count
from batchproc.core.counted import counted
from batchproc.core.errors import UsageError
from batchproc.core.failure_codes import BAD_CONTENT
from batchproc.core.job import Lane
from batchproc.core.kinds import CLASSIFY, OCR
from batchproc.core.shown_text import one_line
from batchproc.documents.languages import hint_problem, split_languages
from batchproc.ops.estimates import Estimate, estimated
from batchproc.ops.languages import LanguageCheck
from batchproc.ops.reprocessing import BEGUN, Reprocessed, Reprocessing, Wish

_TO_BE_READ = "begun to be read by a job, whose pages a pilot does not take"
# Of one document, and of several.
_REASONS = {
    "person": ("has a person's text", "have a person's text"),
    "no_text": ("has no text to classify", "have no text to classify"),
    BEGUN: (f"has {_TO_BE_READ}", f"have {_TO_BE_READ}"),
}
_MOST_NAMED = 20


@click.command()
@choosing_documents
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Enqueue N jobs at most, oldest documents first.")
@click.option(
    "--pilot",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Only try it, on N documents from all over: their new text is kept beside the current one, to be compared.",
)
@click.option("--no-run", is_flag=True, help="With --pilot: leave the reading to the next run.")
@click.option("--dry-run", is_flag=True, help="Only say what would be enqueued, and about how long it would take.")
@click.option("--kind", type=click.Choice([OCR, CLASSIFY]), default=OCR, show_default=True, help="Of the jobs.")
@click.option("--mode", type=click.Choice(["skip", "redo", "force"]), help="How to read pages that have a text layer.")
@click.option("--language", metavar="LANG[+LANG]", help="Recognise in these languages, such as deu or deu+eng.")
@click.option("--lane", type=click.Choice(["interactive", "bulk"]), help="Default: the kind's own, else bulk.")
@click.option("--priority", type=click.IntRange(1, 9), default=5, show_default=True, help="Lower goes first.")
@json_option
@pass_app
def reprocess(
    app: App, as_json: bool, limit: int | None, pilot: int | None, no_run: bool, dry_run: bool, **options: Any
) -> int:
    """Enqueue documents again: those that fit all filters. They are one campaign.

    \b
    batchproc reprocess --status partial                    failed pages only
    batchproc reprocess --tenant acme --below-confidence 70 --dry-run
    batchproc reprocess --engine-before 5.5.4 --limit 5000  so many each night
    batchproc reprocess --stale-rules --kind classify       by the rules of today
    batchproc reprocess --tag invoice --read-in deu --older-than 365d
    batchproc reprocess --path '/srv/scans/2019/*.tif' --mode force
    batchproc reprocess --stale-data --pilot 200            is it worth it?
    batchproc reprocess --failure-code missing_language     now it is installed

    A document of which a job of that kind waits already gets no second one, whoever enqueued it, so a command that was
    cut short can be given again; how many of those wait with another mode or other languages is told. With
    --status partial only the failed pages of partial documents are read, and the others kept, unless --mode redo or
    force is given. Documents that failed for their content (encrypted, too_large, unreadable_file, unsupported_type,
    empty_file) or with a code of run.accept_codes are left alone unless --status failed, --failure-code or --document
    asks for them, and text that a person made always. Those of paused tenants are enqueued, and wait.

    --pilot N reads N documents at once, together with the machines that run: their new text stays beside the current
    one, nothing else of them changes, and what would be gained and lost is told, with the documents to look at. Those
    that a job has begun to read, and not ended, are left out and counted.

    How far it is tells campaigns show, campaigns cancel stops it, and campaigns revert brings back the text before.
    """
    require_choice(options)
    if pilot is not None and (options["kind"] != OCR or limit is not None):
        raise UsageError("--pilot goes neither with --kind classify nor with --limit", "leave one of them out")
    if no_run and pilot is None:
        raise UsageError("--no-run is for --pilot", "leave it out: reprocess enqueues, and batchproc run reads")
    runs = pilot is not None and not (no_run or dry_run)
    if runs:
        app.log_to_stderr = app.verbose  # it would break the progress line
    entry = app.registry[options["kind"]]
    wish = _wish(options, entry.spec.lane, app.settings.run.accept_codes, pilot=pilot is not None)
    work = Reprocessing(app.jobs, entry, wish, _command(options, limit=limit, pilot=pilot), options["tenant"])
    status = StatusLine()
    fitting = Reprocessed()
    with app.connect() as connection:
        _check_languages(app, connection, wish)
        chosen = filter_of(app, connection, options)
        if pilot is not None:
            require_readers(app, connection)
            chosen, fitting = work.sample(connection, chosen, pilot)
        done = work.run(connection, chosen, limit=limit, dry=dry_run, told=lambda now: status.show(_so_far(now)))
        done.left_alone.update({BEGUN: begun} if (begun := fitting.left_alone[BEGUN]) else {})
        estimate = estimated(connection, app.schema, done.work(wish), workers=worker_count(app.settings))
    status.clear()
    if runs:
        scope = pilot_scope(chosen.tenant_id, wish.lane)
        return run_pilot(app, Pilot(done, fitting.jobs.total(), scope, fitting.work(wish)), as_json)
    _print(done, estimate, dry_run=dry_run, pilot=pilot is not None, as_json=as_json)
    if not done.selected:
        for code in options["failure_codes"]:
            warn_of_code(app, code)
    return 0


def _so_far(done: Reprocessed) -> str:
    return f"{counted(done.selected, 'document')} selected, {done.enqueued} to be enqueued"


def _check_languages(app: App, connection: Connection[TupleRow], wish: Wish) -> None:
    """Warns of languages that nobody has; raises UsageError for ``auto`` where nobody can detect one."""
    if (languages := wish.args.get("languages")) is None:
        return
    check = LanguageCheck(app.settings, app.jobs, connection, None)
    check.require_detection(tuple(languages))
    if (warning := check.warning(tuple(languages))) is not None:
        say(f"warning: {warning}")


def _wish(options: dict[str, Any], kinds_lane: Lane | None, accepted: Sequence[str], *, pilot: bool) -> Wish:
    args: dict[str, Any] = {}
    if options["mode"] is not None:
        args["mode"] = options["mode"]
    if options["language"] is not None:
        hint = options["language"].replace(",", "+")
        if (problem := hint_problem(hint)) is not None:
            raise UsageError(f"--language {options['language']!r}: the languages {problem}", "see: batchproc doctor")
        args["languages"] = list(split_languages(hint))
    if args and options["kind"] != OCR:
        raise UsageError("--mode and --language are for --kind ocr", "leave them out")
    chosen = Lane[options["lane"].upper()] if options["lane"] is not None else kinds_lane
    if pilot and options["lane"] is None:
        chosen = Lane.INTERACTIVE  # somebody waits for it
    return Wish(
        kind=options["kind"],
        args=args,
        lane=Lane.BULK if chosen is None else chosen,
        priority=options["priority"],
        failed_pages_only=(
            options["kind"] == OCR and "partial" in options["statuses"] and options["mode"] in (None, "skip")
        ),
        with_bad_content="failed" in options["statuses"] or bool(options["document_ids"] or options["failure_codes"]),
        known=BAD_CONTENT.union(accepted),
        pilot=pilot,
    )


def _command(options: dict[str, Any], **more: Any) -> str:
    """What was asked for, as words of the command line; of very many values the first."""
    words = ["reprocess"]
    values = {**options, **more}
    context = click.get_current_context()
    for parameter in context.command.params:
        name, flag = parameter.name or "", parameter.opts[0]
        if name not in values or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        if values[name] is True:
            words.append(flag)
        elif isinstance(values[name], tuple):
            words += [word for one in values[name][:_MOST_NAMED] for word in (flag, _spoken(one))]
            words += ["..."] if len(values[name]) > _MOST_NAMED else []
        else:
            words += [flag, _spoken(values[name])]
    return one_line(shlex.join(words))


def _spoken(value: Any) -> str:
    if isinstance(value, timedelta):
        seconds = int(value.total_seconds())
        return f"{seconds // 86400}d" if seconds and seconds % 86400 == 0 else f"{seconds}s"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _print(done: Reprocessed, estimate: Estimate, *, dry_run: bool, pilot: bool, as_json: bool) -> None:
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
                **asdict(estimate),
                "campaign_id": done.campaign_id,
                "pilot": pilot,
                "dry_run": dry_run,
            }
        )
        return
    would = "would be enqueued" if dry_run else "enqueued"
    selected = f"{counted(done.selected, 'document')} selected"
    print_broken(f"{selected}: {done.enqueued} {would}, {done.already_queued} queued already")
    if done.queued_otherwise:
        print_broken(_otherwise(done))
    for reason, count in left_alone.items():
        one, several = _REASONS.get(reason, (f"failed as {reason}",) * 2)
        print_broken(f"{count} left alone: {f'it {one}' if count == 1 else f'they {several}'}")
    if done.enqueued:
        for line in estimate.lines():
            click.echo(line)
    if done.campaign_id is not None:
        print_broken(f"campaign {done.campaign_id}: batchproc campaigns show {done.campaign_id}")


def _otherwise(done: Reprocessed) -> str:
    """``2 of those queued ask for another mode: ...``; where they differ in several, of each how many documents do."""
    some = done.queued_otherwise
    asks, them = ("asks", "it") if some == 1 else ("ask", "them")
    differences = sorted(done.differs_in.items())
    counts = some > 1 and len(differences) > 1
    others = ", ".join(
        f"{'another' if name == 'mode' else 'other'} {name}" + (f" ({count})" if counts else "")
        for name, count in differences
    )
    return f"{some} of those queued {asks} for {others}: run {them} first (batchproc run), then give this command again"
