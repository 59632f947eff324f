"""``batchproc db``: the embedded PostgreSQL of this home folder."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click
import psycopg

from batchproc.cli.line.global_options import GlobalOptions
from batchproc.cli.line.groups import JsonGroup
from batchproc.cli.shared.app import App, app_for, pass_app
from batchproc.cli.shared.output import emit_json, fields, json_option, print_broken
from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.database import connect
from batchproc.embedded import EmbeddedServer, default_home
from batchproc.queue.inspection import Inspection

_ASK_SECONDS = 5
_NAMED = 3
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=JsonGroup)
@click.pass_obj
def db(given: GlobalOptions) -> None:
    """Start, stop, look into and back up the embedded PostgreSQL.

    It is used when no database.url is set, started when needed, and keeps running between commands.
    """
    # The command's own App is made when its line is read to the end: -v and -q may stand there.
    if not app_for(given).is_embedded:
        raise UsageError(
            "a database URL is configured, and `db` is for the embedded PostgreSQL alone",
            "use psql and pg_dump with that URL, or leave out database.url",
        )


@db.command()
def start() -> None:
    """Start it; at first, make it."""
    server = _server()
    server.start()
    click.echo(f"running: {server.url}")


@db.command()
@click.option(
    "--mode",
    type=click.Choice(["smart", "fast", "immediate"]),
    default="fast",
    show_default=True,
    help="Wait for clients, end their transactions, or crash.",
)
@click.option(
    "--force", is_flag=True, help="Also while a run goes on, which then gives up after database.outage_limit."
)
@pass_app
def stop(app: App, mode: Literal["smart", "fast", "immediate"], force: bool) -> None:
    """Stop it and wait until it has ended. Refused while a run goes on, which would fail in the end."""
    server = _server()
    if not force:
        _refuse_while_in_use(server, app.schema)
    click.echo("stopped" if server.stop(mode) else "not running")


def _refuse_while_in_use(server: EmbeddedServer, schema: str) -> None:
    """Raises UsageError when a node has a living lease in it."""
    if server.status().state != "ready":
        return
    try:
        with connect(server.url, connect_timeout=_ASK_SECONDS, patience=_ASK_SECONDS) as connection:
            living = [node for node in Inspection(schema).nodes(connection) if node["alive"]]
    except (psycopg.Error, EnvironmentFault):
        return  # without tables nobody works in it; and one that does not answer may be stopped
    if living:
        named = ", ".join(f"process {node['pid']} on {node['host']}" for node in living[:_NAMED])
        raise UsageError(
            f"{len(living)} run{'s are' if len(living) > 1 else ' is'} using the database ({named})",
            "wait for the end, or stop it with --force",
        )


@db.command()
@json_option
def status(as_json: bool) -> None:
    """Show whether it runs, and where it keeps its things."""
    found = _server().status()
    shown = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(found).items()}
    if as_json:
        emit_json(shown)
        return
    known = [(key, value) for key, value in shown.items() if key != "running" and value is not None]
    fields([(key.replace("_", " "), value) for key, value in known])


@db.command()
def url() -> None:
    """Print its connection URL."""
    click.echo(_server().url)


@db.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def psql(arguments: tuple[str, ...]) -> None:
    """Open a session in psql, which gets ARGUMENTS."""
    server = _server()
    server.start()
    command = [*server.psql_command(), *arguments]
    os.execv(command[0], command)  # noqa: S606  # no shell is wanted


@db.command()
@click.argument("file", type=_FILE)
def dump(file: Path) -> None:
    """Write the whole database to FILE (for pg_restore)."""
    server = _server()
    server.start()
    server.dump(file)
    print_broken(f"dumped to {file} ({file.stat().st_size} bytes)")


@db.command()
@click.argument("file", type=_FILE)
@click.option("--clean", is_flag=True, help="Replace all that the database holds.")
def restore(file: Path, clean: bool) -> None:
    """Fill the database from FILE. When that fails, it is as before."""
    server = _server()
    server.start()
    server.restore(file, clean=clean)
    click.echo(f"restored from {file}")


def _server() -> EmbeddedServer:
    return EmbeddedServer(default_home(os.environ))
