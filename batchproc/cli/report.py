"""``report``: what a run or a campaign did, as text, JSON or a page of HTML."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from batchproc.cli.app import ID, App, pass_app
from batchproc.cli.output import emit_json, fields, json_option, shown, table
from batchproc.core.durations import duration
from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.documents.paths import terminal_path
from batchproc.ops import campaign_result
from batchproc.ops.report import Report, gather_campaign, gather_run, html
from batchproc.ops.report.words import group_title, head, verdict
from batchproc.ops.summary import on_screen

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
@json_option
@pass_app
def report(app: App, run_id: int | None, campaign_id: int | None, page: Path | None, as_json: bool) -> None:
    """Report what a run did: the newest, RUN, or what the jobs of a campaign did.

    \b
    batchproc report                          the newest run, as text
    batchproc report 12 --html night.html     run 12, as a page with charts
    batchproc report --campaign 3             a campaign, so far
    batchproc report 12 --json

    Throughput, use of the workers, waits by tenant, failures by code with what to do about them, the slowest documents,
    and what became of the texts that the documents had before. All tenants are in it. It counts attempts that are still
    there: prune deletes those of jobs that ended long ago.
    """
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
    """Writes the file in one step: who has it open, or serves it, never sees half of it."""
    if page == Path("-"):
        click.echo(text, nl=False)
        return
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=page.parent, prefix=f".{page.name}.", delete=False
        ) as file:
            written = Path(file.name)
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                written.chmod(0o666 & ~_umask())
                written.replace(page)
            except BaseException:
                written.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise EnvironmentFault(
            f"the page cannot be written to {terminal_path(os.fsencode(page))}: {error.strerror}",
            "name a file in a folder that is yours",
        ) from None


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _show(found: Report) -> None:
    subject = found.subject
    click.echo(f"{subject.name}, from {shown(subject.started_at)}. {verdict(found)}")
    if subject.command is not None:
        click.echo(shown(subject.command))
    if subject.pruned:
        click.echo(f"{subject.pruned:,} of its attempts have been pruned, and are not counted here")
    click.echo()
    fields([(what, figure) for what, figure in head(found)])
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
            click.echo(line)


def _show_failures(found: Report) -> None:
    if not found.failures:
        return
    click.echo("\nWhat to look at")
    for group in found.failures[:_FAILURES]:
        for line in on_screen([f"{group.tenant}: {group_title(group)}: {group.advice}"]):
            click.echo(line)
        for example in group.examples:
            document = "" if example.document_id is None else f" document {example.document_id}"
            path = "" if example.path is None else f" {shown(example.path)}"
            detail = "" if not example.detail else f" ({shown(example.detail)})"
            click.echo(f"    job {example.job_id} {example.kind}{document}{path}{detail}")
    if (more := found.failure_groups - min(len(found.failures), _FAILURES)) > 0:
        click.echo(f"and {more:,} more such groups; --json and --html have more of them")


def _section(title: str, columns: tuple[str, ...], rows: list[list[object]], more: int = 0) -> None:
    if rows:
        click.echo(f"\n{title}")
        table(columns, rows)
        if more > 0:
            click.echo(f"and {more:,} more; --json and --html have all")
