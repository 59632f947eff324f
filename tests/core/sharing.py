"""Short ways to a fair share and what it gives."""

from __future__ import annotations

from collections import Counter
from typing import Any

from batchproc.core.fairness import FairShare, Queue, Turn
from batchproc.core.job import Lane

WEIGHTS: dict[int, float] = {Lane.INTERACTIVE: 4, Lane.BULK: 1}


def bulk(tenant_id: int, kind: str = "work") -> Queue:
    return Queue(Lane.BULK, tenant_id, kind)


def urgent(tenant_id: int, kind: str = "work") -> Queue:
    return Queue(Lane.INTERACTIVE, tenant_id, kind)


def share_of(*queues: Queue, **weights: Any) -> FairShare:
    share = FairShare(weights.get("lanes", WEIGHTS))
    for queue in queues:
        share.add(queue)
    return share


def served(turns: list[Turn]) -> Counter[int]:
    """Jobs by tenant."""
    jobs: Counter[int] = Counter()
    for turn in turns:
        jobs[turn.queue.tenant_id] += turn.jobs
    return jobs


def one_by_one(share: FairShare, count: int) -> list[Queue]:
    sequence = []
    for _ in range(count):
        [turn] = share.choose(1)
        assert turn.jobs == 1
        sequence.append(turn.queue)
    return sequence
