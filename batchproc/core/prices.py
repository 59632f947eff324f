"""What a turn costs: one, or the worker seconds that its job takes, guessed at the claim."""

from __future__ import annotations

from dataclasses import dataclass

from batchproc.core.queues import Queue

FIRST_GUESS = 1.0
"""Seconds, for a kind of which no job has ended yet. Whatever it is, the correction makes it good."""
LEAST_SECONDS = 0.001
"""No job costs less: to claim and settle one takes about a millisecond, whatever its handler does."""
# A mean over more than the last so many jobs would follow changes too slowly.
_REMEMBERED_JOBS = 50
# Means of single queues, the longest unused are dropped first: 10 MB.
_REMEMBERED_QUEUES = 50_000


@dataclass(slots=True)
class _Mean:
    value: float
    jobs: int = 0

    def add(self, value: float) -> None:
        self.jobs = min(self.jobs + 1, _REMEMBERED_JOBS)
        self.value += (value - self.value) / self.jobs


class WorkTimes:
    """How long jobs take: the running mean of their kind and tenant; before one has ended, of their kind alone."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Mean] = {}
        self._queues: dict[tuple[int, str], _Mean] = {}

    def guess(self, queue: Queue) -> float:
        """Seconds that the queue's next job will take, with its claim and settle."""
        return max(LEAST_SECONDS, self.mean(queue))

    def mean(self, queue: Queue) -> float:
        """Seconds that a worker will be at the queue's next job."""
        mean = self._queues.get((queue.tenant_id, queue.kind)) or self._kinds.get(queue.kind)
        return FIRST_GUESS if mean is None else mean.value

    def learn(self, queue: Queue, seconds: float) -> None:
        """A job of the queue has taken that long."""
        kind = self._kinds.setdefault(queue.kind, _Mean(seconds))
        key = queue.tenant_id, queue.kind
        # Taken out and put in again: the order of the dict is that of use.
        mean = self._queues.pop(key, None) or _Mean(kind.value, jobs=1)
        mean.add(seconds)
        self._queues[key] = mean
        kind.add(seconds)
        if len(self._queues) > _REMEMBERED_QUEUES:
            del self._queues[next(iter(self._queues))]
