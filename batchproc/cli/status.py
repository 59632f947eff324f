"""``status``: depth and age of the queues, nodes, totals."""

from __future__ import annotations

import click

from batchproc.cli.app import App, pass_app
from batchproc.cli.output import emit_json, json_option, shown, table
from batchproc.queue.inspection import Inspection

_QUEUE_COLUMNS = ("tenant", "kind", "lane", "available", "scheduled", "running", "oldest_seconds")
_NODE_COLUMNS = ("node_id", "host", "pid", "slots", "running", "alive", "started_at")


@click.command()
@json_option
@pass_app
def status(app: App, as_json: bool) -> None:
    """Show what waits, what runs, and which nodes there are."""
    inspection = Inspection(app.schema)
    with app.connect() as connection:
        queues = inspection.queues(connection)
        nodes = inspection.nodes(connection)
        totals = inspection.totals(connection)
    if as_json:
        emit_json({"queues": queues, "nodes": nodes, "totals": totals})
        return
    click.echo("  ".join(f"{state} {shown(jobs)}" for state, jobs in totals.items()))
    for columns, rows in ((_QUEUE_COLUMNS, queues), (_NODE_COLUMNS, nodes)):
        if rows:
            click.echo()
            table(columns, [[row[column] for column in columns] for row in rows])
