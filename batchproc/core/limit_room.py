"""The room that the limits of kinds and tenants, and the rates of kinds, leave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from batchproc.core.queues import Queue


class Room(NamedTuple):
    """How many more jobs may be claimed; and seconds until there is a token, where only that is lacking."""

    jobs: int
    seconds: float | None = None


@dataclass(slots=True)
class Rooms:
    """The room that limits leave, by the database's word. What is not named has no limit, or was not asked for."""

    kinds: dict[str, Room] = field(default_factory=dict)
    tenants: dict[int, Room] = field(default_factory=dict)

    def lacks(self, queue: Queue) -> bool:
        """Whether the queue's kind or its tenant has no room."""
        return any(
            room is not None and room.jobs <= 0
            for room in (self.kinds.get(queue.kind), self.tenants.get(queue.tenant_id))
        )
