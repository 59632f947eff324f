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

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from batchproc.core.job import Lane
from batchproc.core.limit_room import Room, Rooms
from batchproc.core.parking import Parking
from batchproc.core.queues import Queue
from batchproc.core.start_tags import Epoch

Key = TypeVar("Key")


class _Charge(NamedTuple):
    """What one running job of a rationed kind was charged."""

    parking: Parking
    queue: Queue
    epoch: Epoch
    amount: int


class _Ration:
    """Of one kind or tenant: how many queues may be chosen in each lane, and which are."""

    __slots__ = ("lanes", "opens_at", "room")

    def __init__(self) -> None:
        self.room = 0
        self.opens_at: float | None = None
        self.lanes: dict[int, Parking] = {lane: Parking() for lane in Lane}

    def has_place(self, lane: int) -> bool:
        return len(self.lanes[lane].active) < self.room

    @property
    def has_parked(self) -> bool:
        return any(parking.has_parked for parking in self.lanes.values())

    def next_parked(self) -> Queue | None:
        """Takes the queue whose turn it is to be let out; None when none may be."""
        for lane, parking in self.lanes.items():
            if self.has_place(lane) and (queue := parking.pop()) is not None:
                return queue
        return None

    def all_parked(self) -> Iterator[Queue]:
        for parking in self.lanes.values():
            yield from parking


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
            parking = ration.lanes[queue.lane]
            for claim in claims:
                epoch = parking.charge(queue, amount)
                if self._by_seconds:
                    self._running[claim] = _Charge(parking, queue, epoch, amount)
                else:
                    parking.correct(queue, epoch, 0)

    def ended(self, claim: Hashable, amount: int) -> None:
        """The job has cost ``amount``."""
        charge = self._running.pop(claim, None)
        if charge is not None:
            charge.parking.correct(charge.queue, charge.epoch, amount - charge.amount)

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
        queues = sorted(queue for parking in ration.lanes.values() for queue in parking.active)
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
