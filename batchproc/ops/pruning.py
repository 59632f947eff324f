"""Pruning beside whatever else the database has to do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

from batchproc.queue.pruning import Pruned

REST = 1.0
"""How long ``prune`` rests after a batch, in times of that batch: see ``bench prune`` and docs/scale.md."""


class Stop(Protocol):
    """An event, of threads or of processes."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> bool: ...


def paced(batches: Iterator[Pruned], stop: Stop, rest: float) -> Iterator[Pruned]:
    """The batches as they come, until they end or ``stop`` is set.

    Args:
        rest: after each batch it pauses for so many times as long as that one took. 1 leaves half of the time, and of
            what one connection can ask of the database, to others.
    """
    while not stop.is_set():
        started = time.monotonic()
        batch = next(batches, None)
        if batch is None:
            return
        took = time.monotonic() - started
        yield batch
        stop.wait(rest * took)
