"""How a campaign is printed: as a row of the listing, and as a page of its own."""

from __future__ import annotations

from typing import Any

import click

from batchproc.cli.shared.output import broken, emit_json, figure, print_broken, shown, table
from batchproc.core.counted import counted
from batchproc.core.durations import duration
from batchproc.core.failure_codes import BAD_CONTENT
from batchproc.core.job import JobState
from batchproc.core.throughput import per
from batchproc.ops import campaign_result
from batchproc.ops.campaign_progress import CampaignView
from batchproc.queue.campaign_listing import Campaign, Pace

_FAILURES_SHOWN = 12
# As wide as those of the lines that tell of the result.
_NAMES = 14
_FAILURE_COLUMNS = ("tenant", "kind", "failure_code", "jobs")


def row_of(campaign: Campaign) -> dict[str, Any]:
    """The campaign under the keys that both listing and page have."""
    return {
        "campaign_id": campaign.campaign_id,
        "state": campaign.state,
        "tenant": campaign.tenant,
        "kind": campaign.kind,
        "documents": campaign.documents,
        "done": campaign.documents_done,
        "left": campaign.documents_left,
        "cancelled": campaign.documents_cancelled,
        "failed": campaign.failed,
        "progress": round(campaign.progress, 4),
        "paused": campaign.paused,
        "created_at": campaign.created_at,
        "filled_at": campaign.filled_at,
        "cancelled_at": campaign.cancelled_at,
        "command": campaign.command,
    }


def print_campaign(view: CampaignView, as_json: bool) -> None:
    """Prints the campaign's page."""
    if as_json:
        emit_json(_plain(view))
        return
    campaign = view.campaign
    for name, value in _fields(view):
        for line in broken(f"{name:<{_NAMES}}{shown(value)}", indent=_NAMES):
            click.echo(line)
    for line in campaign_result.lines(view.result):
        print_broken(line)
    if view.failures:
        click.echo()
        failures = view.failures[:_FAILURES_SHOWN]
        table(_FAILURE_COLUMNS, [[each.tenant, each.kind, each.failure_code, each.jobs] for each in failures])
        if len(view.failures) > _FAILURES_SHOWN:
            print_broken(f"and {len(view.failures) - _FAILURES_SHOWN} more rows: see --json")
        if any(each.failure_code not in BAD_CONTENT for each in view.failures):
            print_broken(f"to try them again: batchproc campaigns retry {campaign.campaign_id}")


def _fields(view: CampaignView) -> list[tuple[str, Any]]:
    campaign = view.campaign
    return [
        ("campaign", f"{campaign.campaign_id}, {campaign.state}"),
        ("command", campaign.command),
        ("began", campaign.created_at),
        *([("cancelled", campaign.cancelled_at)] if campaign.cancelled_at else []),
        ("documents", _documents(campaign)),
        *([] if campaign.filled_at else [("", "its command goes on, or was cut short: then give it again")]),
        ("jobs", _jobs(campaign)),
        *_left(view),
    ]


def _documents(campaign: Campaign) -> str:
    text = f"{campaign.documents_done:,} of {campaign.documents:,} done ({campaign.progress:.0%})"
    return f"{text}, {campaign.documents_cancelled:,} cancelled" if campaign.documents_cancelled else text


def _jobs(campaign: Campaign) -> str:
    told = ", ".join(f"{campaign.jobs[state]:,} {state}" for state in JobState if campaign.jobs[state])
    if not told:
        # Of what a prune of an older release deleted nothing was kept.
        return "all pruned" if campaign.documents else "none"
    return f"{told} ({campaign.pruned:,} of them pruned)" if campaign.pruned else told


def _left(view: CampaignView) -> list[tuple[str, str]]:
    if not view.campaign.documents_left:
        return []
    first, *more = view.left.work()
    told = [("work left", first), *(("", line) for line in more)]
    if view.pace is not None:
        told.append(("rate", _rate(view.pace)))
    if view.campaign.paused:
        return [*told, ("time left", f"paused: batchproc campaigns resume {view.campaign.campaign_id}")]
    if view.left_by == "rate" and view.seconds_left is not None:
        return [*told, ("time left", f"about {duration(view.seconds_left)}, as it goes now")]
    told.append(("time left", view.left.time() or "unknown"))
    return told if view.slots else [*told, ("", "no node runs: batchproc run")]


def _rate(pace: Pace) -> str:
    a_minute = per(60, *pace)
    if a_minute is None:
        return f"{counted(pace.documents, 'document')} in {duration(pace.seconds)}"
    return f"{figure(a_minute)} documents a minute"


def _plain(view: CampaignView) -> dict[str, Any]:
    return row_of(view.campaign) | {
        "jobs": {state.value: view.campaign.jobs[state] for state in JobState},
        "jobs_pruned": view.campaign.pruned,
        "failures": [
            {"tenant": each.tenant, "kind": each.kind, "failure_code": each.failure_code, "jobs": each.jobs}
            for each in view.failures
        ],
        "pages_left": view.left.pages,
        "pages_unknown": view.left.pages_unknown,
        "worker_seconds_left": view.left.worker_seconds,
        "slots": view.slots,
        "workers": view.left.workers,
        "documents_per_minute": None if view.pace is None else per(60, *view.pace),
        "seconds_left": view.seconds_left,
        "seconds_left_by": view.left_by,
        "result": campaign_result.plain(view.result),
    }
