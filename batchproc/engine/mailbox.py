"""Messages from a node's threads to its dispatcher, which sleeps in select."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Hashable
from threading import RLock
from typing import Generic, TypeVar

Message = TypeVar("Message")


class Mailbox(Generic[Message]):
    """A queue whose descriptor is readable while something is in it.

    Threads that outlive their node may still put something: after the close it goes nowhere.
    """

    def __init__(self) -> None:
        # Taken again by a signal handler that wakes, in the thread that holds it.
        self._lock = RLock()
        self._messages: dict[Hashable, Message] = {}
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closed = False

    def put(self, message: Message, replaces: Hashable = None) -> None:
        """Adds it; in the place of an unread one that was put with the same ``replaces``, if that is not None.

        So what is told again and again does not pile up while nobody reads.
        """
        with self._lock:
            if self._closed:
                return
            key: Hashable = object() if replaces is None else replaces
            self._messages.pop(key, None)
            self._messages[key] = message
            self.wake()

    def wake(self) -> None:
        """Makes the descriptor readable without a message; safe in a signal handler."""
        with self._lock:
            # Closed, the number may be another file's by now.
            if not self._closed:
                os.eventfd_write(self._descriptor, 1)

    def drain(self) -> list[Message]:
        """Everything that came, in order."""
        with self._lock:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._descriptor)
            messages = list(self._messages.values())
            self._messages.clear()
            return messages

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._descriptor)
