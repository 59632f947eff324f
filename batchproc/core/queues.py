"""What jobs wait in, and what is claimed of it."""

from __future__ import annotations

from typing import NamedTuple


class Queue(NamedTuple):
    """Jobs that are interchangeable but for priority and age."""

    lane: int
    tenant_id: int
    kind: str


class Turn(NamedTuple):
    """Claim up to ``jobs`` jobs of ``queue``; in one choice every queue occurs once at most."""

    queue: Queue
    jobs: int
