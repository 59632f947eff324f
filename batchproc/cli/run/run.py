"""``run``: the nightly command, and one job for a developer."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from pathlib import Path

import click

from batchproc.cli.run.metering import metered
from batchproc.cli.run.node import database_server, node_of, unobserved, watched
from batchproc.cli.run.once import OnceWatch, tell_none_due, try_file
from batchproc.cli.run.progress import ProgressLine
from batchproc.cli.run.summary import show_failures, show_summary
from batchproc.cli.run.until import parse_until
from batchproc.cli.shared.app import ID, App, pass_app
from batchproc.cli.shared.output import emit_json, json_option
from batchproc.config import worker_count
from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.core.job import Lane
from batchproc.engine import guardian, signals
from batchproc.engine.node import RunOptions
from batchproc.engine.ready import Scope
from batchproc.engine.requirements import require_time
from batchproc.engine.sd_notify import Notifier
from batchproc.engine.window import Window
from batchproc.ops import debugging, summary


@click.command()
@click.option("--once", is_flag=True, help="Run one job, JOB_ID or the next, and show its outcome.")
@click.argument("job_id", type=ID, required=False)
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --once: do this file as a document that is removed again; --tenant says by whose settings.",
)
@click.option("--in-process", is_flag=True, help="With --once: in this process, stopping in pdb on an exception.")
@click.option("--forever", is_flag=True, help="Go on until SIGTERM instead of ending when nothing is left.")
@click.option(
    "--until",
    "window",
    callback=parse_until,
    metavar="TIME",
    help="Be gone at 06:00, local time, or after +7h: claims end pool.shutdown_grace before that.",
)
@click.option("--exclusive", is_flag=True, help="Only if no other run is active that may claim the same jobs.")
@click.option("--max-jobs", type=click.IntRange(1), metavar="N", help="End after N jobs.")
@click.option("--tenant", "tenants", multiple=True, metavar="SLUG", help="Only this tenant's jobs. Repeatable.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only jobs of this kind. Repeatable.")
@click.option("--lane", type=click.Choice(["interactive", "bulk"]), help="Only this lane.")
@click.option("--workers", type=click.IntRange(1, 1000), metavar="N", help="Jobs at a time; default: pool.workers.")
@json_option
@pass_app
def run(
    app: App,
    once: bool,
    job_id: int | None,
    file: Path | None,
    in_process: bool,
    forever: bool,
    window: Window | None,
    exclusive: bool,
    max_jobs: int | None,
    tenants: tuple[str, ...],
    kinds: tuple[str, ...],
    lane: str | None,
    workers: int | None,
    as_json: bool,
) -> int:
    """Run everything that is due, then exit.

    Exit codes: 0 done, or its time was over; 1 jobs were discarded or documents ended partial; 2 usage or settings;
    3 database, storage or another part of the environment; 4 --exclusive, and another run is active. Without a
    terminal nothing is printed when it is 0.
    """
    _check_flags(once, job_id, in_process, forever, max_jobs, gives_way=exclusive or window is not None)
    if file is not None and not once:
        raise UsageError("--file does one file", f"batchproc run --once --file {file}")
    app.override(pool__workers=workers)
    _set_up_log(app, keep=once or forever)  # before the settings are asked for, which set it up
    require_time(window, app.settings.pool.shutdown_grace)
    if file is not None:
        return _with_file(app, file, job_id, tenants, kinds, in_process, as_json)
    with app.connect(window) as connection:
        scope = Scope(
            frozenset(app.jobs.tenant(connection, slug).tenant_id for slug in tenants),
            frozenset(kinds),
            frozenset([Lane[lane.upper()]] if lane else []),
        )
    if in_process:
        return _in_process(app, job_id, scope, as_json)
    options = RunOptions(
        workers=1 if once else worker_count(app.settings),
        forever=forever,
        max_jobs=max_jobs,
        once=once,
        job_id=job_id,
        scope=scope,
        window=window,
        exclusive=exclusive,
    )
    notifier = Notifier.taken_from(os.environ, os.getpid())
    if not app.own_process:
        return _run_node(app, options, once, as_json, notifier)
    try:
        return guardian.guarded(
            lambda: _run_node(app, options, once, as_json, notifier),
            lambda: database_server(app),
            hangups_reload=forever and not signals.has_terminal(),
        )
    except EnvironmentFault:
        if sys.stderr.isatty():  # a killed node leaves its progress line
            click.echo("\r\x1b[K", nl=False, err=True)
        raise


def _with_file(
    app: App,
    file: Path,
    job_id: int | None,
    tenants: tuple[str, ...],
    kinds: tuple[str, ...],
    in_process: bool,
    as_json: bool,
) -> int:
    if job_id is not None:
        raise UsageError("--file makes a job of its own", f"leave out {job_id}, or --file")
    if len(tenants) > 1:
        raise UsageError("--file is done by the settings of one tenant", "give --tenant once")
    tried = functools.partial(try_file, app, file, next(iter(tenants), None), kinds, in_process, as_json)
    if in_process or not app.own_process:
        return tried()
    app.connect().close()  # an embedded server is started, and migrated, by this process
    return guardian.guarded(tried, lambda: database_server(app))


def _run_node(app: App, options: RunOptions, once: bool, as_json: bool, notifier: Notifier) -> int:
    once_watch = OnceWatch(app.settings.pool.memory_limit_mb, as_json) if once else None
    line = ProgressLine(
        functools.partial(watched, app, options), signals.heard, options.window, quiet=app.quiet or once
    )
    with metered(app, options) as meters, line, once_watch or contextlib.nullcontext():
        node = node_of(
            app,
            once_watch.observe if once_watch is not None else unobserved,
            notifier=notifier,
            read_again=app.read_settings,
            notes=once_watch.notes if once_watch is not None else None,
            meters=meters,
            begun=line.begin,
        )
        report = node.run(options)
    if once_watch is not None:
        once_watch.tell_retry(report.counts)
        if not (report.counts.claimed or report.stopped or as_json):
            tell_none_due(app, options.scope)
    attempts = {"attempts": once_watch.attempts} if once_watch else {}
    show_summary(app, report, as_json, quiet=not once and not sys.stdout.isatty(), more=attempts, window=options.window)
    return report.exit_code


def _check_flags(
    once: bool, job_id: int | None, in_process: bool, forever: bool, max_jobs: int | None, *, gives_way: bool
) -> None:
    if job_id is not None and not once:
        raise UsageError(f"unexpected argument {job_id}", f"to run that job alone: batchproc run --once {job_id}")
    if in_process and not once:
        raise UsageError("--in-process runs one job", "batchproc run --once [JOB_ID] --in-process")
    if once and (forever or max_jobs is not None):
        raise UsageError("--once runs one job", "leave out --forever and --max-jobs")
    if once and gives_way:
        raise UsageError(
            "--once runs one job, whatever the time and whoever else runs", "leave out --until and --exclusive"
        )


def _set_up_log(app: App, *, keep: bool) -> None:
    # From cron every line on stderr is a mail, and on a terminal it would break the progress line: the summary says
    # it all, and the log goes to its file. A developer's --once and a service's --forever keep their log.
    app.log_to_stderr = keep or app.verbose


def _in_process(app: App, job_id: int | None, scope: Scope, as_json: bool) -> int:
    with OnceWatch(None, as_json) as watch:
        report = debugging.run_in_process(
            app.settings, app.database_url, job_id, scope, watch.observe, notes=watch.notes
        )
    if as_json:
        emit_json(summary.plain(report) | {"attempts": watch.attempts})
    elif not report.counts.claimed:
        tell_none_due(app, scope)
        for line in summary.on_screen(summary.kept_lines(report, len(report.kept))):
            click.echo(line)
    else:
        watch.tell_retry(report.counts)
        show_failures(app, report)
    return report.exit_code
