"""``bench prune``."""

from __future__ import annotations

import click

from batchproc.cli.benches.common import begin, runs_option, show
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.output import json_option


@click.command("prune")
@click.option(
    "--finished", type=click.IntRange(1, 50_000_000), default=300_000, show_default=True, help="Jobs to prune."
)
@click.option("--jobs", type=click.IntRange(1, 1_000_000), default=5000, show_default=True, help="Jobs on each side.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Jobs at a time.")
@runs_option
@json_option
@pass_app
def command(app: App, finished: int, jobs: int, workers: int, runs: int, as_json: bool) -> None:
    """Measure a prune beside a run.

    Jobs that do nothing are run on a table of finished jobs, by turns alone and beside `prune`: how much of the run's
    rate is left, for how long nothing was claimed, and how many rows were pruned. The limit beside it: the same prune
    without its rests, with nothing else going on.
    """
    from batchproc.ops.bench.prune import bench_prune

    urls, status = begin(app)
    done = bench_prune(app.settings, urls, finished=finished, jobs=jobs, workers=workers, runs=runs, tell=status.tell)
    plain = done.plain()
    show(
        plain,
        as_json,
        f"{plain['pruned_per_second']['median']:.0f} rows/s pruned beside a run "
        f"({plain['unpaced_per_second']['median']:.0f} without rests, alone), which went on at "
        f"{plain['ratio_of_run']['median']:.2f} of its rate; nothing was claimed for "
        f"{plain['longest_gap_ms']['median']:.0f} ms at most (alone {plain['longest_gap_alone_ms']['median']:.0f})"
        + ("" if plain["pruned_throughout"] else "; it had pruned all before a run ended: give more --finished"),
    )
