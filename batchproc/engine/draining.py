"""What a run still waits for when it has nothing to do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.engine.dispatch_options import DispatchOptions
from batchproc.engine.ready import ReadyQueues
from batchproc.engine.unserved import GivingUp
from batchproc.queue.claiming import ReadyQueue
from batchproc.queue.node_store import NodeStore

_LOOKED_AT = 1000
"""Queues whose first job is tried at the end of a run: one that is locked shows that they are to be tried again."""


class Draining:
    """Looks now and then whether something is left, and brings what it finds to the ready queues."""

    def __init__(
        self,
        store: NodeStore,
        ready: ReadyQueues,
        run_id: int,
        options: DispatchOptions,
        giving_up: GivingUp | None = None,
    ) -> None:
        self._store = store
        self._ready = ready
        self._run_id = run_id
        self._options = options
        self._giving_up = giving_up
        self._next = 0.0
        self._locked_since: float | None = None
        self._first_leases: dict[UUID, datetime] = {}

    @property
    def seconds_left(self) -> float:
        """Until the next look."""
        return self._next - time.monotonic()

    def is_due(self) -> bool:
        """Whether it is time to look; if so, the next time is after a poll interval."""
        if self.seconds_left > 0:
            return False
        self._next = time.monotonic() + self._options.poll_interval
        return True

    def has_to_wait(self, connection: Connection[TupleRow]) -> bool:
        """Whether something is left that the ready queues do not know of, or cannot give yet.

        That is: a retry that this run caused and that is due within ``drain_wait`` (and the run's window), claims of a
        dead node that wait for their rescue or for the end of its lease, what waited for a storage and is taken up, a
        queue whose first job somebody holds locked, and jobs to be given up because nobody has their languages.
        """
        # First what will become available, then what is: housekeeping moves jobs from the one to the other meanwhile.
        retries, expired = self._store.undrained(connection, self._run_id, self._longest_wait())
        self._ready.hint(self._store.promote(connection))
        takes_up = self._store.takes_up
        waiting = [found for found in self._store.ready(connection) if self._ready.in_scope(found.queue)]
        self._ready.learn(waiting)
        if (
            retries
            or expired
            or takes_up
            or self._some_may_be_dead(connection)
            or self._are_locked(connection, waiting)
        ):
            return True
        return self._giving_up is not None and self._giving_up.has_to_wait(connection)

    def _longest_wait(self) -> float:
        """Seconds from now within which a retry has to be due."""
        claims_end = self._options.window.until_claims_end(self._options.shutdown_grace)
        wait = self._options.drain_wait
        return wait if claims_end is None else max(0.0, min(wait, claims_end))

    def _are_locked(self, connection: Connection[TupleRow], waiting: Sequence[ReadyQueue]) -> bool:
        """Whether somebody, such as an operator's open transaction, holds the first job of a queue locked.

        Claims pass over it, so that the queue seems empty. It is waited for like a retry, and no longer.
        """
        fronts = [found.front.job_id for found in waiting[:_LOOKED_AT]]
        locked = self._store.locked(connection, fronts) if fronts else 0
        if not locked:
            self._locked_since = None
            return False
        if self._locked_since is None:
            self._locked_since = time.monotonic()
            logger.warning("{} due jobs are locked by somebody else's transaction, and waited for", locked)
        if time.monotonic() < self._locked_since + self._options.drain_wait:
            return True
        logger.warning(
            "{} due jobs are left: they have been locked by somebody else's transaction for too long", locked
        )
        return False

    def _some_may_be_dead(self, connection: Connection[TupleRow]) -> bool:
        """Whether a node that holds jobs has given no sign of life since this run first saw it.

        A node killed just before this run has a lease still. One that lives renews it several times in a lease, so
        that nobody waits long for the living.
        """
        return any(
            lease_until <= self._first_leases.setdefault(node_id, lease_until)
            for node_id, lease_until in self._store.working_nodes(connection).items()
        )
