"""``run``: the nightly command, and one job for a developer."""

from __future__ import annotations

import sys

import click

from batchproc.cli.app import ID, App, pass_app
from batchproc.cli.output import emit_json, json_option
from batchproc.cli.progress import ProgressLine
from batchproc.config import worker_count
from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.core.job import Claim, Lane
from batchproc.core.outcome import Outcome
from batchproc.database import connect
from batchproc.engine import guardian, signals
from batchproc.engine.node import Node, RunOptions, RunReport
from batchproc.engine.pool.processes import ProcessId, read_stat
from batchproc.engine.ready import Scope
from batchproc.ops import debugging, summary
from batchproc.ops.outcome_text import outcome_line
from batchproc.queue.inspection import Inspection


@click.command()
@click.option("--once", is_flag=True, help="Run one job, JOB_ID or the next, and show its outcome.")
@click.argument("job_id", type=ID, required=False)
@click.option("--in-process", is_flag=True, help="With --once: in this process, stopping in pdb on an exception.")
@click.option("--forever", is_flag=True, help="Go on until SIGTERM instead of ending when nothing is left.")
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
    in_process: bool,
    forever: bool,
    max_jobs: int | None,
    tenants: tuple[str, ...],
    kinds: tuple[str, ...],
    lane: str | None,
    workers: int | None,
    as_json: bool,
) -> int:
    """Run everything that is due, then exit.

    Exit codes: 0 done; 1 jobs were discarded or documents ended partial; 2 usage or settings; 3 database, storage or
    another part of the environment. Without a terminal nothing is printed when it is 0.
    """
    _check_flags(once, job_id, in_process, forever, max_jobs)
    app.override(pool__workers=workers)
    _set_up_log(app, keep=once or forever)
    with app.connect() as connection:
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
        max_jobs=1 if once else max_jobs,
        job_id=job_id,
        scope=scope,
    )
    if not app.own_process:
        return _run_node(app, options, once, as_json)
    try:
        return guardian.guarded(lambda: _run_node(app, options, once, as_json), lambda: _database_server(app))
    except EnvironmentFault:
        if sys.stderr.isatty():  # a killed node leaves its progress line
            click.echo("\r\x1b[K", nl=False, err=True)
        raise


def _run_node(app: App, options: RunOptions, once: bool, as_json: bool) -> int:
    with _Outcomes(as_json) if once else ProgressLine(lambda: _waiting(app, options.scope), signals.heard) as watch:
        node = Node(
            app.settings,
            app.database_url,
            app.direct_url,
            watch.observe,
            log_to_stderr=app.log_to_stderr,
            revive=app.server.revive if app.is_embedded else lambda: None,
        )
        report = node.run(options)
    _report(app, report, as_json, quiet=not once and not sys.stdout.isatty())
    return report.exit_code


def _database_server(app: App) -> list[ProcessId]:
    """The embedded server, which a node may have started again; it outlives every run."""
    pid = app.server.pid if app.is_embedded else None
    stat = read_stat(pid) if pid is not None else None
    return [stat.process] if stat is not None else []


def _check_flags(once: bool, job_id: int | None, in_process: bool, forever: bool, max_jobs: int | None) -> None:
    if job_id is not None and not once:
        raise UsageError(f"unexpected argument {job_id}", f"to run that job alone: batchproc run --once {job_id}")
    if in_process and not once:
        raise UsageError("--in-process runs one job", "batchproc run --once [JOB_ID] --in-process")
    if once and (forever or max_jobs is not None):
        raise UsageError("--once runs one job", "leave out --forever and --max-jobs")


def _set_up_log(app: App, *, keep: bool) -> None:
    # From cron every line on stderr is a mail, and on a terminal it would break the progress line: the summary says
    # it all, and the log goes to its file. A developer's --once and a service's --forever keep their log.
    app.log_to_stderr = keep or app.verbose


def _report(app: App, report: RunReport, as_json: bool, *, quiet: bool) -> None:
    if as_json:
        emit_json(summary.plain(report))
        return
    if quiet and report.exit_code == 0:
        return
    with app.connect() as connection:
        failures = Inspection(app.schema).run_failures(
            connection, report.run_id, summary.SHOWN_FAILURES + 1, partial=bool(report.counts.partial)
        )
    for line in summary.lines(report, failures, app.settings.run.accept_codes):
        click.echo(line)


def _in_process(app: App, job_id: int | None, scope: Scope, as_json: bool) -> int:
    watch = _Outcomes(as_json)
    report = debugging.run_in_process(app.settings, app.database_url, job_id, scope, watch.observe)
    if as_json:
        emit_json(summary.plain(report))
    elif not report.counts.claimed:
        click.echo("no job is due")
    return report.exit_code


def _waiting(app: App, scope: Scope) -> int:
    with connect(app.database_url) as connection:
        return Inspection(app.schema).count_due(
            connection, tenant_ids=scope.tenant_ids, kinds=scope.kinds, lanes=scope.lanes
        )


class _Outcomes:
    """Prints the outcome of the one job, in full; with ``--json`` the counts alone are printed."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def __enter__(self) -> _Outcomes:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left on the terminal to take away."""

    def observe(self, claim: Claim, outcome: Outcome, seconds: float) -> None:
        if not self._as_json:
            click.echo(outcome_line(claim, outcome, seconds))
