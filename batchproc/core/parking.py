"""Queues that share what the limit of their kind or tenant leaves: those in the choice, and those that are parked."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from batchproc.core.queues import Queue
from batchproc.core.start_tags import Epoch, StartTag

# Entries of a heap that hold no longer, and tags of queues without jobs, are cleared away when they are more than all
# others and so many.
_MANY = 1000


class Parking:
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
