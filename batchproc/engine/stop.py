"""The asking and the deadline of a node's stop."""

from __future__ import annotations

import time
from collections.abc import Callable


class Stop:
    """Asked once, what runs may end within the grace; asked again, it is interrupted at once.

    Args:
        grace: seconds.
        begun: called once when the stop begins, in the thread that calls ``heed``.
    """

    def __init__(self, grace: float, begun: Callable[[], None]) -> None:
        self._grace = grace
        self._begun = begun
        self._asked = 0
        self._deadline: float | None = None

    def ask(self) -> None:
        """For signal handlers: only takes note."""
        self._asked += 1

    def at_once(self) -> None:
        """Begins the stop without a grace."""
        self._deadline = time.monotonic()

    def heed(self) -> None:
        """Lets what was asked take effect."""
        now = time.monotonic()
        if self._asked and self._deadline is None:
            self._deadline = now + self._grace
            self._begun()
        if self._asked > 1 and self._deadline is not None:
            self._deadline = min(now, self._deadline)

    @property
    def begun(self) -> bool:
        """Nothing more is to be claimed."""
        return self._deadline is not None

    @property
    def due(self) -> bool:
        """The grace is over."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def seconds_left(self) -> float | None:
        """Of the grace; None when no stop has begun."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
