"""``usage``: what tenants have used, by day and kind."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import click

from batchproc.cli.shared.app import AFTER, App, pass_app
from batchproc.cli.shared.filters import require_kinds
from batchproc.cli.shared.output import emit_rows, json_option
from batchproc.core.durations import duration
from batchproc.core.errors import UsageError
from batchproc.queue.usage import GROUPS, Usage

_SUMS = ("attempts", "completed", "discarded", "pages", "pages_failed")
_DAYS = 30
_DATE = click.DateTime(["%Y-%m-%d"])


@click.command()
@click.option("--tenant", metavar="SLUG", help="Only this tenant's.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind's; repeatable.")
@click.option("--since", type=_DATE, metavar="DATE", help=f"From this day on; default: the last {_DAYS} days.")
@click.option("--until", type=_DATE, metavar="DATE", help="Up to this day.")
@click.option(
    "--by",
    type=click.Choice(GROUPS),
    multiple=True,
    default=GROUPS,
    help="What gets a row of its own; repeatable; default: each day, tenant and kind.",
)
@click.option("--after", type=AFTER, default=0, metavar="N", help="Continue behind so many rows.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Rows a page.")
@json_option
@pass_app
def usage(
    app: App,
    tenant: str | None,
    kinds: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    by: tuple[str, ...],
    after: int,
    limit: int,
    as_json: bool,
) -> None:
    """Show what tenants used: jobs, pages and seconds of workers. The newest day comes first.

    \b
    batchproc usage --by tenant --since 2026-11-01 --until 2026-11-30
    batchproc usage --by day --by kind --tenant acme
    batchproc usage --by tenant --json

    Days are those of UTC. These sums are kept when jobs are pruned.
    """
    first, last = _days(since, until)
    with app.connect() as connection:
        tenant_id = app.jobs.tenant(connection, tenant).tenant_id if tenant is not None else None
        require_kinds(app, connection, kinds)
        found = Usage(app.schema).rows(
            connection,
            by=by,
            since=first,
            until=last,
            tenant_id=tenant_id,
            kinds=kinds,
            after=after,
            limit=limit + 1,
        )
    following = after + limit if len(found) > limit else None
    rows = [_row(row, by) for row in found[:limit]]
    if not as_json:
        rows = [row | {"time": duration(row["worker_seconds"])} for row in rows]
    columns = [name for name in GROUPS if name in by] + [*_SUMS, "worker_seconds" if as_json else "time"]
    emit_rows("usage", rows, columns, following, as_json)


def _days(since: datetime | None, until: datetime | None) -> tuple[date, date]:
    last = until.date() if until is not None else date.max
    if since is not None:
        first = since.date()
    else:
        newest = until.date() if until is not None else datetime.now(UTC).date()
        first = date.fromordinal(max(date.min.toordinal(), newest.toordinal() - (_DAYS - 1)))
    if first > last:
        raise UsageError(f"--since {first} is after --until {last}", "give the earlier day to --since")
    return first, last


def _row(row: dict[str, Any], by: tuple[str, ...]) -> dict[str, Any]:
    """A row of the listing; of the groups only those that it is made by."""
    shown = {name: value for name, value in row.items() if name not in GROUPS or name in by}
    pages = sum(row[f"pages_{outcome}"] for outcome in ("text", "ocr", "blank", "failed"))
    return shown | {"pages": pages, "worker_seconds": round(row["worker_seconds"], 3)}
