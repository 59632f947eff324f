"""Messages from a node's threads to its dispatcher, which sleeps in select."""

from __future__ import annotations

import contextlib
import os
import queue
from typing import Generic, TypeVar

Message = TypeVar("Message")


class Mailbox(Generic[Message]):
    """A queue whose descriptor is readable while something is in it."""

    def __init__(self) -> None:
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def put(self, message: Message) -> None:
        self._messages.put(message)
        self.wake()

    def wake(self) -> None:
        """Makes the descriptor readable without a message; safe in a signal handler."""
        os.eventfd_write(self._descriptor, 1)

    def drain(self) -> list[Message]:
        """Everything that came, in order."""
        # The descriptor first: what comes after it has been read makes it readable again.
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)
        messages: list[Message] = []
        while True:
            try:
                messages.append(self._messages.get_nowait())
            except queue.Empty:
                return messages

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        os.close(self._descriptor)
