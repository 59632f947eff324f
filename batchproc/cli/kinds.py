"""``kinds``: list, set."""

from __future__ import annotations

import click

from batchproc.cli.app import App, pass_app
from batchproc.cli.groups import JsonGroup
from batchproc.cli.output import emit_json, emit_rows, fields, json_option
from batchproc.core.errors import UsageError
from batchproc.queue.kind_store import KindStore

_COLUMNS = (
    "kind",
    "paused",
    "paused_at",
    "max_running",
    "declared_limit",
    "available",
    "scheduled",
    "running",
    "paused_reason",
)


def _limit(_: click.Context, __: click.Parameter, text: str | None) -> int | str | None:
    if text is None or text == "none":
        return text
    if not (text.isascii() and text.isdigit() and int(text) < 2**31):
        raise UsageError("--limit must be a number of jobs, or none")
    return int(text)


@click.group(cls=JsonGroup)
def kinds() -> None:
    """List kinds, pause and resume them, limit how many of their jobs run."""


@kinds.command("list")
@json_option
@pass_app
def list_kinds(app: App, as_json: bool) -> None:
    """List kinds: what is paused and why, limits (max_running is a person's, and goes before the
    declared one), and jobs that wait or run."""
    with app.connect() as connection:
        found = KindStore(app.schema).kinds(connection)
    emit_rows("kinds", found, _COLUMNS, None, as_json)


@kinds.command("set")
@click.argument("kind")
@click.option("--pause", is_flag=True, help="Claim none of its jobs, on no node; what runs may end.")
@click.option("--reason", metavar="TEXT", help="With --pause: why, for those who list the kinds.")
@click.option("--resume", is_flag=True, help="Claim its jobs again, whoever or whatever paused it.")
@click.option(
    "--limit",
    callback=_limit,
    metavar="N|none",
    help="Jobs of the kind that may run at once, over all nodes; goes before what its handler or the settings"
    " declare, and none goes back to that.",
)
@json_option
@pass_app
def set_kind(
    app: App, kind: str, pause: bool, reason: str | None, resume: bool, limit: int | str | None, as_json: bool
) -> None:
    """Change a kind; what is not given stays.

    \b
    batchproc kinds set ocr --pause --reason "the archive is moved tonight"
    batchproc kinds set ocr --resume
    """
    if pause and resume:
        raise UsageError("--pause and --resume exclude each other")
    if reason is not None and not pause:
        raise UsageError("--reason tells why a kind is paused", "give it together with --pause")
    if not pause and not resume and limit is None:
        raise UsageError("nothing was asked for", "give --pause, --resume or --limit")
    with app.connect() as connection:
        changed = KindStore(app.schema).set(
            connection,
            kind,
            paused=pause if pause or resume else None,
            reason=reason,
            max_running=limit if isinstance(limit, int) else None,
            unlimited=limit == "none",
        )
    if as_json:
        emit_json(changed)
    else:
        fields(list(changed.items()))
