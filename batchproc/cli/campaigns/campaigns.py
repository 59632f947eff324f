"""``campaigns``: what was begun by one command, looked at, paused, resumed, cancelled and retried as a whole."""

from __future__ import annotations

from threading import Event
from typing import Any

import click
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.campaigns.output import print_campaign, row_of
from batchproc.cli.campaigns.revert import revert_campaign
from batchproc.cli.line.groups import JsonGroup
from batchproc.cli.shared.app import AFTER, ID, App, pass_app
from batchproc.cli.shared.asking import require_yes
from batchproc.cli.shared.exit_codes import left_over
from batchproc.cli.shared.filters import FailureCode
from batchproc.cli.shared.messages import say
from batchproc.cli.shared.output import emit_json, emit_rows, json_option, print_broken
from batchproc.cli.shared.terminal import StatusLine
from batchproc.config.loading import worker_count
from batchproc.core.counted import counted, waiting
from batchproc.engine.signals import stopping_signals
from batchproc.ops.campaign_progress import look_at
from batchproc.ops.campaigning import CampaignCancelled, Campaigning, Retried
from batchproc.queue.campaign_listing import CampaignListing

_COLUMNS = (
    "campaign_id",
    "state",
    "tenant",
    "documents",
    "done",
    "left",
    "cancelled",
    "failed",
    "created_at",
    "command",
)
_STOPPED = 130
_YES = click.option("--yes", is_flag=True, help="Do not ask, though it is more than 10 jobs.")


@click.group(cls=JsonGroup)
def campaigns() -> None:
    """What one command began (reprocess, import), as a whole.

    \b
    batchproc campaigns list
    batchproc campaigns show 7        how far it is, and what it made better
    batchproc campaigns pause 7       others go first; then: campaigns resume 7
    batchproc campaigns cancel 7      then perhaps retry or revert it
    """


@campaigns.command("list")
@click.option("--tenant", metavar="SLUG", help="Only those that chose this tenant's documents alone.")
@click.option("--after", type=AFTER, metavar="ID", help="Continue behind this campaign, with older ones.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Campaigns a page.")
@json_option
@pass_app
def list_campaigns(app: App, as_json: bool, limit: int, tenant: str | None, after: int | None) -> None:
    """List campaigns, the newest first.

    A document is done when no job of it waits or runs any more, and left otherwise; failed are the jobs that were given
    up on. In state waiting nothing of it runs now.
    """
    with app.connect() as connection:
        if tenant is not None:
            app.jobs.tenant(connection, tenant)
        found = CampaignListing(app.schema).page(connection, tenant=tenant, before=after, limit=limit + 1)
    following = found[limit - 1].campaign_id if len(found) > limit else None
    emit_rows("campaigns", [row_of(campaign) for campaign in found[:limit]], _COLUMNS, following, as_json)


@campaigns.command("show")
@click.argument("campaign_id", type=ID)
@json_option
@pass_app
def show_campaign(app: App, campaign_id: int, as_json: bool) -> None:
    """Show how far a campaign is, and how long the rest takes. It also tells what failed, and what became of
    the texts.

    The time left follows from how fast its documents came to an end in the last quarter of an hour, if a node runs and
    five or more did, over ten seconds at least. Otherwise it is as reprocess --dry-run estimates it: from the time
    that pages took in the last 30 days, with the workers of all nodes that run, or where none does with those of these
    settings.
    """
    with app.connect() as connection:
        print_campaign(look_at(connection, app.schema, campaign_id, workers=worker_count(app.settings)), as_json)


@campaigns.command("pause")
@click.argument("campaign_id", type=ID)
@json_option
@pass_app
def pause_campaign(app: App, campaign_id: int, as_json: bool) -> None:
    """Hold what of a campaign waits; what runs goes on.

    Whatever follows its jobs, or is added to it, is held too. A cancelled one cannot be paused.
    """
    with app.connect() as connection:
        held = app.jobs.hold(connection, campaign_id)
    if as_json:
        emit_json({"campaign_id": campaign_id, "held": held})
    else:
        print_broken(
            f"campaign {campaign_id}: {counted(held, 'job')} held; go on with: batchproc campaigns resume {campaign_id}"
        )


@campaigns.command("resume")
@click.argument("campaign_id", type=ID)
@json_option
@pass_app
def resume_campaign(app: App, campaign_id: int, as_json: bool) -> None:
    """Let a paused campaign go on where it was."""
    with app.connect() as connection:
        released = app.jobs.release(connection, campaign_id)
    if as_json:
        emit_json({"campaign_id": campaign_id, "released": released.jobs, "superseded": released.superseded})
        return
    print_broken(f"campaign {campaign_id}: {waiting(released.jobs)} again")
    if released.superseded:
        was, their = ("was", "its") if released.superseded == 1 else ("were", "their")
        print_broken(f"{released.superseded} {was} cancelled: another job does {their} work")


@campaigns.command("cancel")
@click.argument("campaign_id", type=ID)
@click.option("--dry-run", is_flag=True, help="Only say how many jobs it would be.")
@_YES
@json_option
@pass_app
def cancel_campaign(app: App, campaign_id: int, as_json: bool, dry_run: bool, yes: bool) -> int:
    """Cancel what of a campaign waits, and stop what runs.

    What was done stays done (campaigns revert brings the texts before it back); a command that still adds to the
    campaign ends. campaigns retry takes the cancel back. Stopped by Ctrl-C or a signal, it tells how many jobs are
    left; nodes that run go on with the cancel, and nothing of the campaign is begun any more.
    """
    status, stop = StatusLine(), Event()
    with app.connect() as connection:
        campaign = CampaignListing(app.schema).one(connection, campaign_id)
        if campaign.has_ended and not as_json and (campaign.state == "cancelled" or not campaign.documents_cancelled):
            print_broken(f"campaign {campaign_id} is {campaign.state}: there is nothing to cancel")
            return 0
        if dry_run:
            _tell_of_dry(campaign_id, campaign.jobs_left, "cancelled", as_json)
            return 0
        require_yes(campaign.jobs_left, "jobs", "cancelled", yes=yes)
        with stopping_signals(stop.set):
            done = Campaigning(app.jobs).cancel(
                connection,
                campaign_id,
                told=lambda count: status.show(f"{counted(count, 'job')} cancelled"),
                stopped=stop.is_set,
            )
        status.clear()
        _print_cancelled(campaign_id, done, as_json=as_json)
        if stop.is_set():
            return _tell_of_rest(app, connection, campaign_id)
    return left_over(done.requested, done.unwritten)


@campaigns.command("retry")
@click.argument("campaign_id", type=ID)
@click.option(
    "--failure-code",
    "failure_codes",
    type=FailureCode(),
    multiple=True,
    metavar="CODE",
    help="Only what was given up on with this code; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only say how many jobs it would be.")
@_YES
@json_option
@pass_app
def retry_campaign(
    app: App, campaign_id: int, as_json: bool, failure_codes: tuple[str, ...], dry_run: bool, yes: bool
) -> int:
    """Try again what of a campaign was given up on or cancelled. Its budgets are fresh.

    \b
    batchproc campaigns retry 7
    batchproc campaigns retry 7 --failure-code missing_language --dry-run

    Jobs that failed for their document's content (encrypted, too_large, unreadable_file, unsupported_type, empty_file)
    are left alone unless --failure-code names it: they would fail again.
    """
    status = StatusLine()
    work = Campaigning(app.jobs)
    with app.connect() as connection:
        found = work.retry(connection, campaign_id, failure_codes=failure_codes, dry=True)
        if not dry_run:
            require_yes(found.retried + found.held, "jobs", "retried", yes=yes)
            found = work.retry(
                connection,
                campaign_id,
                failure_codes=failure_codes,
                told=lambda count: status.show(f"{counted(count, 'job')} retried"),
            )
    status.clear()
    _print_retried(campaign_id, found, dry_run=dry_run, as_json=as_json)
    return left_over(found.unwritten)


campaigns.add_command(revert_campaign)


def _tell_of_dry(campaign_id: int, jobs: int, done: str, as_json: bool) -> None:
    if as_json:
        emit_json({"campaign_id": campaign_id, done: jobs, "dry_run": True})
    else:
        print_broken(f"campaign {campaign_id}: {counted(jobs, 'job')} would be {done}")


def _tell_of_rest(app: App, connection: Connection[TupleRow], campaign_id: int) -> int:
    left = CampaignListing(app.schema).one(connection, campaign_id).jobs_left
    say(
        f"stopped: {counted(left, 'job')} of the campaign {'is' if left == 1 else 'are'} left; give the command again"
        " to go on (nodes that run do, too)"
    )
    return _STOPPED


def _print_cancelled(campaign_id: int, done: CampaignCancelled, *, as_json: bool) -> None:
    if as_json:
        values = {"cancelled": done.cancelled, "requested": done.requested, "unwritten": done.unwritten}
        emit_json({"campaign_id": campaign_id, **values, "dry_run": False})
        return
    print_broken(f"campaign {campaign_id}: {counted(done.cancelled, 'job')} cancelled")
    if done.requested:
        was, their = ("was", "its") if done.requested == 1 else ("were", "their")
        told = f"{done.requested} {was} asked to stop, but {their} node has not done so yet: see batchproc status"
        print_broken(told)
    _tell_of_unwritten(done.unwritten)


def _tell_of_unwritten(jobs: int) -> None:
    if jobs:
        left = "is left: somebody holds its row" if jobs == 1 else "are left: somebody holds their rows"
        print_broken(f"{jobs} {left}; give the command again")


def _print_retried(campaign_id: int, found: Retried, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        values: dict[str, Any] = {
            "retried": found.retried,
            "held": found.held,
            "superseded": found.superseded,
            "unwritten": found.unwritten,
            "left_alone": dict(sorted(found.left_alone.items())),
        }
        emit_json({"campaign_id": campaign_id, **values, "dry_run": dry_run})
        return
    if found.retried or not found.held:
        again = f"{counted(found.retried, 'job')} would wait" if dry_run else waiting(found.retried)
        print_broken(f"campaign {campaign_id}: {again} again")
    if found.held:
        print_broken(
            f"campaign {campaign_id}: {counted(found.held, 'job')}"
            f" {'would be' if dry_run else 'is' if found.held == 1 else 'are'} held, as it is paused;"
            f" go on with: batchproc campaigns resume {campaign_id}"
        )
    if found.superseded:
        those = "it is: another job does its" if found.superseded == 1 else "they are: another job does their"
        print_broken(f"{found.superseded} left as {those} work")
    _tell_of_unwritten(found.unwritten)
    for code, count in sorted(found.left_alone.items()):
        they, them = ("it", "it") if count == 1 else ("they", "them")
        print_broken(f"{count} left alone: {they} failed as {code} (to try {them} all the same: --failure-code {code})")
