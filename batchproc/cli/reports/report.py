"""``report``: what a run or a campaign did, as text, JSON or a page of HTML."""

from __future__ import annotations

import os
from pathlib import Path

import click

from batchproc.cli.reports.report_list import list_runs
from batchproc.cli.shared.app import AFTER, ID, App, pass_app
from batchproc.cli.shared.output import broken, emit_json, fields, json_option, print_broken, screen_width, shown, table
from batchproc.core.durations import duration
from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.documents.paths import terminal_path
from batchproc.ops import campaign_result
from batchproc.ops.failure_lines import example, many
from batchproc.ops.report import Report, gather_campaign, gather_run, html
from batchproc.ops.report.model import FailureExample
from batchproc.ops.report.words import group_title, head, now, pruned, retaken, verdict
from batchproc.ops.summary import on_screen
from batchproc.whole_file import write_whole

_FAILURES = 20
_TENANTS = 20


@click.command()
@click.argument("run_id", metavar="[RUN]", type=ID, required=False)
@click.option("--campaign", "campaign_id", type=ID, metavar="ID", help="Report on this campaign instead of a run.")
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Write one page with charts, which needs nothing else; - for stdout.",
)
@click.option("--list", "listed", is_flag=True, help="List the runs instead, the newest first.")
@click.option("--after", type=AFTER, default=0, metavar="ID", help="With --list: continue behind this run.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Runs a page.")
@json_option
@pass_app
def report(
    app: App,
    run_id: int | None,
    campaign_id: int | None,
    page: Path | None,
    listed: bool,
    after: int,
    limit: int,
    as_json: bool,
) -> None:
    """Report what a run did, or the jobs of a campaign. Without either, it is the newest run.

    \b
    batchproc report                          the newest run, as text
    batchproc report 12 --html night.html     run 12, as a page with charts
    batchproc report --campaign 3             a campaign, so far
    batchproc report 12 --json
    batchproc report --list                   which runs there were

    The newest is the newest that did something; runs of one job (--once) and of pilots count only where there is no
    other. What a run gave up on stays in its report, whatever became of the job later; what that is stands behind it.
    Throughput, use of the workers, waits by tenant, failures by code with what to do about them, the slowest documents,
    and what became of the texts that the documents had before. All tenants are in it. It counts attempts that are still
    there: prune deletes those of jobs that ended long ago.
    """
    if listed:
        if run_id is not None or campaign_id is not None or page is not None:
            raise UsageError("--list is of all runs", "leave out RUN, --campaign and --html")
        list_runs(app, after, limit, as_json)
        return
    if run_id is not None and campaign_id is not None:
        raise UsageError("a report is on a run or on a campaign", "leave out RUN or --campaign")
    with app.connect() as connection:
        if campaign_id is not None:
            found = gather_campaign(connection, app.schema, campaign_id)
        else:
            found = gather_run(connection, app.schema, run_id)
    if page is not None:
        _write(page, html(found))
    if as_json and page != Path("-"):
        emit_json(found.plain())
    elif page is None:
        _show(found)
    elif page != Path("-"):
        click.echo(f"{found.subject.name}: {terminal_path(os.fsencode(page))}")


def _write(page: Path, text: str) -> None:
    if page == Path("-"):
        click.echo(text, nl=False)
        return
    try:
        write_whole(page, text.encode(), durable=True)
    except OSError as error:
        raise EnvironmentFault(
            f"the page cannot be written to {terminal_path(os.fsencode(page))}: {error.strerror}",
            "name a file in a folder that is yours",
        ) from None


def _show(found: Report) -> None:
    subject = found.subject
    print_broken(f"{subject.name}, from {shown(subject.started_at)}. {verdict(found)}")
    if subject.command is not None:
        print_broken(shown(subject.command))
    if missing := pruned(found):
        print_broken(missing)
    click.echo()
    fields([(what, figure) for what, figure in head(found)])
    if told := retaken(found):
        for line in broken(told, indent=2):
            click.echo(line)
    _show_failures(found)
    _section(
        "What was done, by kind",
        ("kind", "jobs", "completed", "discarded", "pages", "workers' time", "a job"),
        [
            [k.kind, k.jobs, k.completed, k.discarded, k.pages, duration(k.seconds), duration(k.seconds / k.jobs)]
            for k in found.kinds
        ],
    )
    _section(
        "Waits by tenant: half of the jobs, 19 of 20, the longest",
        ("tenant", "lane", "jobs", "half", "19 of 20", "longest", "workers' time"),
        [
            [t.tenant, t.lane, t.jobs, *map(duration, (t.wait_median, t.wait_95, t.wait_longest, t.seconds))]
            for t in found.tenants[:_TENANTS]
        ],
        len(found.tenants) - _TENANTS,
    )
    _section(
        "Tried again",
        ("kind", "failure_code", "attempts", "workers' time"),
        [[r.kind, r.failure_code, r.attempts, duration(r.seconds)] for r in found.retried],
    )
    _section(
        "Slowest documents",
        ("document_id", "tenant", "time", "pages", "status", "path"),
        [
            [s.document_id, s.tenant, duration(s.seconds), s.pages, s.failure_code or s.status, s.path]
            for s in found.slowest
        ],
    )
    if lines := campaign_result.lines(found.result):
        click.echo("\nTexts, against those before")
        for line in lines:
            print_broken(line)


def _show_failures(found: Report) -> None:
    if not found.failures:
        return
    click.echo("\nWhat to look at")
    width = screen_width()
    for group in found.failures[:_FAILURES]:
        for line in on_screen([f"{group.tenant}: {group_title(group)}: {group.advice}"]):
            click.echo(line)
        for failed in group.examples:
            click.echo(f"    {_example(failed, None if width is None else width - 4)}")
    if (more := found.failure_groups - min(len(found.failures), _FAILURES)) > 0:
        print_broken(f"and {many(more, 'more such group')}; --json and --html have more of them")


def _example(failed: FailureExample, width: int | None) -> str:
    path = None if failed.path is None else shown(failed.path)
    since = now(failed)
    room = None if width is None else width - len(since)
    return example(failed.job_id, failed.kind, failed.document_id, path, failed.detail, room) + since


def _section(title: str, columns: tuple[str, ...], rows: list[list[object]], more: int = 0) -> None:
    if rows:
        click.echo(f"\n{title}")
        table(columns, rows)
        if more > 0:
            print_broken(f"and {more:,} more; --json and --html have all")
