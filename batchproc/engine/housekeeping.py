"""What a node does beside dispatching: listens, looks for ready queues, promotes, rescues."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event, Thread

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import BatchprocError
from batchproc.core.fairness import Queue
from batchproc.core.job import Claim, JobState, KindSpec
from batchproc.core.outcome import ErrorClass, Failed
from batchproc.engine.bad_pages import PageBlame
from batchproc.engine.calm import Calm
from batchproc.engine.gone_storages import GoneStorages
from batchproc.engine.last_turns import LastTurns
from batchproc.engine.meters import Meters
from batchproc.engine.news import CancelRequested, Faulted, Hinted, NewsBox, ReadyNow, Rescued
from batchproc.engine.outage import Outage
from batchproc.engine.unserved import GivingUp
from batchproc.queue.listener import Listener
from batchproc.queue.node_store import Ended, NodeStore, Settled

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_JOIN_SECONDS = 2.0
# Each is small; after so many seconds of them it is time to listen again, and to see what else there is.
_PROMOTING_SECONDS = 1.0


class Housekeeping:
    """A thread with a connection of its own; it tells the dispatcher what it found through the mailbox.

    Args:
        lease: seconds; a dead node's claims are taken back only after one lease of calm and of database uptime, so
            that an outage does not make everybody rescue everybody.
        outage: how long looks may fail; then the dispatcher is told that the run has to end.
        calm: is told of every look.
        giving_up: looks for jobs whose languages nobody has; without it none is given up.
        gone: puts off what lies on a storage that is gone; without it each job finds that out by itself.
        turns: is written now and then.
        meters: are told of every claim of a dead node that was taken back.
    """

    def __init__(
        self,
        store: NodeStore,
        connect: Callable[[], Connection[TupleRow]],
        news: NewsBox,
        specs: Mapping[str, KindSpec],
        *,
        schema: str,
        poll_interval: float,
        lease: float,
        max_node_losses: int,
        outage: Outage,
        calm: Calm | None = None,
        giving_up: GivingUp | None = None,
        gone: GoneStorages | None = None,
        turns: LastTurns | None = None,
        meters: Meters | None = None,
    ) -> None:
        self._store = store
        self._connect = connect
        self._news = news
        self._schema = schema
        self._poll_interval = poll_interval
        self._lease = lease
        self._calm = calm or Calm(lease)
        self._blame = PageBlame(schema, specs, max_node_losses)
        self._outage = outage
        self._giving_up = giving_up
        self._gone = gone
        self._turns = turns or LastTurns()
        self._meters = meters or Meters()
        self._pause = 0.0
        self._stop = Event()
        self._thread = Thread(target=self._keep, name="housekeeping", daemon=True)

    def start(self) -> None:
        """Begins to look; the node has joined."""
        self._thread.start()

    def stop(self, most: float = _JOIN_SECONDS) -> None:
        """Ends the thread; one that hangs in a silent network for so many seconds is left to end by itself."""
        self._stop.set()
        self._thread.join(most)

    def _keep(self) -> None:
        try:
            self._serve_again_and_again()
        except Exception as error:  # noqa: BLE001 - without housekeeping a run would never end, nor learn of a job
            self._news.tell(Faulted(error))

    def _serve_again_and_again(self) -> None:
        while not self._stop.wait(self._pause):
            try:
                with self._calm.asking("housekeeping's connection"):
                    opened = self._connect()
                with opened as connection:
                    self._serve(connection)
            except (psycopg.Error, BatchprocError) as error:
                self._pause = min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, self._pause * 2))
                name = type(error).__name__
                logger.warning("housekeeping lost the database ({}), next try in {:g} s", name, self._pause)
                self._outage.failed(error)

    def _serve(self, connection: Connection[TupleRow]) -> None:
        listener = Listener(connection, self._schema)
        due = 0.0
        while not self._stop.is_set():
            now = time.monotonic()
            if now >= due:
                with self._calm.asking("housekeeping"):
                    is_done = self._look(connection)
                due = now + self._poll_interval if is_done else now
                self._pause = 0.0
                self._outage.over()
            # Short waits, so that a stop is noticed; notifications end a wait at once.
            heard = listener.wait(min(0.25, max(0.0, due - time.monotonic())))
            for hint in heard.hints:
                self._news.tell(Hinted(*hint))
            if heard.cancel:
                self._tell_cancels(connection)
            if heard.refresh:
                due = 0.0

    def _tell_cancels(self, connection: Connection[TupleRow]) -> None:
        claims = self._store.cancel_requested(connection)
        if claims:
            self._news.tell(CancelRequested(claims))

    def _look(self, connection: Connection[TupleRow]) -> bool:
        """Whether the next look has time until the next poll."""
        self._tell_cancels(connection)
        for queue in self._store.put_right(connection):
            self._news.tell(Hinted(queue))
        is_done = self._promote(connection)
        if self._gone is not None:
            is_done = self._gone.put_off(connection, self._stop) and is_done
        if self._calm.seconds >= self._lease and self._store.uptime(connection) >= self._lease:
            self._rescue(connection)
        if self._giving_up is not None:
            self._giving_up.look(connection, self._stop)
        self._turns.write_if_due(connection)
        ready = self._store.ready(connection)
        self._news.tell(ReadyNow(ready, self._store.rooms(connection)))
        return is_done

    def _promote(self, connection: Connection[TupleRow]) -> bool:
        """Whether nothing is due any more."""
        until = time.monotonic() + _PROMOTING_SECONDS
        while promoted := self._store.promote(connection):
            for queue in promoted:
                self._news.tell(Hinted(queue))
            if self._stop.is_set() or time.monotonic() >= until:
                return False
        return True

    def _rescue(self, connection: Connection[TupleRow]) -> None:
        claims = self._store.expired_claims(connection)
        if not claims:
            return
        lost = Failed(ErrorClass.LEASE_EXPIRED, "lease_expired")
        endings = self._blame.after_losses(connection, claims, lost)
        settled = self._take_back(connection, [ending for ending in endings if ending.also is None])
        if alone := [ending for ending in endings if ending.also is not None]:
            settled.states.update(self._store.settle_one_by_one(connection, alone, rescue=True).states)
        if settled.states:
            self._count(claims, endings, settled)
            discarded = sum(state is JobState.DISCARDED for state in settled.states.values())
            logger.warning("took back {} jobs of nodes whose lease has ended", len(settled.states))
            self._news.tell(Rescued(len(settled.states), discarded))
            for claim in claims:
                self._news.tell(Hinted(Queue(claim.lane, claim.tenant_id, claim.kind)))

    def _count(self, claims: Sequence[Claim], endings: Sequence[Ended], settled: Settled) -> None:
        by_id = {claim.claim_id: claim for claim in claims}
        for ending in endings:
            claim_id = ending.transition.claim_id
            if (stored := settled.states.get(claim_id)) is not None:
                self._meters.rescued(by_id[claim_id], ending.transition, stored)

    def _take_back(self, connection: Connection[TupleRow], endings: list[Ended]) -> Settled:
        try:
            return self._store.settle(connection, endings, rescue=True)
        except psycopg.Error as error:
            if connection.closed:
                raise
            # A row that a cut-off node's handler still holds keeps none of the others.
            logger.error("a rescue of {} jobs failed ({}), one by one", len(endings), type(error).__name__)
            return self._store.settle_one_by_one(connection, endings, rescue=True)
