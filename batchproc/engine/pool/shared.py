"""What the slots of a pool share: how workers are made, and how they tell of what happened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from batchproc.engine.pool.types import Ended
from batchproc.engine.pool.worker_handle import WorkerHandle, WorkerPlan

if TYPE_CHECKING:
    from batchproc.engine.pool.slot import Slot


@dataclass(slots=True)
class Shared:
    """Functions of the pool that its slots call, from any thread, and events that they heed.

    Attributes:
        publish: hands over how jobs ended.
        wake: a slot has become free or faulty.
        watch: tells the slot when this worker dies, until ``unwatch``.
        look_again: a limit passes at that time, on ``time.monotonic``.
        changed: notified when a slot has become ready or never will.
        draining: no worker is replaced any more.
        closing: the pool ends now.
    """

    plan: WorkerPlan
    publish: Callable[[Sequence[Ended]], None]
    wake: Callable[[], None]
    watch: Callable[[Slot, WorkerHandle], None]
    unwatch: Callable[[WorkerHandle], None]
    look_again: Callable[[float], None]
    changed: threading.Condition = field(default_factory=threading.Condition)
    draining: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)
