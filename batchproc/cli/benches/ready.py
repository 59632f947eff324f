"""``bench ready``."""

from __future__ import annotations

import click

from batchproc.cli.benches.common import begin, runs_option, show
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.output import json_option


@click.command("ready")
@click.option(
    "--tenants", type=click.IntRange(100, 100_000), default=10_000, show_default=True, help="With three kinds each."
)
@click.option(
    "--jobs", type=click.IntRange(1000, 5_000_000), default=300_000, show_default=True, help="Jobs that wait."
)
@click.option("--claims", type=click.IntRange(1, 10_000), default=40, show_default=True, help="Of a side, in each run.")
@runs_option
@json_option
@pass_app
def command(app: App, tenants: int, jobs: int, claims: int, runs: int, as_json: bool) -> None:
    """Measure the look for ready queues.

    A node looks once in a poll interval, on a connection of its own beside the claims. Measured are the look, what of
    it the dispatcher does between two claims, claims alone and beside looks without a pause, and the memory that a
    fresh process gains. The limit beside it: the index read once for each queue, of queues that are known already.
    """
    from batchproc.ops.bench.ready import bench_ready

    urls, status = begin(app)
    done = bench_ready(app.settings, urls, tenants=tenants, jobs=jobs, claims=claims, runs=runs, tell=status.tell)
    plain = done.plain()
    show(
        plain,
        as_json,
        f"{plain['look_ms']['median']:.0f} ms for {plain['queues']} queues, {plain['microseconds_per_queue']:.1f} "
        f"microseconds each, {plain['ratio_to_look_ups']['median']:.1f} times as many look-ups of known queues; "
        f"{plain['learn_ms']['median']:.0f} ms of it between two claims; claims beside looks without a pause take "
        f"{plain['claim_ratio_beside']['median']:.2f} times as long; knowing the queues takes "
        f"{plain['memory_mb']:.1f} MB of a node's memory (50 at most for 30,000)",
    )
