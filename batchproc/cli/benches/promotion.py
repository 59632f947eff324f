"""``bench promotion``."""

from __future__ import annotations

import click

from batchproc.cli.benches.common import begin, runs_option, show
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.output import json_option


@click.command("promotion")
@click.option(
    "--jobs", type=click.IntRange(10, 5_000_000), default=100_000, show_default=True, help="Jobs due at once."
)
@click.option(
    "--tenants", type=click.IntRange(8, 100_000), default=1000, show_default=True, help="Whose; the first has half."
)
@runs_option
@json_option
@pass_app
def command(app: App, jobs: int, tenants: int, runs: int, as_json: bool) -> None:
    """Measure a great many jobs that become due at once.

    Beside them a node settles and claims as fast as it can: how long its ticks take, against ticks with nothing beside
    them; and how long it takes until every tenant has a job that can be claimed. The limit beside it: one update of
    as many rows.
    """
    from batchproc.ops.bench.promotion import bench_promotion

    urls, status = begin(app)
    done = bench_promotion(app.settings, urls, jobs=jobs, tenants=tenants, runs=runs, tell=status.tell)
    plain = done.plain()
    show(
        plain,
        as_json,
        f"{plain['jobs_per_second']['median']:.0f} jobs/s promoted, {plain['ratio_to_bare_update']['median']:.2f} of a "
        f"bare update; every tenant's first after {plain['first_worst_seconds']['median']:.1f} s; beside it the 99th "
        f"of 100 ticks took {plain['p99_ratio']['median']:.2f} times as long as alone, the longest "
        f"{plain['longest_tick_ms']['median']:.0f} ms",
    )
