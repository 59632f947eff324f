"""``bench simulate``."""

from __future__ import annotations

import click

from batchproc.cli.benches.common import begin, show
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.filters import FiniteRange
from batchproc.cli.shared.output import json_option
from batchproc.config import cpus_available


@click.command("simulate")
@click.option("--nodes", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="Nodes.")
@click.option("--slots", type=click.IntRange(1, 1000), default=64, show_default=True, help="Jobs at a time on each.")
@click.option("--tenants", type=click.IntRange(1, 10_000_000), default=100_000, show_default=True, help="Tenants.")
@click.option(
    "--documents", type=click.IntRange(1, 10**10), default=50_000_000, show_default=True, help="Documents of them all."
)
@click.option("--cores", type=FiniteRange(0.1, 1024), help="Of the database's server; default: those here.")
@click.option("--window", type=FiniteRange(1, 3600), default=8.0, show_default=True, help="Seconds simulated of each.")
@click.option(
    "--queues",
    type=click.IntRange(1, 100_000),
    default=10_000,
    show_default=True,
    help="Ready while costs are measured.",
)
@click.option(
    "--seconds", type=FiniteRange(0.01, 60), default=2.0, show_default=True, help="For which each is measured."
)
@json_option
@pass_app
def command(
    app: App,
    nodes: int,
    slots: int,
    tenants: int,
    documents: int,
    cores: float | None,
    window: float,
    queues: int,
    seconds: float,
    as_json: bool,
) -> None:
    """Simulate an archive far larger than this machine.

    What the database's work costs is measured here. With that, nodes are simulated that read documents without end,
    event by event, with the product's own choice of tenants: first fewer nodes, then all of them, then with one remedy
    after the other. docs/scale.md says what is modelled, and what is not.
    """
    from batchproc.ops.bench.figures import counted
    from batchproc.ops.bench.simulate import bench_simulate
    from batchproc.ops.bench.simulation_load import Load

    urls, status = begin(app)
    done = bench_simulate(
        app.settings,
        urls,
        nodes=nodes,
        slots=slots,
        load=Load(tenants, documents),
        cores=cores or cpus_available(),
        window=window,
        queues=queues,
        seconds=seconds,
        tell=status.tell,
    )
    plain = done.plain()
    show(
        plain,
        as_json,
        f"{plain['claims_per_second_needed']} claims/s keep {nodes} x {slots} slots busy, and ask for "
        f"{plain['core_seconds_per_second_needed']} cores of the database as it is; it has "
        f"{plain['database_cores']:g}, which serve {counted(plain['nodes_of_one_database'], 'such node')} as it is and "
        f"{plain['nodes_of_one_database_with_all']} with all remedies. All documents take {plain['night_hours']} h; "
        f"half of the tenants are done after {plain['half_of_tenants_done_after_hours']} h",
    )
