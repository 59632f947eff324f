"""How one attempt ended, as plain data that crosses the process boundary."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class ErrorClass(StrEnum):
    """Why an attempt failed; decides which budget it is counted against."""

    TRANSIENT = "transient"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out_of_memory"
    LEASE_EXPIRED = "lease_expired"
    PERMANENT = "permanent"
    INVALID = "invalid"
    STORAGE_UNAVAILABLE = "storage_unavailable"


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A job that a handler wants enqueued when its own attempt is settled.

    It inherits tenant, lane, priority, campaign and run from the job that asked for it. ``range_of``: the revision
    that it reads some of the pages of.
    """

    kind: str
    args: dict[str, Any] = field(default_factory=dict)
    document_id: int | None = None
    unique_key: str | None = None
    range_of: int | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned. ``result`` is a JSON object as text, at most 64 kB, or None.

    ``stripped``: so many characters that no database text can hold were taken out of it and of its follow-ups.
    """

    result: str | None = None
    follow_ups: tuple[FollowUp, ...] = ()
    partial: bool = False
    stripped: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed.

    ``error_type`` is the exception's class name and place (``ValueError at scan.py:12``);
    ``detail`` is only ever a text that the handler declared safe to store.
    """

    error_class: ErrorClass
    code: str
    error_type: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked for later; no attempt is used."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The node stopped the attempt (shutdown, clock step); no attempt is used."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """An operator cancelled the job while it ran."""


Outcome = Completed | Failed | Snoozed | Interrupted | Cancelled
