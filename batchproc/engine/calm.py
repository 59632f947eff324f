"""How long the database has been answering this node promptly: as long, others could renew their leases, too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

# An answer that takes this part of a lease is a disturbance.
_SLOW = 0.25


class Calm:
    """Told by several threads. An outage, or a database that stands still, must not make everybody rescue everybody.

    Whatever keeps another node from renewing until its lease ends also meets this node's own renewals, of which there
    are several in a lease.

    Args:
        lease: seconds.
    """

    def __init__(self, lease: float) -> None:
        self._slow = lease * _SLOW
        self._since = time.monotonic()
        self._waiting: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """Since the last disturbance; 0 while one goes on."""
        now = time.monotonic()
        if any(now - begun > self._slow for begun in list(self._waiting.values())):
            return 0.0
        return now - self._since

    @contextmanager
    def asking(self, who: str) -> Iterator[None]:
        """Around what asks the database; ``who`` asks one thing at a time."""
        begun = self._waiting[who] = time.monotonic()
        try:
            yield
        except BaseException:
            self._since = time.monotonic()
            raise
        finally:
            now = time.monotonic()
            if now - begun > self._slow:
                self._since = now
            del self._waiting[who]
