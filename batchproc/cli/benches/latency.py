"""``bench latency``."""

from __future__ import annotations

import click

from batchproc.cli.benches.common import begin, runs_option, show
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.output import json_option


@click.command("latency")
@click.option("--jobs", type=click.IntRange(1, 100_000), default=200, show_default=True, help="Jobs in each run.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Jobs at a time.")
@runs_option
@json_option
@pass_app
def command(app: App, jobs: int, workers: int, runs: int, as_json: bool) -> None:
    """Measure from enqueueing a job until its handler begins.

    The node has nothing else to do; another process enqueues one job per transaction. Beside it: a one-row commit, and
    NOTIFY until another session hears it. Milliseconds.
    """
    from batchproc.ops.bench.figures import counted
    from batchproc.ops.bench.latency import bench_latency

    urls, status = begin(app)
    plain = bench_latency(app.settings, urls, jobs=jobs, workers=workers, runs=runs, tell=status.tell).plain()
    show(
        plain,
        as_json,
        f"{plain['p50_ms']:.1f} / {plain['p99_ms']:.1f} ms (p50 / p99 of {counted(jobs * runs, 'job')}, worst "
        f"{plain['worst_ms']:.1f}) from enqueueing to the start; beside it a commit {plain['commit_p50_ms']:.1f} / "
        f"{plain['commit_p99_ms']:.1f} ms, NOTIFY to LISTEN {plain['notify_p50_ms']:.1f} / "
        f"{plain['notify_p99_ms']:.1f} ms",
    )
