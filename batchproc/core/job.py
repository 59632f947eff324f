"""Jobs and kinds: the words of the queue as types."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple
from uuid import UUID

MAX_ATTEMPTS = 5
"""Attempts of a job when nothing else is said, such as of a kind that is not known where it is enqueued."""


class JobState(StrEnum):
    """``available`` means due now; what is not due is ``scheduled``; ``held`` is paused with its campaign."""

    SCHEDULED = "scheduled"
    AVAILABLE = "available"
    RUNNING = "running"
    HELD = "held"
    COMPLETED = "completed"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"


class Lane(IntEnum):
    """What a person waits for goes before what the night may take."""

    INTERACTIVE = 0
    BULK = 1


@dataclass(frozen=True, slots=True)
class KindSpec:
    """What the node must know of a kind. Times in seconds, ``rate`` in jobs a second (see ``core.rates``)."""

    name: str
    timeout: float = 600.0
    stall_timeout: float | None = None
    max_attempts: int = MAX_ATTEMPTS
    max_timeouts: int = 2
    max_crashes: int = 3
    base: float = 2.0
    cap: float = 300.0
    bundle: int = 1
    limit: int | None = None
    rate: float | None = None
    burst: int | None = None
    unique_while_running: bool = False
    lane: Lane | None = None
    failure_codes: frozenset[str] = frozenset()
    fails_document: bool = False
    fails_page: bool = False
    needs_languages: bool = False


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to enqueue. ``run_at`` None means now, by the database's clock.

    ``languages``: what it asks for itself (see ``core.languages``); None leaves it to its args and its document.
    """

    tenant_id: int
    kind: str
    args: dict[str, Any] = field(default_factory=dict)
    document_id: int | None = None
    lane: Lane = Lane.BULK
    priority: int = 5
    run_at: datetime | None = None
    unique_key: str | None = None
    max_attempts: int | None = None
    campaign_id: int | None = None
    run_id: int | None = None
    languages: tuple[str, ...] | None = None


class Claim(NamedTuple):
    """A job this node holds, with what ``settle`` needs to decide its ending.

    ``range_of``: the revision of which it reads a range, or joins the ranges; None of a job that stands for itself.
    """

    job_id: int
    claim_id: UUID
    tenant_id: int
    kind: str
    lane: int
    priority: int
    attempt: int
    max_attempts: int
    crashes: int
    timeouts: int
    node_losses: int
    range_of: int | None = None
