"""``bench enqueue``."""

from __future__ import annotations

import click

from batchproc.cli.benches.common import begin, runs_option, show
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.output import json_option


@click.command("enqueue")
@click.option("--jobs", type=click.IntRange(1, 1_000_000), default=20_000, show_default=True, help="Jobs in each run.")
@runs_option
@json_option
@pass_app
def command(app: App, jobs: int, runs: int, as_json: bool) -> None:
    """Measure enqueueing many jobs at once.

    They go through COPY in one transaction, by turns with bare COPY of the same rows into the same table.
    """
    from batchproc.ops.bench.enqueue import bench_enqueue

    urls, status = begin(app)
    plain = bench_enqueue(app.settings, urls, jobs=jobs, runs=runs, tell=status.tell).plain()
    show(
        plain,
        as_json,
        f"{plain['rows_per_second']} rows/s (median of {runs}), {plain['ratio_to_bare_copy']:.2f} of bare COPY "
        f"({plain['least']:.2f} to {plain['most']:.2f})",
    )
