"""``kinds``: list, show, set, forget."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import click

from batchproc.cli.line.groups import JsonGroup
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.messages import say
from batchproc.cli.shared.output import emit_json, emit_rows, fields, json_option, print_broken, table
from batchproc.cli.shared.output import shown as told
from batchproc.core.errors import UsageError
from batchproc.core.rates import LARGEST_BURST, parse_rate, shown
from batchproc.core.shown_text import one_line
from batchproc.handlers.registry import Handler
from batchproc.ops.kind_options import kind_options, readable
from batchproc.queue.kind_store import NEVER_RUN, KindStore

_COLUMNS = ("kind", "timeout", "limit", "rate", "waiting", "running", "paused", "handler")


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


def _handlers(app: App) -> Mapping[str, Handler]:
    """The kinds of these settings; none, with a warning, where a module of them cannot be imported: what is paused can
    be seen all the same."""
    try:
        return app.registry
    except UsageError as error:
        say(f"warning: {one_line(str(error))}")
        return {}


def _plain(app: App, name: str, found: Mapping[str, dict[str, Any]], handlers: Mapping[str, Handler]) -> dict[str, Any]:
    """A kind under its stable keys. One that has never run has the defaults of its row."""
    row, entry = found.get(name), handlers.get(name)
    options = kind_options(entry, app.settings, row) if entry is not None else []
    return {
        **NEVER_RUN,
        "kind": name,
        **(row or {}),
        "handler": entry and entry.place,
        "options": {option.name: {"value": option.value, "from": option.source} for option in options},
    }


def _row(name: str, kind: dict[str, Any] | None, entry: Handler | None) -> dict[str, Any]:
    """A line of the listing, within the 80 cells of a terminal."""
    row = {**NEVER_RUN, "kind": name, **(kind or {})}
    limit, rate = row["max_running"], row["rate"]
    declared_limit = row["declared_limit"] if entry is None else entry.spec.limit
    declared_rate = row["declared_rate"] if entry is None else entry.spec.rate
    readable_row = _readable(row)
    return {
        "kind": name,
        "timeout": None if entry is None else f"{entry.spec.timeout:g} s",
        "limit": f"{limit}*" if limit is not None else declared_limit,
        "rate": f"{readable_row['rate']}*" if rate is not None else declared_rate and shown(declared_rate),
        "waiting": row["available"] + row["scheduled"],
        "running": row["running"],
        "paused": (row["paused_reason"] or "yes") if row["paused"] else None,
        "handler": None if entry is None else entry.place,
    }


def _readable(kind: Mapping[str, Any]) -> dict[str, Any]:
    """With rates as they are written: ``10/s``, and the burst behind it."""
    bursts = {"rate": kind["burst"], "declared_rate": kind["declared_burst"]}
    return dict(kind) | {
        name: None if kind[name] is None else shown(kind[name]) + ("" if burst is None else f", burst {burst}")
        for name, burst in bursts.items()
    }


@click.group(cls=JsonGroup)
def kinds() -> None:
    """List kinds, pause, resume and limit them. Limits say how many of their jobs run, and how fast
    they begin.

    \b
    batchproc kinds list       limits, what is paused, what waits
    batchproc kinds show ocr   every option, and where it comes from
    batchproc kinds set ocr --limit 8
    """


@kinds.command("list")
@json_option
@pass_app
def list_kinds(app: App, as_json: bool) -> None:
    """List kinds: their limits, what is paused and why, their jobs. It also tells handlers, timeouts and rates.

    A star marks a limit or rate that a person has set, which goes before what the handler or the settings declare.

    \b
    batchproc kinds list
    batchproc kinds list --json | jq -r '.kinds[] | select(.paused) | .kind'
    """
    with app.connect() as connection:
        found = {kind["kind"]: kind for kind in KindStore(app.schema).kinds(connection)}
    handlers = _handlers(app)
    names = sorted({*found, *handlers})
    if as_json:
        emit_json({"kinds": [_plain(app, name, found, handlers) for name in names], "next": None})
        return
    rows = [_row(name, found.get(name), handlers.get(name)) for name in names]
    emit_rows("kinds", rows, _COLUMNS, None, as_json)


@kinds.command("show")
@click.argument("kind")
@json_option
@pass_app
def show_kind(app: App, kind: str, as_json: bool) -> None:
    """Show every option of a kind, and where it comes from.

    That is, the strongest first: "kinds set", done by a person and stored in the database; the settings, under kinds;
    its handler; the settings, under retry; and what holds by default.

    \b
    batchproc kinds show ocr
    batchproc kinds show ocr --json | jq .options.timeout
    """
    with app.connect() as connection:
        found = {row["kind"]: row for row in KindStore(app.schema).kinds(connection, kind)}
    handlers = _handlers(app)
    if kind not in found and kind not in handlers:
        raise UsageError(f"there is no kind {kind!r}", "see: batchproc kinds list")
    if as_json:
        emit_json(_plain(app, kind, found, handlers))
        return
    entry, row = handlers.get(kind), found.get(kind)
    fields(list((_readable(row) if row is not None else {"kind": kind}).items()))
    click.echo()
    if entry is None:
        click.echo("no handler of it is known here: its options are those of the node that has one")
        return
    fields([("handler", entry.place), ("args", list(entry.args_model.model_fields))])
    click.echo()
    options = kind_options(entry, app.settings, row)
    *options, codes = sorted(options, key=lambda option: option.name == "failure_codes")
    table(("option", "value", "from"), [(option.name, readable(option), option.source) for option in options])
    click.echo()
    click.echo(textwrap.fill("failure_codes: " + (", ".join(codes.value) or "none"), 80))


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
@click.option("--unlimited", is_flag=True, help="The same as --limit none.")
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
    unlimited: bool,
    rate: float | str | None,
    burst: int | None,
    as_json: bool,
) -> None:
    """Change a kind; what is not given stays. Prints what changed, with --json the kind as it is now.

    It may be one that no run has had yet, if these settings have its handler.

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
    if unlimited and isinstance(limit, int):
        raise UsageError("--unlimited and --limit exclude each other")
    if not pause and not resume and limit is None and not unlimited and rate is None:
        raise UsageError("nothing was asked for", "give --pause, --resume, --limit, --unlimited or --rate")
    store, entry = KindStore(app.schema), _handlers(app).get(kind)
    with app.connect() as connection:
        before = store.kinds(connection, kind)
        changed = store.set(
            connection,
            kind,
            paused=pause if pause or resume else None,
            reason=reason,
            max_running=limit if isinstance(limit, int) else None,
            unlimited=unlimited or limit == "none",
            rate=rate if isinstance(rate, float) else None,
            burst=burst,
            unrated=rate == "none",
            handled=None if entry is None else entry.spec,
        )
    if as_json:
        emit_json(changed)
    else:
        _tell_changes(_readable({**NEVER_RUN, **before[0]} if before else NEVER_RUN), _readable(changed))


@kinds.command("forget")
@click.argument("kind")
@json_option
@pass_app
def forget_kind(app: App, kind: str, as_json: bool) -> None:
    """Forget a kind whose handler is gone for good.

    \b
    batchproc kinds forget export

    What "kinds set" has set of it goes with it. Only one that no job is of, one that is over neither, and that no
    running node and none of these settings' handlers know: those would make it known again. A prune --kind of it that
    somebody gives each night goes on, with a warning.
    """
    if kind in _handlers(app):
        raise UsageError(f"these settings have a handler of kind {kind}", "take its module out of handlers first")
    with app.connect() as connection:
        KindStore(app.schema).forget(connection, kind)
    if as_json:
        emit_json({"kind": kind, "forgotten": True})
    else:
        print_broken(f"kind {kind} is forgotten")


_SET = ("paused", "paused_code", "paused_reason", "max_running", "rate")
"""What a person can change; how long it is paused and how many jobs wait changes by itself."""


def _tell_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    changes = [
        (name, f"{told(after[name])} (before: {told(before[name])})") for name in _SET if before[name] != after[name]
    ]
    fields([("kind", after["kind"]), *(changes or [("", "as it was before")])])
