"""Kinds and tenants at their limit, and kinds without a token: how many of their queues may be chosen.

A queue whose kind or tenant has no room gives nothing however often it is tried, and there may be ten thousand of them.
So once a kind (or a tenant) was found without room, no more of its queues are left in the choice than it has room for,
in each lane; the others are parked, and cost nothing. Whatever frees room lets as many out: an end of one of its jobs
here, the time of the next token, or a look at the database, which sees what ended elsewhere.

Who is let out of a kind has its jobs, so that it is here that its tenants share what the limit leaves, by their weights
or their seconds as in the choice itself: each queue has a start tag among those of its kind and lane, that moves on by
what its jobs are charged, and the least is next. It is not the tenant's tag in the choice. That goes with the time of
kinds without a limit: either it would be lifted each time, and the weights meant nothing, or what a limit keeps from a
tenant became credit against all others. The queues of a tenant that is at its limit are let out in turn.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from batchproc.core.fairness import Queue
from batchproc.core.job import Lane
from batchproc.core.start_tags import Epoch, StartTag

Key = TypeVar("Key")


class Room(NamedTuple):
    """How many more jobs may be claimed; and seconds until there is a token, where only that is lacking."""

    jobs: int
    seconds: float | None = None


@dataclass(slots=True)
class Rooms:
    """The room that limits leave, by the database's word. What is not named has no limit, or was not asked for."""

    kinds: dict[str, Room] = field(default_factory=dict)
    tenants: dict[int, Room] = field(default_factory=dict)

    def lacks(self, queue: Queue) -> bool:
        """Whether the queue's kind or its tenant has no room."""
        return any(
            room is not None and room.jobs <= 0
            for room in (self.kinds.get(queue.kind), self.tenants.get(queue.tenant_id))
        )


# Entries of a heap that hold no longer, and tags of queues without jobs, are cleared away when they are more than all
# others and so many.
_MANY = 1000


class _Places:
    """The queues of one kind or tenant in one lane: those that may be chosen, and those that are parked by their tag;
    among equal ones those that were parked first.

    Parking one and letting one out costs O(log parked).
    """

    __slots__ = ("_first", "_forget_at", "_heap", "_idle", "_last", "_now", "_parked", "_tags", "active")

    def __init__(self) -> None:
        self.active: set[Queue] = set()
        self._parked: dict[Queue, tuple[int, int]] = {}  # its tag and order
        self._heap: list[tuple[int, int, Queue]] = []
        self._first = self._last = 0
        self._tags: dict[Queue, StartTag] = {}
        self._idle: set[Queue] = set()  # those without jobs whose tag lies ahead, or may come to
        self._forget_at = _MANY
        self._now = 0  # the tag of the last one charged

    def __contains__(self, queue: Queue) -> bool:
        return queue in self._parked

    def __iter__(self) -> Iterator[Queue]:
        return iter(self._parked)

    @property
    def has_parked(self) -> bool:
        return bool(self._parked)

    def activate(self, queue: Queue) -> None:
        self._has_jobs(queue)
        self.active.add(queue)

    def park(self, queue: Queue, *, first: bool = False) -> None:
        """``first``: before those that have the same tag."""
        self._has_jobs(queue)
        self.active.discard(queue)
        if first:
            self._first -= 1
        else:
            self._last += 1
        self._list(queue, self._first if first else self._last)

    def pop(self) -> Queue | None:
        """Takes out the parked queue whose turn it is."""
        while self._heap:
            tag, order, queue = heapq.heappop(self._heap)
            if self._parked.get(queue) == (tag, order):
                del self._parked[queue]
                return queue
        return None

    def take_out(self, queue: Queue) -> None:
        """It is neither in the choice nor parked; its tag stays as it is."""
        self.active.discard(queue)
        self._parked.pop(queue, None)

    def emptied(self, queue: Queue) -> None:
        """It has no jobs: when it comes back, it comes in at the present."""
        self.take_out(queue)
        if queue in self._tags:
            self._idle.add(queue)
            self._forget([queue])
        if len(self._idle) > self._forget_at:
            self._forget(list(self._idle))
            self._forget_at = 2 * len(self._idle) + _MANY

    def charge(self, queue: Queue, amount: int) -> Epoch:
        tag = self._tags.get(queue)
        if tag is None:
            tag = self._tags[queue] = StartTag(self._now)
        self._now = max(self._now, tag.value)
        tag.charge(amount)
        self._moved(queue)
        return tag.epoch

    def correct(self, queue: Queue, epoch: Epoch, difference: int) -> None:
        self._tags[queue].correct(epoch, difference)
        self._moved(queue)

    def _has_jobs(self, queue: Queue) -> None:
        if queue in self._idle:
            self._idle.remove(queue)
            self._tags[queue].lift(self._now)
        elif queue not in self._tags:
            self._tags[queue] = StartTag(self._now)

    def _moved(self, queue: Queue) -> None:
        parked = self._parked.get(queue)
        if parked is not None and parked[0] != self._tags[queue].value:
            self._list(queue, parked[1])

    def _list(self, queue: Queue, order: int) -> None:
        key = self._parked[queue] = self._tags[queue].value, order
        heapq.heappush(self._heap, (*key, queue))
        if len(self._heap) > 2 * len(self._parked) + _MANY:
            self._heap = [(tag, order, queue) for queue, (tag, order) in self._parked.items()]
            heapq.heapify(self._heap)

    def _forget(self, idle: Iterable[Queue]) -> None:
        # Those who would come in at the present anyhow.
        for queue in idle:
            tag = self._tags[queue]
            if tag.value <= self._now and not tag.is_open:
                self._idle.remove(queue)
                del self._tags[queue]


class _Charge(NamedTuple):
    """What one running job of a rationed kind was charged."""

    places: _Places
    queue: Queue
    epoch: Epoch
    amount: int


class _Ration:
    """Of one kind or tenant: how many queues may be chosen in each lane, and which are."""

    __slots__ = ("lanes", "opens_at", "room")

    def __init__(self) -> None:
        self.room = 0
        self.opens_at: float | None = None
        self.lanes: dict[int, _Places] = {lane: _Places() for lane in Lane}

    def has_place(self, lane: int) -> bool:
        return len(self.lanes[lane].active) < self.room

    @property
    def has_parked(self) -> bool:
        return any(places.has_parked for places in self.lanes.values())

    def next_parked(self) -> Queue | None:
        """Takes the queue whose turn it is to be let out; None when none may be."""
        for lane, places in self.lanes.items():
            if self.has_place(lane) and (queue := places.pop()) is not None:
                return queue
        return None

    def all_parked(self) -> Iterator[Queue]:
        for places in self.lanes.values():
            yield from places


class Changes(NamedTuple):
    """Queues that are to be chosen from now on, and those that no longer are."""

    chosen: list[Queue]
    parked: list[Queue]


class Rations:
    """A queue is either in the choice, or parked for one reason at a time; which it is, only this decides.

    Times are in the time of whoever calls.

    Args:
        by_seconds: what a job is charged is corrected when it has ended.
    """

    def __init__(self, *, by_seconds: bool = False) -> None:
        self._by_seconds = by_seconds
        self._kinds: dict[str, _Ration] = {}
        self._tenants: dict[int, _Ration] = {}
        self._running: dict[Hashable, _Charge] = {}

    def admits(self, queue: Queue) -> bool:
        """Whether a queue that has jobs may be chosen; otherwise it is parked from now on, if it was not."""
        rations = self._of(queue)
        for ration in rations:
            if queue in ration.lanes[queue.lane]:
                return False
        for ration in rations:
            if queue not in ration.lanes[queue.lane].active and not ration.has_place(queue.lane):
                self._take_out(queue)
                ration.lanes[queue.lane].park(queue)
                return False
        for ration in rations:
            ration.lanes[queue.lane].activate(queue)
        return True

    def emptied(self, queue: Queue) -> Changes:
        """The queue has no jobs: its place is another's."""
        rations = self._of(queue)
        for ration in rations:
            ration.lanes[queue.lane].emptied(queue)
        return Changes([chosen for ration in rations for chosen in self._refill(ration)], [])

    def freed(self, queue: Queue) -> Changes:
        """A job of the queue has ended. Where a token is lacking that helps nobody."""
        chosen: list[Queue] = []
        for ration in self._of(queue):
            if ration.opens_at is None:
                ration.room += 1
                chosen += self._refill(ration)
        return Changes(chosen, [])

    def charge(self, queue: Queue, amount: int, claims: Iterable[Hashable]) -> None:
        """Jobs of ``queue`` were claimed, and cost ``amount`` each, by seconds until ``ended``. Before ``told``."""
        ration = self._kinds.get(queue.kind)
        if ration is not None:
            places = ration.lanes[queue.lane]
            for claim in claims:
                epoch = places.charge(queue, amount)
                if self._by_seconds:
                    self._running[claim] = _Charge(places, queue, epoch, amount)
                else:
                    places.correct(queue, epoch, 0)

    def ended(self, claim: Hashable, amount: int) -> None:
        """The job has cost ``amount``."""
        charge = self._running.pop(claim, None)
        if charge is not None:
            charge.places.correct(charge.queue, charge.epoch, amount - charge.amount)

    def told(
        self,
        rooms: Rooms,
        now: float,
        served: Collection[Queue],
        choosable: Callable[[], Iterable[Queue]],
    ) -> Changes:
        """What a claim just left. Kinds and tenants that it finds without room are rationed from then on.

        Args:
            served: the queues that gave a job; they are parked behind all others with the same tag.
            choosable: every queue in the choice; asked when something is rationed for the first time.
        """
        parked: list[Queue] = []
        self._ration_new(rooms, choosable)
        rationed = self._rationed(rooms)
        for ration, room in rationed:
            ration.room = max(0, room.jobs)
            ration.opens_at = None if room.seconds is None else now + room.seconds
            if not ration.room:
                parked += self._park_all(ration, served)
        # What one parked may have left a place of another.
        touched = [ration for ration, _ in rationed] + [ration for queue in parked for ration in self._of(queue)]
        return Changes([chosen for ration in touched for chosen in self._refill(ration)], parked)

    def seen(self, rooms: Rooms) -> Changes:
        """What a look at all limits found, a moment ago: by now more may run, so that it only lets queues out."""
        chosen: list[Queue] = []
        for ration, room in self._rationed(rooms):
            if room.jobs > ration.room:
                ration.room, ration.opens_at = room.jobs, None
            chosen += self._refill(ration)
        ended = [self._kinds.pop(kind) for kind in self._kinds.keys() - rooms.kinds.keys()]
        ended += [self._tenants.pop(tenant_id) for tenant_id in self._tenants.keys() - rooms.tenants.keys()]
        chosen += [queue for ration in ended for queue in ration.all_parked() if self.admits(queue)]
        return Changes(chosen, [])

    def due(self, now: float) -> Changes:
        """Lets queues out of kinds for which there should be a token."""
        chosen: list[Queue] = []
        for ration in self._kinds.values():
            if ration.opens_at is not None and ration.opens_at <= now:
                ration.room, ration.opens_at = max(1, ration.room), None
                chosen += self._refill(ration)
        return Changes(chosen, [])

    def opens_at(self) -> float | None:
        """When the next token is there that parked queues wait for; None when none does."""
        return min(
            (ration.opens_at for ration in self._kinds.values() if ration.opens_at is not None and ration.has_parked),
            default=None,
        )

    def end(self) -> list[Queue]:
        """Rations nothing any more; returns what was parked."""
        parked = [queue for ration in (*self._kinds.values(), *self._tenants.values()) for queue in ration.all_parked()]
        self._kinds.clear()
        self._tenants.clear()
        return parked

    def _of(self, queue: Queue) -> Sequence[_Ration]:
        # Asked of every queue at each look.
        of_kind, of_tenant = self._kinds.get(queue.kind), self._tenants.get(queue.tenant_id)
        if of_tenant is None:
            return () if of_kind is None else (of_kind,)
        return (of_tenant,) if of_kind is None else (of_kind, of_tenant)

    def _rationed(self, rooms: Rooms) -> list[tuple[_Ration, Room]]:
        of_kinds = _both(self._kinds, rooms.kinds)
        return of_kinds + _both(self._tenants, rooms.tenants)

    def _ration_new(self, rooms: Rooms, choosable: Callable[[], Iterable[Queue]]) -> None:
        kinds = {kind for kind, room in rooms.kinds.items() if room.jobs <= 0} - self._kinds.keys()
        tenants = {tenant for tenant, room in rooms.tenants.items() if room.jobs <= 0} - self._tenants.keys()
        if not kinds and not tenants:
            return
        self._kinds |= {kind: _Ration() for kind in kinds}
        self._tenants |= {tenant_id: _Ration() for tenant_id in tenants}
        for queue in choosable():
            if queue.kind in kinds:
                self._kinds[queue.kind].lanes[queue.lane].activate(queue)
            if queue.tenant_id in tenants:
                self._tenants[queue.tenant_id].lanes[queue.lane].activate(queue)

    def _park_all(self, ration: _Ration, served: Collection[Queue]) -> list[Queue]:
        queues = sorted(queue for places in ration.lanes.values() for queue in places.active)
        for queue in queues:
            self._take_out(queue)
            if queue in served:
                ration.lanes[queue.lane].park(queue)
        for queue in reversed(queues):
            if queue not in served:
                ration.lanes[queue.lane].park(queue, first=True)
        return queues

    def _refill(self, ration: _Ration) -> list[Queue]:
        chosen: list[Queue] = []
        while (queue := ration.next_parked()) is not None:
            if self.admits(queue):
                chosen.append(queue)
        return chosen

    def _take_out(self, queue: Queue) -> None:
        for ration in self._of(queue):
            ration.lanes[queue.lane].take_out(queue)


def _both(rations: Mapping[Key, _Ration], rooms: Mapping[Key, Room]) -> list[tuple[_Ration, Room]]:
    return [(rations[key], room) for key, room in rooms.items() if key in rations]
