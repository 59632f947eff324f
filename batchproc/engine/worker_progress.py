"""The progress record of a slot, as its worker writes it."""

from __future__ import annotations

from typing import Protocol

from batchproc.handlers.context import ProgressSink


class WorkerProgress(ProgressSink, Protocol):
    """What handlers tell, and what the worker tells beside them."""

    def note_backend(self, pid: int) -> None: ...
    def loading(self, on: bool) -> None: ...
