"""Nodes at work without a database: slots, queues and job times as a discrete-event model round the real choice."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import count

from batchproc.core.fairness import FairShare, Queue


def jain(shares: Sequence[float]) -> float:
    """R. Jain, D.-M. Chiu, W. Hawe (1984): 1 when all are equal, 1 / n when one has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


class Simulation:
    """Runs jobs, each as long as it says, on so many slots. Times in seconds from the start.

    A queue that comes back empty is taken out of the choice, as after a claim that comes back short.
    """

    def __init__(self, share: FairShare, slots: int) -> None:
        self.share = share
        self.now = 0.0
        self.free = slots
        self.waiting: defaultdict[Queue, deque[float]] = defaultdict(deque)
        self.seconds: defaultdict[int, float] = defaultdict(float)
        """Worker seconds by tenant, of what has ended."""
        self._events: list[tuple[float, int, Queue | None, float | list[tuple[Queue, float]]]] = []
        self._numbers = count()

    def enqueue(self, queue: Queue, seconds: Iterable[float]) -> None:
        """Jobs that wait from now on."""
        self.waiting[queue].extend(seconds)
        self.share.add(queue)

    def enqueue_at(self, when: float, queue: Queue, seconds: Iterable[float]) -> None:
        """Jobs that wait from then on."""
        jobs = [(queue, each) for each in seconds]
        heapq.heappush(self._events, (when, next(self._numbers), None, jobs))

    def run(self, until: float = float("inf")) -> None:
        """Until then, or until nothing is left to happen."""
        self._fill()
        while self._events and self._events[0][0] <= until:
            self.now, number, queue, what = heapq.heappop(self._events)
            if isinstance(what, list):
                for arrived, seconds in what:
                    self.enqueue(arrived, [seconds])
            else:
                assert queue is not None
                self._end(queue, number, what)
            self._fill()

    def _end(self, queue: Queue, number: int, seconds: float) -> None:
        self.free += 1
        self.seconds[queue.tenant_id] += seconds
        self.share.ended(queue, number, seconds)

    def _fill(self) -> None:
        while self.free and (turns := self.share.choose(self.free)):
            for turn in turns:
                jobs = self.waiting[turn.queue]
                taken = [jobs.popleft() for _ in range(min(turn.jobs, len(jobs)))]
                numbers = [next(self._numbers) for _ in taken]
                for number, seconds in zip(numbers, taken, strict=True):
                    heapq.heappush(self._events, (self.now + seconds, number, turn.queue, seconds))
                self.free -= len(taken)
                self.share.claimed(turn, numbers)
                if len(taken) < turn.jobs:
                    self.share.remove(turn.queue)
