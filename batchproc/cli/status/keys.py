"""Single keys from a terminal, without waiting for Enter."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType


class Keys:
    """Reads keys while it is entered, and leaves the terminal as it was. Without a terminal on stdin there are none."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._before: list[object] = []

    def __enter__(self) -> Keys:
        if sys.stdin.isatty():
            self._descriptor = sys.stdin.fileno()
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

    def next(self, within: float) -> str | None:
        """What was typed within so many seconds, at once; None when nothing was. A closed terminal gives ``q``."""
        readable, _, _ = select.select([] if self._descriptor is None else [self._descriptor], [], [], within)
        if not readable or self._descriptor is None:
            return None
        typed = os.read(self._descriptor, 64).decode(errors="replace")
        return typed or "q"
