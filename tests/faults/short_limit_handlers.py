"""Kinds whose limits are shorter than a worker's patience with the database."""

from __future__ import annotations

from batchproc.handlers.context import Context
from batchproc.handlers.registry import handler

MODULE = __name__


@handler("s_brief", timeout=3, stall_timeout=2, max_attempts=1, max_timeouts=1, max_crashes=1)
def brief(_: Context) -> None:
    """Does nothing: one attempt is enough, and all it has."""


@handler("s_silent", timeout=1, max_attempts=1, max_timeouts=1, max_crashes=1)
def silent(_: Context) -> None:
    """As ``s_brief``, with a limit that is shorter than any attempt to connect may last."""
