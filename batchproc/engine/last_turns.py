"""Whose turn it was when, remembered between runs: the next one begins with the tenants that waited longest.

Noted in memory as jobs are claimed, written now and then by housekeeping, and at the end of the node. Whatever is not
written costs no job: it is only known by the next run that a tenant had waited longer than it really had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from threading import Lock

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.errors import LockNotAvailable
from psycopg.rows import TupleRow

from batchproc.queue.turn_store import TurnStore

WRITE_SECONDS = 5.0
"""A node that is killed forgets no more. 10,000 tenants take 0.1 s to write, so a fiftieth of the time at most."""


class LastTurns:
    """What one node remembers and what it finds remembered. ``note`` is for one thread, ``write`` for any."""

    def __init__(self, store: TurnStore | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.first_round: Sequence[int] = ()
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._noted: dict[int, float] = {}
        self._write_at = clock() + WRITE_SECONDS

    def load(self, connection: Connection[TupleRow]) -> None:
        """Reads in which order the tenants' turns are to come in the first round; the node has joined."""
        if self._store is not None:
            self.first_round = self._store.first_round(connection)

    def note(self, tenant_ids: Iterable[int]) -> None:
        """It was their turn just now."""
        with self._lock:
            self._noted.update(dict.fromkeys(tenant_ids, self._clock()))

    def write_if_due(self, connection: Connection[TupleRow]) -> None:
        """Writes what was noted, if the last time is ``WRITE_SECONDS`` ago. Raises as ``write``."""
        if self._clock() >= self._write_at:
            self.write(connection)

    def write(self, connection: Connection[TupleRow]) -> None:
        """Writes what was noted. Where somebody holds a row locked, that is done another time.

        Raises:
            psycopg.Error: the database failed, and nothing is forgotten.
        """
        self._write_at = self._clock() + WRITE_SECONDS
        with self._lock:
            noted, self._noted = self._noted, {}
        if not noted or self._store is None:
            return
        now = self._clock()
        try:
            self._store.write(connection, {tenant_id: now - then for tenant_id, then in noted.items()})
        except psycopg.Error as error:
            if isinstance(error, psycopg.IntegrityError):  # a tenant went in this moment
                logger.warning("whose turn it was is not written: {}", error.diag.message_primary)
                return
            with self._lock:
                self._noted = noted | self._noted
            if not isinstance(error, LockNotAvailable):
                raise
            logger.warning("whose turn it was is not written yet: somebody holds a tenant's row locked")
