"""``bench parent``."""

from __future__ import annotations

import click

from batchproc.cli.benches.common import begin, runs_option, show
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.filters import FiniteRange
from batchproc.cli.shared.output import json_option


@click.command("parent")
@click.option("--slots", type=click.IntRange(1, 256), default=64, show_default=True, help="Jobs at a time.")
@click.option("--seconds", type=FiniteRange(0.2, 600), default=10.0, show_default=True, help="Of each measurement.")
@runs_option
@json_option
@pass_app
def command(app: App, slots: int, seconds: float, runs: int, as_json: bool) -> None:
    """Measure how much of a processor the node takes for itself.

    Its workers sleep for 100 ms in each job. In cores, which are processor seconds a second: the node with all of its
    threads, its dispatcher alone, the same number of bare pebble pools kept as busy, and the node's pool while idle.
    """
    from batchproc.ops.bench.parent import bench_parent

    urls, status = begin(app)
    plain = bench_parent(app.settings, urls, slots=slots, seconds=seconds, runs=runs, tell=status.tell).plain()
    show(
        plain,
        as_json,
        f"{plain['node_cores']:.2f} cores (median of {runs}) for {plain['jobs_per_second']:.0f} jobs/s on {slots} "
        f"slots, of which {plain['dispatcher_cores']:.2f} for the dispatcher; the bare pools "
        f"{plain['pools_cores']:.2f} for {plain['pools_jobs_per_second']:.0f} jobs/s, the idle pool "
        f"{plain['idle_cores']:.2f}",
    )
