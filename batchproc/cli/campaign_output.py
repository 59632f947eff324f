"""How a campaign is printed: as a row of the listing, and as a page of its own."""

from __future__ import annotations

from typing import Any

import click

from batchproc.cli.output import emit_json, figure, shown, table
from batchproc.core.durations import duration
from batchproc.core.failure_codes import BAD_CONTENT
from batchproc.core.job import JobState
from batchproc.ops import campaign_result
from batchproc.ops.campaign_progress import CampaignView
from batchproc.queue.campaign_listing import Campaign

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
        click.echo(f"{name:<{_NAMES}}{shown(value)}")
    for line in campaign_result.lines(view.result):
        click.echo(line)
    if view.failures:
        click.echo()
        failures = view.failures[:_FAILURES_SHOWN]
        table(_FAILURE_COLUMNS, [[each.tenant, each.kind, each.failure_code, each.jobs] for each in failures])
        if len(view.failures) > _FAILURES_SHOWN:
            click.echo(f"and {len(view.failures) - _FAILURES_SHOWN} more rows: see --json")
        if any(each.failure_code not in BAD_CONTENT for each in view.failures):
            click.echo(f"to try them again: batchproc campaigns retry {campaign.campaign_id}")


def _fields(view: CampaignView) -> list[tuple[str, Any]]:
    campaign = view.campaign
    return [
        ("campaign", f"{campaign.campaign_id}, {campaign.state}"),
        ("command", campaign.command),
        ("began", campaign.created_at),
        *([("cancelled", campaign.cancelled_at)] if campaign.cancelled_at else []),
        ("documents", _documents(campaign)),
        *([] if campaign.filled_at else [("", "its command goes on, or was cut short: then give it again")]),
        ("jobs", ", ".join(f"{campaign.jobs[state]:,} {state}" for state in JobState if campaign.jobs[state])),
        *_left(view),
    ]


def _documents(campaign: Campaign) -> str:
    text = f"{campaign.documents_done:,} of {campaign.documents:,} done ({campaign.progress:.0%})"
    return f"{text}, {campaign.documents_cancelled:,} cancelled" if campaign.documents_cancelled else text


def _left(view: CampaignView) -> list[tuple[str, str]]:
    if not view.campaign.documents_left:
        return []
    told = []
    work = "unknown: nothing like it was done lately" if view.worker_seconds is None else duration(view.worker_seconds)
    pages = f"{view.pages_left:,} pages, " if view.pages_left else ""
    told.append(("work left", f"{pages}{work}{' of one worker' if view.worker_seconds is not None else ''}"))
    if view.rate is not None:
        told.append(("rate", f"{figure(view.rate * 60)} documents a minute"))
    if view.campaign.paused:
        told.append(("time left", f"paused: batchproc campaigns resume {view.campaign.campaign_id}"))
    elif view.seconds_left is None:
        told.append(("time left", "unknown" if view.slots else "no node runs: batchproc run"))
    else:
        by = "as it goes now" if view.left_by == "rate" else f"with {view.slots} slots and nothing else to do"
        told.append(("time left", f"about {duration(view.seconds_left)}, {by}"))
    return told


def _plain(view: CampaignView) -> dict[str, Any]:
    return row_of(view.campaign) | {
        "jobs": {state.value: view.campaign.jobs[state] for state in JobState},
        "failures": [
            {"tenant": each.tenant, "kind": each.kind, "failure_code": each.failure_code, "jobs": each.jobs}
            for each in view.failures
        ],
        "pages_left": view.pages_left,
        "worker_seconds_left": view.worker_seconds,
        "slots": view.slots,
        "documents_per_minute": None if view.rate is None else view.rate * 60,
        "seconds_left": view.seconds_left,
        "seconds_left_by": view.left_by,
        "result": campaign_result.plain(view.result),
    }
