"""An end by SIGTERM that leaves nothing behind, for what tidies up after itself: benches, and the trial of a file."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from batchproc.core.errors import BatchprocError


class Stopped(BatchprocError):
    """A signal ended it; nothing of it is left in the database."""

    exit_code = 130


@contextmanager
def ended_by_sigterm(what: str = "the bench") -> Iterator[None]:
    """SIGTERM raises Stopped, so that nothing is left behind; Ctrl-C raises KeyboardInterrupt anyhow."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Stopped(f"{what} was stopped")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
