"""``kinds``: list, set."""

from __future__ import annotations

from typing import Any

import click

from batchproc.cli.app import App, pass_app
from batchproc.cli.groups import JsonGroup
from batchproc.cli.output import emit_json, emit_rows, fields, json_option
from batchproc.core.errors import UsageError
from batchproc.core.rates import LARGEST_BURST, parse_rate, shown
from batchproc.queue.kind_store import KindStore

_COLUMNS = (
    "kind",
    "paused",
    "paused_at",
    "max_running",
    "declared_limit",
    "rate",
    "declared_rate",
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


def _rate(_: click.Context, __: click.Parameter, text: str | None) -> float | str | None:
    if text is None or text == "none":
        return text
    try:
        return parse_rate(text)
    except ValueError as error:
        raise UsageError(f"--rate {error}, or none") from None


def _readable(kind: dict[str, Any]) -> dict[str, Any]:
    """With rates as they are written: ``10/s``, and the burst behind it."""
    bursts = {"rate": kind["burst"], "declared_rate": kind["declared_burst"]}
    return kind | {
        name: None if kind[name] is None else shown(kind[name]) + ("" if burst is None else f", burst {burst}")
        for name, burst in bursts.items()
    }


@click.group(cls=JsonGroup)
def kinds() -> None:
    """List kinds, pause and resume them, limit how many of their jobs run and how fast they begin."""


@kinds.command("list")
@json_option
@pass_app
def list_kinds(app: App, as_json: bool) -> None:
    """List kinds: what is paused and why, limits and rates (max_running and rate are a person's, and go
    before the declared ones), and jobs that wait or run."""
    with app.connect() as connection:
        found = KindStore(app.schema).kinds(connection)
    emit_rows("kinds", found if as_json else [_readable(kind) for kind in found], _COLUMNS, None, as_json)


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
@click.option(
    "--rate",
    callback=_rate,
    metavar="N/s|N/m|N/h|N/d|none",
    help="Jobs of the kind that may begin in a time, over all nodes; goes before what its handler or the settings"
    " declare, and none goes back to that.",
)
@click.option(
    "--burst",
    type=click.IntRange(1, LARGEST_BURST),
    help="With --rate: how many may begin at once after a pause; default: those of a second.",
)
@json_option
@pass_app
def set_kind(
    app: App,
    kind: str,
    pause: bool,
    reason: str | None,
    resume: bool,
    limit: int | str | None,
    rate: float | str | None,
    burst: int | None,
    as_json: bool,
) -> None:
    """Change a kind; what is not given stays.

    \b
    batchproc kinds set ocr --pause --reason "the archive is moved tonight"
    batchproc kinds set ocr --resume
    batchproc kinds set classify --rate 600/m --burst 20
    """
    if pause and resume:
        raise UsageError("--pause and --resume exclude each other")
    if reason is not None and not pause:
        raise UsageError("--reason tells why a kind is paused", "give it together with --pause")
    if burst is not None and not isinstance(rate, float):
        raise UsageError("--burst belongs to a rate", "give it together with --rate")
    if not pause and not resume and limit is None and rate is None:
        raise UsageError("nothing was asked for", "give --pause, --resume, --limit or --rate")
    with app.connect() as connection:
        changed = KindStore(app.schema).set(
            connection,
            kind,
            paused=pause if pause or resume else None,
            reason=reason,
            max_running=limit if isinstance(limit, int) else None,
            unlimited=limit == "none",
            rate=rate if isinstance(rate, float) else None,
            burst=burst,
            unrated=rate == "none",
        )
    if as_json:
        emit_json(changed)
    else:
        fields(list(_readable(changed).items()))
