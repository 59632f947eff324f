"""``demo``: see it work, with documents of its own."""

from __future__ import annotations

import os
from dataclasses import asdict

import click

from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.messages import say
from batchproc.cli.shared.output import emit_json, json_option, print_broken, table
from batchproc.cli.shared.terminal import StatusLine
from batchproc.config import worker_count
from batchproc.core.durations import duration
from batchproc.documents.paths import terminal_path
from batchproc.embedded import default_home
from batchproc.ops.demo import Demo
from batchproc.ops.demo.report import DemoReport


@click.command()
@click.option("--workers", type=click.IntRange(1, 64), metavar="N", help="Jobs at a time; default: pool.workers.")
@json_option
@pass_app
def demo(app: App, workers: int | None, as_json: bool) -> int:
    """See it work, with documents of its own.

    Made-up scans of three tenants are imported, read and compared with what was written on them. The tenants are
    called demo-..., and one of the files is broken on purpose. The scans go to a new folder below
    demo in BATCHPROC_HOME. Jobs of other tenants are not run. Every demo draws new documents.

    Exits with 1 when something went wrong that was not meant to.
    """
    app.override(pool__workers=workers)
    if not app.verbose:
        app.override(logging__level="warning")
    status = StatusLine()
    if app.is_embedded:
        status.tell("starting the embedded PostgreSQL")
    with app.connect() as connection:
        home = default_home(os.environ)
        made = Demo(
            app.settings,
            app.database_url,
            app.direct_url,
            home,
            workers=worker_count(app.settings),
            tell=status.tell,
        )
        report = made.run(connection)
    if as_json:
        emit_json(report.plain())
    else:
        _print(report)
    for problem in report.problems:
        say(problem)
    return 1 if report.problems else 0


def _print(report: DemoReport) -> None:
    rows = [asdict(row) | {"word_recall": f"{row.word_recall:.1%}"} for row in report.tenants]
    table([name.replace("_", " ") for name in rows[0]], [list(row.values()) for row in rows])
    click.echo()
    for broken in report.broken:
        print_broken(
            f"{terminal_path(os.fsencode(broken.path))} of {broken.tenant} was broken on purpose: "
            f"{broken.failure_code or 'no failure was recorded'}"
        )
    pages = sum(row.pages for row in report.tenants)
    print_broken(f"{pages} pages in {duration(report.seconds)}, drawing included, with {report.workers} workers")
    if report.problems:
        return
    tenant = report.tenants[-1].tenant
    click.echo(
        "\nWhat to look at next:\n"
        f"  batchproc documents list --tenant {tenant}\n"
        f"  batchproc documents text {report.example}\n"
        f"  batchproc jobs list --tenant {tenant}\n"
        "and then, with documents of yours:\n"
        "  batchproc tenants add acme\n"
        "  batchproc import FOLDER --tenant acme\n"
        "  batchproc"
    )
