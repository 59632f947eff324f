"""Notifications: a hint that a queue has jobs, never the only way to learn of them."""

from __future__ import annotations

import json

from batchproc.core.fairness import Queue
from batchproc.core.job import Lane
from batchproc.core.limits import CODE

REFRESH = "refresh"
# Somebody wants running jobs cancelled; an older node, which does not know the word, takes it for a refresh.
CANCEL = "cancel"
_LONGEST = 200  # characters; PostgreSQL refuses 8,000 bytes, and with it the transaction that notifies
_LARGEST_ID = 2**63 - 1


def channel(schema: str) -> str:
    """The notification channel of a schema: its name, which is as long as a channel's may be."""
    return schema


def hint(queue: Queue, priority: int) -> str:
    """A bounded payload that names one queue and the priority of what came."""
    payload = json.dumps([queue.lane, queue.tenant_id, queue.kind, priority])
    return payload if len(payload) <= _LONGEST else REFRESH


def parse(payload: str) -> Queue | None:
    """The queue that a payload names; None for "refresh" and for whatever cannot be read."""
    if len(payload) > _LONGEST:
        return None
    try:
        lane, tenant_id, kind, _ = json.loads(payload)
    except (ValueError, TypeError):
        return None
    if not (type(lane) is int and type(tenant_id) is int and isinstance(kind, str)):
        return None
    # What no row can hold would fail every claim that it is part of.
    possible = lane in tuple(Lane) and 0 < tenant_id <= _LARGEST_ID and CODE.match(kind)
    return Queue(lane, tenant_id, kind) if possible else None
