"""Notifications: a hint that a queue has jobs, never the only way to learn of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from batchproc.core.fairness import Queue
from batchproc.core.job import Lane
from batchproc.core.limits import CODE

REFRESH = "refresh"
# Somebody wants running jobs cancelled; an older node, which does not know the word, takes it for a refresh.
CANCEL = "cancel"
_LONGEST = 200  # characters; PostgreSQL refuses 8,000 bytes, and with it the transaction that notifies
_MOST_QUEUES = 8  # one read of all ready queues costs less than many hints
_LARGEST_ID = 2**63 - 1


class Hint(NamedTuple):
    """A queue that has jobs, and the priority of what came into it; None where that is not known."""

    queue: Queue
    priority: int | None = None


def channel(schema: str) -> str:
    """The notification channel of a schema: its name, which is as long as a channel's may be."""
    return schema


def hint(queue: Queue, priority: int) -> str:
    """A bounded payload that names one queue and the priority of what came."""
    payload = json.dumps([queue.lane, queue.tenant_id, queue.kind, priority])
    return payload if len(payload) <= _LONGEST else REFRESH


def of_batch(priorities: Mapping[Queue, int], *, refresh: bool = False) -> list[str]:
    """What is told of many jobs: each queue with the lowest priority in it, or of many queues only "refresh".

    Args:
        refresh: whether there is more than these queues tell.
    """
    if refresh or len(priorities) > _MOST_QUEUES:
        return [REFRESH]
    return sorted({hint(queue, priority) for queue, priority in priorities.items()})


def parse(payload: str) -> Hint | None:
    """What a payload tells; None for "refresh" and for whatever cannot be read."""
    if len(payload) > _LONGEST:
        return None
    try:
        lane, tenant_id, kind, priority = json.loads(payload)
    except (ValueError, TypeError):
        return None
    if not (type(lane) is int and type(tenant_id) is int and isinstance(kind, str)):
        return None
    # What no row can hold would fail every claim that it is part of.
    possible = lane in tuple(Lane) and 0 < tenant_id <= _LARGEST_ID and CODE.match(kind)
    return Hint(Queue(lane, tenant_id, kind), priority if type(priority) is int else None) if possible else None
