"""``status``: depth and age of the queues, slots, nodes, totals; once, again and again, or as a check."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from batchproc.cli.shared.ages import Age
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.filters import FiniteRange
from batchproc.cli.shared.output import broken, emit_json, figure, json_option, print_broken, shown, table
from batchproc.cli.status.check import CheckCommand, Checked, check
from batchproc.core.counted import counted
from batchproc.core.durations import duration
from batchproc.core.errors import UsageError
from batchproc.ops.watching_status import ended_since, told_rate
from batchproc.queue.inspection import Inspection
from batchproc.queue.inspection_live import LiveInspection

_QUEUE_COLUMNS = ("tenant", "kind", "lane", "available", "scheduled", "running", "oldest_seconds")
_SLOT_COLUMNS = ("host", "slot", "tenant", "kind", "job_id", "document_id", "progress", "time", "memory")
_NODE_COLUMNS = ("node_id", "host", "pid", "slots", "running", "alive", "jobs_per_minute", "started_at")


@click.command(cls=CheckCommand)
@click.option("--watch", "watches", is_flag=True, help="Draw it anew every few seconds, until q is typed.")
@click.option(
    "--interval", type=FiniteRange(0.2, 3600), default=2.0, show_default=True, help="With --watch: seconds between."
)
@click.option("--check", "checks", is_flag=True, help="For a monitoring system: one line, and its exit codes.")
@click.option(
    "--max-age",
    type=Age(),
    default="26h",
    show_default=True,
    metavar="DURATION",
    help="With --check: so old may the last night that went well be, and the longest wait.",
)
@click.option("--tenant", "tenants", multiple=True, metavar="SLUG", help="With --check: only this tenant. Repeatable.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="With --check: only this kind. Repeatable.")
@click.option("--lane", type=click.Choice(["interactive", "bulk"]), help="With --check: only this lane.")
@json_option
@pass_app
def status(
    app: App,
    as_json: bool,
    watches: bool,
    interval: float,
    checks: bool,
    max_age: timedelta,
    tenants: tuple[str, ...],
    kinds: tuple[str, ...],
    lane: str | None,
) -> int | None:
    """Show what waits, what runs, and which nodes there are.

    \b
    batchproc status                        now, from any machine
    batchproc status --watch                drawn anew every 2 s; q quits
    batchproc status --check --max-age 26h  exits as monitoring plugins do
    batchproc status --check --lane bulk    of nights that are for that lane

    A check looks at runs over everything that it is asked about. So one with --tenant, --kind or --lane, where the
    night has them, is checked with the same. --once and pilots are nobody's night. The longest wait leaves out what
    reprocess enqueued: that may take many nights.
    """
    if watches and (checks or as_json):
        raise UsageError("--watch draws on a terminal", "leave out --check and --json")
    if checks:
        return check(app, max_age, Checked(tenants, kinds, lane), as_json)
    if tenants or kinds or lane:
        raise UsageError("--tenant, --kind and --lane go with --check", "batchproc jobs list has them, too")
    if watches:
        from batchproc.cli.status import watch  # what draws costs a start more than what looks

        watch.require_terminal()
        watch.watch(app.schema, app.connect, interval)
    else:
        _show(app, as_json)
    return None


def _show(app: App, as_json: bool) -> None:
    inspection = Inspection(app.schema)
    with app.connect() as connection:
        queues = inspection.queues(connection)
        slots = LiveInspection(app.schema).slots(connection)
        nodes = inspection.nodes(connection)
        totals = inspection.totals(connection)
    rate = told_rate(nodes)
    if as_json:
        emit_json({"queues": queues, "slots": slots, "nodes": nodes, "totals": totals, "jobs_per_minute": rate})
        return
    # A state and its number stay on one line.
    for line in broken(
        "  ".join(f"{state}\N{NO-BREAK SPACE}{shown(jobs)}" for state, jobs in totals.items()), indent=0
    ):
        click.echo(line.replace("\N{NO-BREAK SPACE}", " "))
    if rate is not None:
        print_broken(f"{figure(rate)} jobs a minute, of the last minute")
    elif (seen := ended_since(nodes)) is not None:
        print_broken(f"{counted(seen.jobs, 'job')} ended in the {duration(seen.seconds)} since the first node began")
    for columns, rows in (
        (_QUEUE_COLUMNS, queues),
        (_SLOT_COLUMNS, [_slot(slot) for slot in slots]),
        (_NODE_COLUMNS, nodes),
    ):
        if rows:
            click.echo()
            table(columns, [[row[column] for column in columns] for row in rows])


def _slot(slot: dict[str, Any]) -> dict[str, Any]:
    progress, memory, seconds = slot["progress"], slot["resident_bytes"], slot["seconds"]
    return slot | {
        "progress": None if progress is None else f"{progress['done']} of {progress['total']}",
        "memory": f"{memory / 2**20:.0f} MiB" if memory else None,
        "time": None if seconds is None else duration(seconds),
    }
