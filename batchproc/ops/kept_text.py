"""What waits until a person changes something, told to whoever runs jobs or looks how the nights go."""

from __future__ import annotations

from batchproc.core.counted import counted
from batchproc.core.shown_text import one_line
from batchproc.queue.nights import Kept

_REASON = 200


def kept_line(kept: Kept) -> str:
    """How many jobs it keeps, why, and the command with which it goes on."""
    if kept.campaign_id is not None:
        again = f"batchproc campaigns resume {kept.campaign_id}"
        return f"{counted(kept.jobs, 'job')} of campaign {kept.campaign_id} left: it is paused: {again}"
    if kept.tenant is not None:
        return f"{counted(kept.jobs, 'job')} of {kept.tenant} left: {_of_tenant(kept, kept.tenant)}"
    return f"{counted(kept.jobs, f'{kept.kind} job')} left: {_of_kind(kept)}"


def kept_name(kept: Kept) -> str:
    """What keeps them, in a few words: ``kind ocr is paused``."""
    if kept.campaign_id is not None:
        what = f"campaign {kept.campaign_id}"
    else:
        what = f"kind {kept.kind}" if kept.tenant is None else f"tenant {kept.tenant}"
    return f"{what} is paused" if kept.by == "paused" else f"{what} has a limit of 0"


def _of_tenant(kept: Kept, tenant: str) -> str:
    if kept.by == "limit":
        return f"the tenant has a limit of 0: batchproc tenants set {tenant} --max-running N"
    return f"the tenant is paused: batchproc tenants set {tenant} --resumed"


def _of_kind(kept: Kept) -> str:
    if kept.by == "limit":
        return f"the kind has a limit of 0: batchproc kinds set {kept.kind} --limit N"
    reason = f" ({one_line(kept.reason, _REASON)})" if kept.reason else ""
    return f"the kind is paused{reason}: batchproc kinds set {kept.kind} --resume"
