"""Which queues are served next: lanes by weight, tenants in turn, kinds in turn within a tenant.

A turn is one job. The lanes share the turns (``lane_turns``), the tenants of a lane share them or the time they take
(``tenant_turns``), and turns are taken while the free slots hold them (``room``). Nothing here is done per queue
and choice, so that it is all the same how many there are.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from batchproc.core.lane_turns import LaneTurns
from batchproc.core.prices import LEAST_SECONDS, WorkTimes
from batchproc.core.queues import Queue, Turn
from batchproc.core.room import Room
from batchproc.core.start_tags import amount
from batchproc.core.tenant_turns import Charge, TenantTurns

__all__ = ["FairShare", "Queue", "Turn"]


class FairShare:
    """The queues that have jobs, and whose turn it is.

    A turn is charged when it is chosen. ``claimed`` then says what came of it, before the next choice; without that
    the charge stays as it is.

    Args:
        lane_weights: how many turns each lane gets of those that both could take; the debt is carried on.
        bundles: how many jobs of these kinds go into one slot; of all others one.
        by_seconds: tenants share worker seconds, not jobs. A turn is charged the time that such jobs took so far, and
            when its job has ended what it really took.
    """

    def __init__(
        self, lane_weights: Mapping[int, float], *, bundles: Mapping[str, int] | None = None, by_seconds: bool = False
    ) -> None:
        self._lane_turns = LaneTurns(lane_weights)
        self._times = WorkTimes() if by_seconds else None
        self._price = self._times.guess if self._times is not None else _one
        self._lanes = {lane: TenantTurns(self._price) for lane in lane_weights}
        self._bundles = {kind: size for kind, size in (bundles or {}).items() if size > 1}
        self._ready: dict[Queue, float] = {}  # its tenant's weight
        self._chosen: dict[Queue, Charge] = {}
        self._contests: dict[Queue, list[tuple[int, ...]]] = {}  # the lanes that competed for each of its turns
        self._competing: tuple[int, ...] = ()  # for the last turn
        self._running: dict[Hashable, Charge] = {}

    def begin_with(self, tenant_ids: Collection[int]) -> None:
        """The order of the first round: these tenants, then whoever else comes. Before any is added."""
        for lane in self._lanes.values():
            lane.begin_with(tenant_ids)

    def add(self, queue: Queue, weight: float = 1.0) -> None:
        """``queue`` has jobs. A tenant that had none joins at the end of the present round."""
        if self._ready.get(queue) != weight:
            self._ready[queue] = weight
            self._lanes[queue.lane].add(queue, weight)

    def remove(self, queue: Queue) -> None:
        """``queue`` has no jobs that can be claimed here now."""
        if self._ready.pop(queue, None) is not None:
            self._lanes[queue.lane].remove(queue)

    def queues(self) -> list[Queue]:
        """Every queue that has jobs, in no particular order."""
        return list(self._ready)

    @property
    def has_queues(self) -> bool:
        """Whether any queue has jobs."""
        return bool(self._ready)

    def choose(self, slots: int, *, bulk_room: int | None = None, jobs: int | None = None) -> list[Turn]:
        """The next turns, as distinct queues with counts, as many as the slots hold.

        It ends with the first turn that finds no room: nobody is passed over for want of it, unless his lane has no
        room and the other has.

        Args:
            slots: those that are free.
            bulk_room: how many of them the bulk lane may take (reserved slots); None for all.
            jobs: at most so many in all; None for as many as fit.
        """
        self._close_untold()
        room = Room(slots, slots if bulk_room is None else bulk_room)
        open_lanes = tuple(sorted(self._lanes)) if room.has_slots else ()
        left = jobs if jobs is not None else -1
        while open_lanes and left:
            number = self._lane_turns.due(open_lanes)
            lane = self._lanes[number]
            queue = lane.next()
            if queue is None:
                open_lanes = _without(open_lanes, number)
            elif room.take(number, self._bundles.get(queue.kind, 1)):
                self._lane_turns.charge(number, open_lanes)
                self._competing = open_lanes
                charge = self._chosen.get(queue)
                if charge is None:
                    charge = self._chosen[queue] = lane.open(queue)
                    self._contests[queue] = []
                self._contests[queue].append(open_lanes)
                lane.take(charge)
                left -= 1
            elif room.has_slots:
                open_lanes = _without(open_lanes, number)
            else:
                break
        return [Turn(queue, charge.jobs) for queue, charge in self._chosen.items()]

    def claimed(self, turn: Turn, claims: Collection[Hashable]) -> None:
        """What came of a chosen turn; turns that gave no job are not charged, to the tenant nor to the lane.

        Args:
            claims: one for each job, by which ``ended`` will know it.
        """
        charge = self._chosen.pop(turn.queue, None)
        if charge is None:
            return
        lane = self._lanes[turn.queue.lane]
        given = min(len(claims), charge.jobs)
        if given < charge.jobs:
            lane.take_back(charge, charge.jobs - given)
            for competing in self._contests[turn.queue][given:]:
                self._lane_turns.take_back(turn.queue.lane, competing, self._competing)
        if self._times is not None:
            self._running.update((claim, charge) for claim in claims)
        else:
            lane.close(charge, given)

    def ended(self, queue: Queue, claim: Hashable, seconds: float) -> None:
        """A claimed job of ``queue`` has ended after so many seconds; 0 if it was never begun."""
        if self._times is None:
            return
        charge = self._running.pop(claim, None)
        if charge is not None:
            self._lanes[queue.lane].correct(charge, max(LEAST_SECONDS, seconds))
        if seconds > 0:
            self._times.learn(queue, seconds)

    def amount(self, queue: Queue, weight: float, seconds: float | None = None) -> int:
        """What a turn of ``queue`` is charged, in the unit of start tags: at its claim, or after so many seconds."""
        if self._times is None or seconds is None:
            return amount(self._price(queue), weight)
        return amount(max(LEAST_SECONDS, seconds), weight)

    def _close_untold(self) -> None:
        for queue, charge in self._chosen.items():
            self._lanes[queue.lane].close(charge, charge.jobs)
        self._chosen, self._contests = {}, {}


def _one(_: Queue) -> float:
    return 1.0


def _without(lanes: tuple[int, ...], number: int) -> tuple[int, ...]:
    return tuple(lane for lane in lanes if lane != number)
