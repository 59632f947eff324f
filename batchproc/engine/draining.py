"""What a run still waits for when it has nothing to do."""

from __future__ import annotations

import time
from datetime import datetime
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.engine.dispatch_options import DispatchOptions
from batchproc.engine.ready import ReadyQueues
from batchproc.engine.unserved import GivingUp
from batchproc.queue.node_store import NodeStore


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
        """Whether a retry that this run caused is due within ``drain_wait``, claims of a dead node wait for their
        rescue, or for the end of its lease, what waited for a storage is taken up, or jobs are to be given up because
        nobody has their languages. Otherwise it is for the ready queues to say whether anything is left.
        """
        # First what will become available, then what is: housekeeping moves jobs from the one to the other meanwhile.
        retries, expired = self._store.undrained(connection, self._run_id, self._options.drain_wait)
        self._ready.hint(self._store.promote(connection))
        takes_up = self._store.takes_up
        self._ready.learn([found for found in self._store.ready(connection) if self._ready.in_scope(found.queue)])
        if retries or expired or takes_up or self._some_may_be_dead(connection):
            return True
        return self._giving_up is not None and self._giving_up.has_to_wait(connection)

    def _some_may_be_dead(self, connection: Connection[TupleRow]) -> bool:
        """Whether a node that holds jobs has given no sign of life since this run first saw it.

        A node killed just before this run has a lease still. One that lives renews it several times in a lease, so
        that nobody waits long for the living.
        """
        return any(
            lease_until <= self._first_leases.setdefault(node_id, lease_until)
            for node_id, lease_until in self._store.working_nodes(connection).items()
        )
