"""How long a node goes on while its database fails, and what it says of it."""

from __future__ import annotations

import time

import psycopg
from loguru import logger

from batchproc.core.errors import BatchprocError, EnvironmentFault

# Longer than any wait between two failures of one outage: for a lock, an answer, a connection.
_CALM = 90.0
_ADVICE = "start it when the database is mended"


class Outage:
    """Counts from the first failure to the next success. A limit of so many seconds in between ends the run.

    Only a transaction that was committed is a success: a server that only reads, or has no room, lets everybody
    connect. A failure long after the last one begins a new outage, also when there was nothing to commit in between.

    Args:
        limit: seconds.
        of: what it is that fails, in the words of the error that ends the run.
        advice: what to do about it.
    """

    def __init__(self, limit: float, of: str = "the database", advice: str = _ADVICE) -> None:
        self.limit = limit
        self._of = of
        self._advice = advice
        self._since: float | None = None
        self._latest = 0.0
        self._cause = ""
        self._seconds = 0.0
        self.count = 0
        """Outages that have begun."""

    @property
    def seconds(self) -> float:
        """How long they took, with that which goes on; to be asked from any thread."""
        since = self._since
        return self._seconds + (0.0 if since is None else max(self._latest, since) - since)

    def failed(self, error: psycopg.Error | BatchprocError) -> None:
        """Takes note of a failure, and logs each cause once.

        Raises:
            EnvironmentFault: the database has failed for longer than the limit.
        """
        cause = _described(error)
        now = time.monotonic()
        if self._since is None or now - self._latest > _CALM:
            self._close()
            self._since, self._cause = now, ""
            self.count += 1
        self._latest = now
        if cause != self._cause:
            logger.warning("the database failed ({}), trying again", cause)
            self._cause = cause
        if now - self._since > self.limit:
            raise EnvironmentFault(
                f"{self._of} failed for {self.limit:g} s ({cause})",
                f"what was claimed is taken back by the next run; {self._advice}",
            )

    def over(self) -> bool:
        """The database did what it was asked to; whether it had failed before."""
        if self._since is None:
            return False
        logger.info("the database works again after {:.1f} s", time.monotonic() - self._since)
        self._latest = time.monotonic()
        self._close()
        return True

    def _close(self) -> None:
        self._seconds, self._since, self._cause = self.seconds, None, ""


def _described(error: psycopg.Error | BatchprocError) -> str:
    if isinstance(error, BatchprocError):
        return error.message
    # Not its text, which may quote what was to be written.
    return f"{type(error).__name__} {error.sqlstate or ''}".strip()
