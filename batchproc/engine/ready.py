"""The queues that a node knows to have jobs, and the choice among them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from batchproc.core.fairness import FairShare, Queue, Turn
from batchproc.core.job import Claim, KindSpec
from batchproc.queue.node_store import ReadyQueue

DEAR = 0.05
"""Seconds: a claim that took longer and found nothing has read past many jobs that this node has not the languages for.
300,000 of them took 0.33 s."""
LONGEST_REST = 30.0
_REST_FACTOR = 100.0  # such claims take a hundredth of the time at most, while the rest is not the longest


@dataclass(frozen=True, slots=True)
class Scope:
    """Which queues a run serves; empty sets mean all."""

    tenant_ids: frozenset[int] = frozenset()
    kinds: frozenset[str] = frozenset()
    lanes: frozenset[int] = frozenset()

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

    Args:
        kinds: the kinds that the node knows.
        clock: seconds, for the rests.
    """

    def __init__(
        self,
        lane_weights: Mapping[int, float],
        kinds: Mapping[str, KindSpec],
        scope: Scope,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._share = FairShare(dict(lane_weights))
        self._kinds = kinds
        self._scope = scope
        self._facts: dict[Queue, ReadyQueue] = {}
        self._clock = clock
        self._rest_until: dict[Queue, float] = {}
        self._passed_over: set[Queue] = set()
        self._begun = False

    def learn(self, found: Sequence[ReadyQueue]) -> None:
        """Queues as the database described them."""
        if not self._begun and found:
            # Each node begins its first round elsewhere, so that several do not crowd on the same tenants.
            found = random.sample(found, len(found))
            self._begun = True
        now = self._clock()
        self._rest_until = {queue: until for queue, until in self._rest_until.items() if until > now}
        for ready in found:
            self._facts[ready.queue] = ready
            if ready.queue in self._rest_until:
                self._passed_over.add(ready.queue)
            else:
                self._add(ready)

    def hint(self, queues: Iterable[Queue]) -> None:
        """Queues of which only the name is known."""
        for queue in queues:
            self._rest_until.pop(queue, None)
            self._add(self._known(queue))

    def wake(self) -> None:
        """Ends all rests: before a run ends, each queue that has jobs is to be tried once more."""
        self.hint(self._passed_over)
        self._passed_over.clear()
        self._rest_until.clear()

    def freed(self, queues: Iterable[Queue]) -> None:
        """Queues with one job less running: under a limit there may be room again."""
        self.hint(queue for queue in queues if self._known(queue).limited)

    def choose(self, free: int, bulk_room: int | None) -> list[Turn]:
        """Up to ``free`` turns; see ``FairShare.choose``."""
        return self._share.choose(free, bulk_room=bulk_room)

    def limited(self, turns: Sequence[Turn]) -> bool:
        """Whether a limit may apply to any of these queues."""
        return any(self._known(turn.queue).limited for turn in turns)

    def claimed(self, turns: Sequence[Turn], claims: Sequence[Claim], seconds: float) -> None:
        """A queue that gave fewer jobs than asked for is empty; a hint that came meanwhile is read after this.

        Args:
            seconds: how long the claim took.
        """
        got = Counter(Queue(claim.lane, claim.tenant_id, claim.kind) for claim in claims)
        for turn in turns:
            if got[turn.queue] < turn.jobs:
                self._share.remove(turn.queue)
            if not got[turn.queue] and seconds > DEAR and self._kinds[turn.queue.kind].needs_languages:
                self._rest_until[turn.queue] = self._clock() + min(LONGEST_REST, _REST_FACTOR * seconds)

    def in_scope(self, queue: Queue) -> bool:
        return queue.kind in self._kinds and self._scope.holds(queue)

    def _known(self, queue: Queue) -> ReadyQueue:
        # Of a queue not described yet it is not known whether a limit applies; claiming as if is always right.
        return self._facts.get(queue) or ReadyQueue(queue, 1.0, limited=True)

    def _add(self, ready: ReadyQueue) -> None:
        if self.in_scope(ready.queue):
            self._share.add(ready.queue, ready.weight)
