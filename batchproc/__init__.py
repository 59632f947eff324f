"""A multiprocessing batch processor for multi-tenant document archives on PostgreSQL."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from batchproc.version import __version__

if TYPE_CHECKING:
    from batchproc.api import Context, Enqueued, Failure, Lane, NewJob, Queue, Snooze, StorageUnavailable, handler

__all__ = [
    "Context",
    "Enqueued",
    "Failure",
    "Lane",
    "NewJob",
    "Queue",
    "Snooze",
    "StorageUnavailable",
    "__version__",
    "handler",
]


def __getattr__(name: str) -> Any:
    # Looked up when first used: the command line and the workers import much less than the whole API.
    if name in __all__:
        return getattr(import_module("batchproc.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
