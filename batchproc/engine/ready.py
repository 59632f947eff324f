"""The queues that a node knows to have jobs, and the choice among them."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from batchproc.core.fairness import FairShare, Queue, Turn
from batchproc.core.floors import Floors, Place
from batchproc.core.job import Claim, KindSpec
from batchproc.core.limit_room import Rooms
from batchproc.core.rations import Changes, Rations
from batchproc.engine.last_turns import LastTurns
from batchproc.queue.node_store import ReadyQueue

DEAR = 0.05
"""Seconds: a claim that took longer and found nothing has read past many jobs that this node has not the languages for.
300,000 of them took 0.33 s."""
SLOW = 0.01
"""Seconds: a claim that took longer may have read past the entries of many jobs that were claimed before. One for 64
queues takes 2 ms, past 50,000 such entries 10."""
PIECE = 1000
"""Queues of a look that are taken over with each choice: some milliseconds, where 30,000 at once took 150."""
LONGEST_REST = 30.0
_REST_FACTOR = 100.0  # such claims take a hundredth of the time at most, while the rest is not the longest


@dataclass(frozen=True, slots=True)
class Scope:
    """Which queues a run serves; empty sets mean all."""

    tenant_ids: frozenset[int] = frozenset()
    kinds: frozenset[str] = frozenset()
    lanes: frozenset[int] = frozenset()

    def plain(self) -> dict[str, Any]:
        """As it is stored with a run."""
        return {"tenant_ids": sorted(self.tenant_ids), "kinds": sorted(self.kinds), "lanes": sorted(self.lanes)}

    def holds(self, queue: Queue) -> bool:
        return (
            (not self.tenant_ids or queue.tenant_id in self.tenant_ids)
            and (not self.kinds or queue.kind in self.kinds)
            and (not self.lanes or queue.lane in self.lanes)
        )


class ReadyQueues:
    """Kept from what housekeeping reads, what settles follow up, and claims that come back short.

    Nothing here is the truth: a queue too many costs an empty claim, one too few is found by the next refresh.

    An empty claim can be dear where the queue is full of jobs for other nodes' languages. After one the queue rests:
    refreshes pass it over until there is a hint for it, the time is over, or ``wake`` is called.

    A queue whose kind or tenant has no room is parked, see ``core.rations``. Where a claim is to read on in a queue
    that gave many jobs already is kept in its floor, see ``core.floors``.

    Args:
        kinds: the kinds that the node knows.
        by_seconds: tenants share worker seconds, not jobs.
        turns: notes whose turn it was; its first round is that of the choice.
        clock: seconds, for the rests.
    """

    def __init__(
        self,
        lane_weights: Mapping[int, float],
        kinds: Mapping[str, KindSpec],
        scope: Scope,
        *,
        by_seconds: bool = False,
        turns: LastTurns | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        bundles = {name: kind.bundle for name, kind in kinds.items()}
        self._share = FairShare(lane_weights, bundles=bundles, by_seconds=by_seconds)
        self._turns = turns or LastTurns()
        self._share.begin_with(self._turns.first_round)
        self._kinds = kinds
        self._scope = scope
        self._facts: dict[Queue, ReadyQueue] = {}
        self._weights: dict[int, float] = {}
        self._clock = clock
        self._rest_until: dict[Queue, float] = {}
        self._passed_over: set[Queue] = set()
        self._without: frozenset[str] = frozenset()
        self._unlearnt: deque[ReadyQueue] = deque()
        self._rooms: Rooms | None = None
        self._floors = Floors()
        self._rations = Rations(by_seconds=by_seconds)

    def learn(self, found: Sequence[ReadyQueue], rooms: Rooms | None = None) -> None:
        """Queues, and the room that all limits leave, as the database described them."""
        self.learn_in_pieces(found, rooms)
        self._learn_some(len(found))

    def learn_in_pieces(self, found: Sequence[ReadyQueue], rooms: Rooms | None = None) -> None:
        """As ``learn``; of many queues some with each choice, so that none is late for it."""
        self._learn_some(len(self._unlearnt))
        now = self._clock()
        self._rest_until = {queue: until for queue, until in self._rest_until.items() if until > now}
        self._unlearnt.extend(found)
        if rooms is not None:
            self._rooms = rooms
            self._heed(self._rations.seen(rooms))

    def _learn_some(self, count: int) -> None:
        now = self._clock()
        for _ in range(min(count, len(self._unlearnt))):
            ready = self._unlearnt.popleft()
            self._facts[ready.queue] = ready
            self._weights[ready.queue.tenant_id] = ready.weight
            self._floors.found(ready.queue, ready.front, now)
            if ready.queue in self._rest_until:
                self._passed_over.add(ready.queue)
            else:
                self._add(ready)

    def hint(self, queues: Iterable[Queue], priority: int | None = None) -> None:
        """Queues of which only the name is known, and perhaps the lowest priority number of what came."""
        for queue in queues:
            self._rest_until.pop(queue, None)
            self._floors.came(queue, priority)
            self._add(self._known(queue))

    def wake(self) -> None:
        """Ends all rests, floors and rations: before a run ends, each queue that has jobs is to be tried once more."""
        self._floors.clear()
        self.hint(self._passed_over)
        self.hint(self._rations.end())
        self._passed_over.clear()
        self._rest_until.clear()

    def freed(self, queues: Iterable[Queue]) -> None:
        """Queues with one job less running: under a limit there may be room again."""
        for queue in queues:
            self._heed(self._rations.freed(queue))
            if self._known(queue).limited:
                self._add(self._known(queue))

    def seconds_to_token(self) -> float | None:
        """Until there should be a token for one of the parked queues; None when none waits for one.

        Those whose time has come are in the choice from then on: 0, and not again, so that nobody waits in vain.
        """
        now = self._clock()
        if self._heed(self._rations.due(now)):
            return 0.0
        opens_at = self._rations.opens_at()
        return None if opens_at is None else opens_at - now

    def floors(self, turns: Sequence[Turn]) -> dict[Queue, Place]:
        """After which places these queues are to be read."""
        return {turn.queue: self._floors.of(turn.queue) for turn in turns}

    def choose(
        self, free: int, bulk_room: int | None, *, jobs: int | None = None, without: Set[str] = frozenset()
    ) -> list[Turn]:
        """What to claim for that many free slots; see ``FairShare.choose``.

        Args:
            without: kinds of which nothing is to be claimed; the first refresh after that finds their queues again.
        """
        self._heed(self._rations.due(self._clock()))
        self._learn_some(PIECE)
        while self._unlearnt and not self._share.has_queues:
            self._learn_some(PIECE)
        if without != self._without:
            self._without = frozenset(without)
            for queue in [queue for queue in self._share.queues() if queue.kind in without]:
                self._share.remove(queue)
                self._heed(self._rations.emptied(queue))
        return self._share.choose(free, bulk_room=bulk_room, jobs=jobs)

    @property
    def may_be_limited(self) -> bool:
        """Whether any kind or tenant may have a limit or a rate."""
        return self._rooms is None or bool(self._rooms.kinds or self._rooms.tenants)

    def limited(self, turns: Sequence[Turn]) -> bool:
        """Whether a limit may apply to any of these queues."""
        return any(self._known(turn.queue).limited for turn in turns)

    def claimed(
        self, turns: Sequence[Turn], claims: Sequence[Claim], seconds: float, rooms: Rooms | None = None
    ) -> None:
        """A queue that gave fewer jobs than asked for is empty, unless its kind or tenant has no room, or it was read
        from its floor on. A hint that came meanwhile is read after this.

        Args:
            seconds: how long the claim took.
            rooms: the room that the limits leave after it.
        """
        rooms = rooms or Rooms()
        got: defaultdict[Queue, list[Place]] = defaultdict(list)
        claim_ids: defaultdict[Queue, list[UUID]] = defaultdict(list)
        for claim in claims:
            queue = Queue(claim.lane, claim.tenant_id, claim.kind)
            got[queue].append(Place(claim.priority, claim.job_id))
            claim_ids[queue].append(claim.claim_id)
        until = self._clock() + min(LONGEST_REST, _REST_FACTOR * seconds)
        self._turns.note({queue.tenant_id for queue in got})
        for turn in turns:
            queue, jobs = turn
            self._share.claimed(turn, claim_ids[queue])
            if got[queue]:
                self._rations.charge(queue, self._share.amount(queue, self._known(queue).weight), claim_ids[queue])
            is_dear = seconds > DEAR and self._kinds[queue.kind].needs_languages
            self._floors.claimed(queue, got[queue], slow=seconds > SLOW, dear_until=until if is_dear else None)
            if len(got[queue]) < jobs and not rooms.lacks(queue) and not self._floors.came_short(queue):
                self._share.remove(queue)
                self._heed(self._rations.emptied(queue))
                if is_dear and not got[queue]:
                    self._rest_until[queue] = until
        self._heed(self._rations.told(rooms, self._clock(), {queue for queue in got if got[queue]}, self._share.queues))

    def ended(self, claim: Claim, seconds: float) -> None:
        """A claimed job has ended after so many seconds; 0 if no worker began it."""
        queue = Queue(claim.lane, claim.tenant_id, claim.kind)
        self._share.ended(queue, claim.claim_id, seconds)
        self._rations.ended(claim.claim_id, self._share.amount(queue, self._known(queue).weight, seconds))

    def in_scope(self, queue: Queue) -> bool:
        return queue.kind in self._kinds and queue.kind not in self._without and self._scope.holds(queue)

    def _known(self, queue: Queue) -> ReadyQueue:
        return self._facts.get(queue) or ReadyQueue(
            queue, self._weights.get(queue.tenant_id, 1.0), limited=self._may_be_limited(queue)
        )

    def _may_be_limited(self, queue: Queue) -> bool:
        # Before the first look that is not known, and claiming as if is always right. A limit that was set since the
        # last one keeps the queue from giving anything until the next.
        rooms = self._rooms
        return rooms is None or queue.kind in rooms.kinds or queue.tenant_id in rooms.tenants

    def _add(self, ready: ReadyQueue) -> None:
        if self.in_scope(ready.queue) and self._rations.admits(ready.queue):
            self._share.add(ready.queue, ready.weight)

    def _heed(self, changes: Changes) -> bool:
        """Whether any queue came into the choice. What is braked meanwhile leaves its place to the next."""
        for queue in changes.parked:
            self._share.remove(queue)
        came, chosen = False, deque(changes.chosen)
        while chosen:
            queue = chosen.popleft()
            if self.in_scope(queue):
                self._share.add(queue, self._known(queue).weight)
                came = True
            else:
                chosen.extend(self._rations.emptied(queue).chosen)
        return came
