"""Whose turn it is among the tenants of one lane.

Start-time fair queueing (P. Goyal, H. Vin, H. Cheng, 1996): every tenant has a start tag, the one with the least is
served and its tag moves on by what the turn is charged / its weight. When each is charged the same that is round
robin, exactly one job per tenant a round.

A turn costs O(log tenants), whatever the number of queues.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from batchproc.core.queues import Queue
from batchproc.core.start_tags import Epoch, StartTag, amount

# Entries of the heap that hold no longer stay in it until they come up, or until they are more than all others and so
# many.
_MANY = 1000


class _Tenant:
    """``order`` decides among equal tags; ``listed``: its entry is in the heap."""

    __slots__ = ("listed", "order", "queues", "start", "tenant_id", "weight")

    def __init__(self, tenant_id: int, tag: int) -> None:
        self.tenant_id = tenant_id
        self.weight = 1.0
        self.start = StartTag(tag)
        self.order = 0
        self.listed = False
        self.queues: list[Queue] = []


@dataclass(slots=True)
class Charge:
    """What the turns of one queue in one choice are charged: ``amount`` each. ``order`` is the tenant's before them."""

    tenant: _Tenant
    epoch: Epoch
    amount: int
    weight: float
    order: int
    jobs: int = 0


class TenantTurns:
    """The tenants of one lane: those that have jobs, and those whose tag lies still ahead.

    Args:
        price: what a turn of a queue is charged when it is taken.
    """

    def __init__(self, price: Callable[[Queue], float]) -> None:
        self._price = price
        self._tenants: dict[int, _Tenant] = {}
        self._heap: list[tuple[int, int, int]] = []  # tag, order, tenant_id
        self._with_jobs = 0
        self._orders = 0
        self._now = 0  # the tag of the last turn
        self._first_orders: dict[int, int] = {}
        self._idle: list[_Tenant] = []  # those who would be next, had they jobs

    def begin_with(self, tenant_ids: Iterable[int]) -> None:
        """The order of the first round: these tenants, then whoever comes."""
        first = list(tenant_ids)
        self._first_orders = {tenant_id: place - len(first) for place, tenant_id in enumerate(first)}

    def add(self, queue: Queue, weight: float) -> None:
        """``queue`` has jobs. A tenant that had none comes in at the end of the present round."""
        tenant = self._tenants.get(queue.tenant_id)
        if tenant is None or not tenant.queues:
            tenant = self._joined(queue, weight)
        tenant.weight = weight
        if queue not in tenant.queues:
            self._with_jobs += not tenant.queues
            tenant.queues.append(queue)

    def remove(self, queue: Queue) -> None:
        """``queue`` has no jobs. Its tenant is remembered while its tag lies ahead, or may come to."""
        tenant = self._tenants.get(queue.tenant_id)
        if tenant is not None and queue in tenant.queues:
            tenant.queues.remove(queue)
            self._with_jobs -= not tenant.queues

    def next(self) -> Queue | None:
        """Whose turn it is; None when no tenant has jobs."""
        tenant = self._next_tenant()
        return None if tenant is None else tenant.queues[0]

    def open(self, queue: Queue) -> Charge:
        """The charge of the turns that are to be taken of a queue, none yet."""
        tenant = self._tenants[queue.tenant_id]
        due = self._amount(queue, tenant.weight)
        return Charge(tenant, tenant.start.epoch, due, tenant.weight, tenant.order)

    def take(self, charge: Charge) -> None:
        """Takes the turn that ``next`` told, and charges it."""
        tenant = charge.tenant
        self._now = max(self._now, tenant.start.value)
        self._forget_idle()
        tenant.start.charge(charge.amount)
        charge.jobs += 1
        if len(tenant.queues) > 1:
            tenant.queues.append(tenant.queues.pop(0))
        tenant.order = self._next_order()
        heapq.heapreplace(self._heap, (tenant.start.value, tenant.order, tenant.tenant_id))

    def take_back(self, charge: Charge, jobs: int) -> None:
        """So many of the turns gave no job: they cost nothing, and the tenant has its place in the round again."""
        self._correct(charge, -charge.amount * jobs, jobs, charge.order)

    def close(self, charge: Charge, jobs: int) -> None:
        """So many of the turns have cost what they were charged."""
        self._correct(charge, 0, jobs, charge.tenant.order)

    def correct(self, charge: Charge, cost: float) -> None:
        """One of the turns has cost that much."""
        due = amount(cost, charge.weight)
        self._correct(charge, due - charge.amount, 1, charge.tenant.order)
        # Where it was charged too little, time has gone on further than the turns taken since tell: whoever comes
        # back now is not given what others had meanwhile.
        self._now = max(self._now, charge.tenant.start.value - due)

    def _joined(self, queue: Queue, weight: float) -> _Tenant:
        tag = self._joining_tag(queue, weight)
        tenant = self._tenants.get(queue.tenant_id)
        if tenant is None:
            tenant = self._tenants[queue.tenant_id] = _Tenant(queue.tenant_id, tag)
            order = self._first_orders.pop(queue.tenant_id, None)
            self._list(tenant, self._next_order() if order is None else order)
            return tenant
        before = tenant.start.value
        tenant.start.lift(tag)
        if tenant.start.value != before or not tenant.listed:
            self._list(tenant, self._next_order())
        return tenant

    def _joining_tag(self, queue: Queue, weight: float) -> int:
        """Where a tenant comes in that has no tag ahead: at the present time, so that being idle gives no credit.

        Corrections may have moved the tags of those that have jobs apart from the time of the last turn. Then it comes
        in so that it has one turn before them, but never waits for one that has to catch up.
        """
        first = self._next_tenant()
        if first is None:
            return self._now
        least = first.start.value
        return min(least, max(self._now, least - self._amount(queue, weight)))

    def _next_tenant(self) -> _Tenant | None:
        while self._with_jobs:
            tag, order, tenant_id = self._heap[0]
            tenant = self._tenants.get(tenant_id)
            if tenant is not None and tenant.order == order and tenant.start.value == tag:
                if tenant.queues:
                    return tenant
                tenant.listed = False
                self._idle.append(tenant)
            heapq.heappop(self._heap)
        return None

    def _forget_idle(self) -> None:
        # Their tags are behind now: whoever comes back begins at the present anyhow. An open charge still matters.
        for tenant in self._idle:
            if not tenant.queues and not tenant.listed and not tenant.start.is_open:
                self._tenants.pop(tenant.tenant_id, None)
        self._idle.clear()

    def _correct(self, charge: Charge, difference: int, jobs: int, order: int) -> None:
        tenant = charge.tenant
        before = tenant.start.value, tenant.order
        tenant.start.correct(charge.epoch, difference, jobs)
        if (tenant.start.value, order) != before or not tenant.listed:
            self._list(tenant, order)

    def _list(self, tenant: _Tenant, order: int) -> None:
        tenant.order = order
        tenant.listed = True
        heapq.heappush(self._heap, (tenant.start.value, order, tenant.tenant_id))
        if len(self._heap) > 2 * len(self._tenants) + _MANY:
            listed = (each for each in self._tenants.values() if each.listed)
            self._heap = [(each.start.value, each.order, each.tenant_id) for each in listed]
            heapq.heapify(self._heap)

    def _next_order(self) -> int:
        self._orders += 1
        return self._orders

    def _amount(self, queue: Queue, weight: float) -> int:
        return amount(self._price(queue), weight)
