"""Kinds that only the benches enqueue; not among the built-in handlers."""

from __future__ import annotations

from batchproc.handlers.context import Context
from batchproc.handlers.registry import handler


@handler("bench_noop", timeout=60)
def noop(_: Context) -> None:
    """Does nothing: what is measured is the queue."""
