"""Which queues are served next: lanes by weight, tenants in turn, kinds in turn within a tenant.

Start-time fair queueing (P. Goyal, H. Vin, H. Cheng, 1996): every tenant has a start tag, the one with the
least is served and its tag moves on by 1 / weight. With equal weights that is round robin, exactly one job per
tenant a round. A tenant that comes back is given the present tag, so that an idle one saves up no credit.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from batchproc.core.job import Lane


class Queue(NamedTuple):
    """Jobs that are interchangeable but for priority and age."""

    lane: int
    tenant_id: int
    kind: str


class Turn(NamedTuple):
    """Claim up to ``jobs`` jobs of ``queue``; in one choice every queue occurs once at most."""

    queue: Queue
    jobs: int


@dataclass(slots=True)
class _Tenant:
    weight: float
    tag: float
    kinds: deque[str] = field(default_factory=deque)
    waiting: bool = False  # has an entry in the heap


class _LaneQueues:
    """The tenants of one lane, ordered by start tag and, for equal tags, by arrival in the round."""

    def __init__(self, lane: int) -> None:
        self.lane = lane
        self._tenants: dict[int, _Tenant] = {}
        self._heap: list[tuple[float, int, int]] = []  # start tag, arrival, tenant_id
        self._arrivals = 0
        self._virtual_time = 0.0

    def add(self, tenant_id: int, kind: str, weight: float) -> None:
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            tenant = self._tenants[tenant_id] = _Tenant(weight, self._virtual_time)
        tenant.weight = weight
        if kind not in tenant.kinds:
            tenant.kinds.append(kind)
        if not tenant.waiting:
            tenant.tag = max(tenant.tag, self._virtual_time)
            self._push(tenant_id, tenant)

    def remove(self, tenant_id: int, kind: str) -> None:
        tenant = self._tenants.get(tenant_id)
        if tenant is not None and kind in tenant.kinds:
            tenant.kinds.remove(kind)

    def next(self) -> Queue | None:
        """Takes one turn; None when no tenant has jobs."""
        while self._heap:
            tag, _, tenant_id = heapq.heappop(self._heap)
            tenant = self._tenants[tenant_id]
            tenant.waiting = False
            if not tenant.kinds:
                # Its tag is remembered while it lies ahead: coming back must not give a second turn in a round.
                if tag <= self._virtual_time:
                    del self._tenants[tenant_id]
                continue
            kind = tenant.kinds[0]
            tenant.kinds.rotate(-1)
            self._virtual_time = max(self._virtual_time, tag)
            tenant.tag = tag + 1.0 / tenant.weight
            self._push(tenant_id, tenant)
            return Queue(self.lane, tenant_id, kind)
        return None

    def queues(self) -> list[Queue]:
        return [Queue(self.lane, tenant, kind) for tenant, entry in self._tenants.items() for kind in entry.kinds]

    def _push(self, tenant_id: int, tenant: _Tenant) -> None:
        self._arrivals += 1
        tenant.waiting = True
        heapq.heappush(self._heap, (tenant.tag, self._arrivals, tenant_id))


class FairShare:
    """The queues that have jobs, and whose turn it is.

    Args:
        lane_weights: how many turns each lane gets of those that both could take; the debt is carried on.
    """

    def __init__(self, lane_weights: dict[int, float]) -> None:
        self._lanes = {lane: _LaneQueues(lane) for lane in sorted(lane_weights)}
        self._weights = dict(lane_weights)
        self._debt = dict.fromkeys(lane_weights, 0.0)

    def add(self, queue: Queue, weight: float = 1.0) -> None:
        """``queue`` has jobs. Its tenant joins at the end of the present round."""
        self._lanes[queue.lane].add(queue.tenant_id, queue.kind, weight)

    def remove(self, queue: Queue) -> None:
        """``queue`` came back empty."""
        self._lanes[queue.lane].remove(queue.tenant_id, queue.kind)

    def queues(self) -> list[Queue]:
        """Every queue that has jobs, in no particular order."""
        return [queue for lane in self._lanes.values() for queue in lane.queues()]

    def choose(self, free: int, *, bulk_room: int | None = None) -> list[Turn]:
        """Up to ``free`` turns, as distinct queues with counts.

        Args:
            free: slots that a job can be claimed for.
            bulk_room: how many of them the bulk lane may take (reserved slots); None for all.
        """
        counts: dict[Queue, int] = {}
        open_lanes = set(self._lanes)
        bulk_left = free if bulk_room is None else max(0, bulk_room)
        while sum(counts.values()) < free and open_lanes:
            if bulk_left == 0:
                open_lanes.discard(Lane.BULK)
                if not open_lanes:
                    break
            lane = self._lane_due(open_lanes)
            queue = self._lanes[lane].next()
            if queue is None:
                open_lanes.discard(lane)
                continue
            self._charge(lane, open_lanes)
            bulk_left -= lane == Lane.BULK
            counts[queue] = counts.get(queue, 0) + 1
        return [Turn(queue, count) for queue, count in counts.items()]

    def _lane_due(self, lanes: set[int]) -> int:
        return max(sorted(lanes), key=lambda lane: self._debt[lane] + self._weights[lane])

    def _charge(self, served: int, competing: set[int]) -> None:
        # Smooth weighted round robin; a lane that has nothing to serve gathers no debt.
        total = sum(self._weights[lane] for lane in competing)
        for lane in self._debt:
            if lane not in competing:
                self._debt[lane] = 0.0
            else:
                self._debt[lane] += self._weights[lane] - (total if lane == served else 0.0)
