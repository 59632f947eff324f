"""The asking and the deadline of a node's stop: by signals, or because its window ends."""

from __future__ import annotations

import time
from collections.abc import Callable

from loguru import logger

from batchproc.engine.window import WindowWatch


class Stop:
    """Asked once, what runs may end within the grace; asked again, it is interrupted at once.

    The end of a window is a stop that nobody has to ask for: it begins the grace before the window's end.

    Args:
        grace: seconds.
        begun: called once when the stop begins, in the thread that calls ``heed``.
    """

    def __init__(self, grace: float, begun: Callable[[], None], window: WindowWatch | None = None) -> None:
        self.grace = grace
        self._begun = begun
        self._window = window or WindowWatch()
        self._asked = 0
        self._deadline: float | None = None
        self._for_window = False

    def change(self, grace: float) -> None:
        """Of a stop that has not begun yet."""
        self.grace = grace

    def ask(self) -> None:
        """For signal handlers: only takes note."""
        self._asked += 1

    def at_once(self) -> None:
        """Begins the stop without a grace."""
        self._deadline = time.monotonic()

    def heed(self) -> None:
        """Lets what was asked, and the window, take effect."""
        now = time.monotonic()
        if self._asked and self._deadline is None:
            self._begin(now + self.grace)
        claims_end, kill = self._window.until_claims_end(self.grace), self._window.until_kill()
        if claims_end is not None and kill is not None and claims_end <= 0:
            if self._deadline is None:
                self._for_window = True
                logger.info(
                    "the window of this run ends soon: nothing more is claimed, what runs has {:.0f} s", max(0.0, kill)
                )
                self._begin(now + kill)
            elif self._for_window or now + kill < self._deadline:
                self._deadline = now + kill  # its clock may have been set, or a signal have come before it
        if self._asked > 1 and self._deadline is not None:
            self._deadline = min(now, self._deadline)

    def _begin(self, deadline: float) -> None:
        self._deadline = deadline
        self._begun()

    @property
    def asked(self) -> bool:
        """Whether a signal has asked for it."""
        return self._asked > 0

    @property
    def for_window(self) -> bool:
        """Whether it began because the window ends."""
        return self._for_window

    @property
    def begun(self) -> bool:
        """Nothing more is to be claimed."""
        return self._deadline is not None

    @property
    def due(self) -> bool:
        """The grace is over."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def seconds_left(self) -> float | None:
        """Of the grace; before a stop has begun, until the window begins one. None when neither is to come."""
        if self._deadline is not None:
            return max(0.0, self._deadline - time.monotonic())
        claims_end = self._window.until_claims_end(self.grace)
        return None if claims_end is None else max(0.0, claims_end)
