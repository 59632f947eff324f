"""``migrate``: brings the database's schema up to date."""

from __future__ import annotations

import click

from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.output import emit_json, json_option
from batchproc.database import connect
from batchproc.queue import migrate as migrations


@click.command()
@json_option
@pass_app
def migrate(app: App, as_json: bool) -> None:
    """Apply the migrations that the database lacks. Behind a transaction pooler set database.direct_url."""
    with connect(app.direct_url) as connection:
        applied = migrations.apply(connection, app.schema)
    names = [f"{migration.version:04}_{migration.name}" for migration in applied]
    if as_json:
        emit_json({"applied": names})
    else:
        click.echo("\n".join(f"applied {name}" for name in names) or "nothing to do: the database is up to date")
