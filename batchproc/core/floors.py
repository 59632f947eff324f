"""From where on a claim reads a queue: the place of the last job that was claimed from it.

A claim reads the index from the queue's front. While some session holds an old snapshot, the entries of all jobs that
were claimed before stay there, and each claim reads past every one of them: 200,000 of them take 39 ms, and more come
with each claim. From the place of the last claim on there are none (1.8 ms, measured on PostgreSQL 15).

What comes in below that place must not be missed: a job with a lower priority number drops the floor at once, and so
does whatever this node puts back, promotes or rescues. What others put there is found with the next look at the ready
queues, which reads the front of each anyhow and lowers the floor to it; that look is made once in a poll interval, and
not by the dispatcher. A claim from a floor that gives too little proves nothing: the queue is read again from its front
before it is taken for empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from batchproc.core.fairness import Queue

WORTH = 64
"""Jobs of a queue that have to be claimed before its floor is of use: past the entries of fewer a claim reads in some
ten microseconds, and a queue of a few jobs is not read twice at its end."""


class Place(NamedTuple):
    """A job's place among the available jobs of its queue, in the order in which they are claimed."""

    priority: int
    job_id: int


FRONT = Place(-1, 0)
"""Before every job."""


class _Floor:
    __slots__ = ("job_id", "kept_until", "passed", "priority")

    def __init__(self) -> None:
        self.priority, self.job_id = FRONT
        self.passed = 0
        self.kept_until = 0.0


class Floors:
    """The floors of the queues that have one; no job of a queue at or below its floor is claimed.

    Args:
        worth: see ``WORTH``.
    """

    def __init__(self, worth: int = WORTH) -> None:
        self._worth = worth
        self._floors: dict[Queue, _Floor] = {}

    def __len__(self) -> int:
        return len(self._floors)

    def of(self, queue: Queue) -> Place:
        """Only what comes after this place is to be claimed."""
        floor = self._floors.get(queue)
        if floor is None or floor.passed < self._worth:
            return FRONT
        return Place(floor.priority, floor.job_id)

    def claimed(
        self, queue: Queue, places: Iterable[Place], *, slow: bool = False, dear_until: float | None = None
    ) -> None:
        """These were the first jobs after the floor that could be claimed.

        Args:
            slow: the claim took long. Perhaps it read past many entries of jobs that others claimed before: the floor
                is of use at once.
            dear_until: it read past many jobs that this node may not claim. Until that time ``found`` does not lower
                the floor: those jobs would be found each time.
        """
        last, count = FRONT, 0
        for place in places:
            last, count = max(last, place), count + 1
        if not count:
            return
        floor = self._floors.setdefault(queue, _Floor())
        floor.priority, floor.job_id = last
        floor.passed += count
        if slow or dear_until is not None:
            floor.passed = max(floor.passed, self._worth)
        if dear_until is not None:
            floor.kept_until = dear_until

    def came(self, queue: Queue, priority: int | None) -> None:
        """A job of that priority, or of one that is not known, came into the queue.

        One of the floor's own priority has a higher job_id than the last claimed, save where its transaction took
        longer than that of another. The next look finds it, and the end of the queue, whichever comes first.
        """
        floor = self._floors.get(queue)
        if floor is not None and (priority is None or priority < floor.priority):
            del self._floors[queue]

    def found(self, queue: Queue, front: Place, now: float) -> None:
        """At one look that place had the queue's first job; ``now`` in the time of ``dear_until``."""
        floor = self._floors.get(queue)
        if floor is not None and now >= floor.kept_until and front <= (floor.priority, floor.job_id):
            floor.priority, floor.job_id = front.priority, front.job_id - 1

    def came_short(self, queue: Queue) -> bool:
        """A claim gave less than was asked for: drops the floor. True when there was one, and the queue may have more
        jobs below it.
        """
        had = self.of(queue) != FRONT
        self._floors.pop(queue, None)
        return had

    def clear(self) -> None:
        """Drops every floor."""
        self._floors.clear()
