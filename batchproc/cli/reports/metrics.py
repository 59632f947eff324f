"""``metrics``: what the database says of the queue, for Prometheus, without a run."""

from __future__ import annotations

import click

from batchproc.cli.shared.app import App, pass_app
from batchproc.core.errors import EnvironmentFault, UsageError


@click.command()
@click.option("--write", is_flag=True, help="Write the file metrics.textfile instead of printing.")
@pass_app
def metrics(app: App, write: bool) -> None:
    """Print the queue's figures for Prometheus.

    They are jobs by lane, the oldest of them, pages, and the last success.

    \b
    batchproc metrics
    batchproc metrics --write     keeps metrics.textfile fresh, from cron

    What nodes have counted stands in the file that their runs write, or on their port; --write keeps it as it is.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    from batchproc.ops.metrics.exporting import connector
    from batchproc.ops.metrics.node_metrics import NodeMetrics
    from batchproc.ops.metrics.queue_metrics import QueueMetrics
    from batchproc.ops.metrics.textfile import Textfile

    with app.connect():  # an embedded server is started, and brought up to date
        pass
    queue = QueueMetrics(app.schema, connector(app.database_url))
    if not write:
        registry = CollectorRegistry()
        registry.register(queue)
        click.echo(generate_latest(registry).decode(), nl=False)
        return
    path = app.settings.metrics.textfile
    if path is None:
        raise UsageError("the settings name no file", "set metrics.textfile, or leave out --write")
    try:
        Textfile(path, NodeMetrics().registry, queue).write()
    except OSError as error:
        raise EnvironmentFault(
            f"metrics.textfile {path} cannot be written: {error.strerror}",
            "let the user of this command write into its folder",
        ) from None
