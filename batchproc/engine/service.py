"""What a node tells the service manager, and the settings that it reads again when asked to, while it runs."""

from __future__ import annotations

from collections.abc import Callable

from batchproc.engine.sd_notify import Notifier


class Service:
    """Called with each turn of the dispatcher, in its thread.

    So the watchdog is fed only as long as that loop goes round: a node that hangs is noticed and started again.

    Args:
        stopping: whether a stop has begun.
        wake: ends the dispatcher's wait; safe in a signal handler.
        reload: reads the settings again.
    """

    def __init__(
        self,
        notifier: Notifier,
        stopping: Callable[[], bool],
        wake: Callable[[], None],
        reload: Callable[[], None],
    ) -> None:
        self._notifier = notifier
        self._stopping = stopping
        self._wake = wake
        self._reload = reload
        self._reload_asked = False
        self._told_ready = self._told_stopping = False

    def ask_reload(self) -> None:
        """For signal handlers: only takes note."""
        self._reload_asked = True
        self._wake()

    def turn(self) -> None:
        """The dispatcher works."""
        if not self._told_ready:
            self._told_ready = True
            self._notifier.ready("claims jobs")
        if self._stopping() and not self._told_stopping:
            self._told_stopping = True
            self._notifier.stopping("claims nothing more; what runs may end")
        if self._reload_asked:
            self._reload_asked = False
            self._read_again()
        self._notifier.alive()

    def _read_again(self) -> None:
        if self._told_stopping:
            return
        self._notifier.reloading()
        self._reload()
        self._notifier.ready("claims jobs")
