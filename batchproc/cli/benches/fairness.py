"""``bench fairness``."""

from __future__ import annotations

import click

from batchproc.cli.benches.common import begin, runs_option, show
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.output import json_option


@click.command("fairness")
@click.option("--jobs", type=click.IntRange(50, 1_000_000), default=5000, show_default=True, help="Of the big tenant.")
@click.option("--tenants", type=click.IntRange(1, 1000), default=20, show_default=True, help="Small ones, later.")
@click.option("--each", type=click.IntRange(1, 1000), default=5, show_default=True, help="Jobs of a small tenant.")
@click.option("--sleep", type=click.IntRange(1, 10_000), default=40, show_default=True, help="Milliseconds of a job.")
@click.option("--workers", type=click.IntRange(1, 64), default=4, show_default=True, help="Jobs at a time.")
@runs_option
@json_option
@pass_app
def command(app: App, jobs: int, tenants: int, each: int, sleep: int, workers: int, runs: int, as_json: bool) -> None:
    """Measure how long small tenants wait beside a big one.

    A wait is from the tenant's previous start, or the arrival of its jobs: the turns are jobs of others that were
    started meanwhile, the rounds those of the same other. Beside it the same jobs, arriving likewise, as those of one
    tenant: first in, first out.
    """
    from batchproc.ops.bench.fairness import Load, bench_fairness

    urls, status = begin(app)
    load = Load(jobs, tenants, each, sleep)
    plain = bench_fairness(app.settings, urls, load, workers=workers, runs=runs, tell=status.tell).plain()
    fair, fifo, ratio = plain["fair"], plain["fifo"], plain["fifo_to_fair"]
    show(
        plain,
        as_json,
        f"{plain['fairness']}: waits of {fair['p50_turns']} / {fair['p99_turns']} / {fair['worst_turns']} turns (p50 / "
        f"p99 / worst), {fair['worst_rounds']} rounds at most; first in, first out makes them wait for up to "
        f"{fifo['worst_turns']} turns. Small tenants are served {ratio['median']:.1f} times as soon "
        f"({ratio['least']:.1f} to {ratio['most']:.1f}): {fair['served_p50_s']:.2f} s, {fifo['served_p50_s']:.2f} s",
    )
