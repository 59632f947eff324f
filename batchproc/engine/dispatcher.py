"""The parent's loop: settle what finished, choose, claim, submit, wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.ahead import Ahead
from batchproc.core.errors import EnvironmentFault
from batchproc.core.fairness import Turn
from batchproc.core.job import Claim, KindSpec
from batchproc.core.limit_room import Rooms
from batchproc.core.outcome import Completed
from batchproc.engine import news_reading
from batchproc.engine.allowance import Allowance
from batchproc.engine.alone import Alone
from batchproc.engine.backends import LeftBackends
from batchproc.engine.braking import Braking
from batchproc.engine.counts import Counts
from batchproc.engine.database_link import DatabaseLink
from batchproc.engine.dispatch_options import DispatchOptions
from batchproc.engine.draining import Draining
from batchproc.engine.filling import fill
from batchproc.engine.last_turns import LastTurns
from batchproc.engine.news import NewsBox
from batchproc.engine.outage import Outage
from batchproc.engine.pool.worker_pool import Ended, WorkerPool
from batchproc.engine.progress_notes import ProgressNotes
from batchproc.engine.ready import ReadyQueues
from batchproc.engine.settling import Settling, Written
from batchproc.engine.stop import Stop
from batchproc.engine.unserved import GivingUp
from batchproc.engine.waiting import wait_readable
from batchproc.queue.node_store import NodeStore

T = TypeVar("T")

_LONGEST_SLEEP = 0.5
_SHORT_SLEEP = 0.1
_LONGEST_ABANDON = 10.0
_LEASE_LOST = "the lease of the node was lost"


class Dispatcher:
    """Runs jobs until there are none left (or for ever), in the calling thread."""

    def __init__(
        self,
        store: NodeStore,
        connect: Callable[[], Connection[TupleRow]],
        pool: WorkerPool,
        news: NewsBox,
        settling: Settling,
        specs: Mapping[str, KindSpec],
        options: DispatchOptions,
        run_id: int,
        braking: Braking,
        giving_up: GivingUp | None = None,
        turns: LastTurns | None = None,
    ) -> None:
        self._store = store
        self._pool = pool
        self._news = news
        self._settling = settling
        self._specs = specs
        self._options = options
        self._run_id = run_id
        by_seconds = options.fairness == "worker_seconds"
        self._ready = ReadyQueues(options.lane_weights, specs, options.scope, by_seconds=by_seconds, turns=turns)
        self._braking = braking
        self._giving_up = giving_up
        self._alone = Alone(options.max_node_losses)
        self._ahead = Ahead()
        self._allowance = Allowance(options, pool, settling, self._ready, self._alone, self._ahead)
        self._backends = LeftBackends(store)
        self._progress = ProgressNotes(store, pool, settling.counts, run_id)
        self._draining = Draining(store, self._ready, run_id, options, giving_up)
        self._stop = Stop(options.shutdown_grace, pool.drain, options.window)
        self._database = DatabaseLink(connect, store, settling, options.outage_limit, self._pause, self._apply)
        self._lease_is_lost = False
        self.join_again: Callable[[Connection[TupleRow]], None] = lambda _: None
        self.each_turn: Callable[[], None] = lambda: None

    @property
    def counts(self) -> Counts:
        return self._settling.counts

    @property
    def stopping(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop.asked

    @property
    def stop(self) -> Stop:
        return self._stop

    def reserve(self, workers: int) -> None:
        """Keeps so many workers for interactive jobs from now on; in the dispatcher's own thread."""
        self._allowance.reserved = workers

    @property
    def outage(self) -> Outage:
        """What is known of failures of the database."""
        return self._database.outage

    @property
    def holds_claims(self) -> bool:
        """Whether claims of this node are not settled yet."""
        return bool(self._settling.held())

    @property
    def connection(self) -> Connection[TupleRow]:
        """The dispatcher's own connection, for its thread only."""
        return self._database.connection

    def run(self) -> None:
        """Returns when the run is done or was stopped.

        Raises:
            EnvironmentFault: the database was gone for longer than its outage limit, or no worker can start.
        """
        self._database.open()
        while True:
            self._stop.heed()
            self.each_turn()
            self._stop_what_the_lease_left()
            news_reading.heed(self._news, self._ready, self._settling, self._pool, self._braking, self._giving_up)
            self._collect()
            progressed = self._tick_or_recover()
            if not progressed and (self._stopped() or self._drained()):
                return
            if not progressed:
                self._wait()

    def claim(self, job_id: int) -> bool:
        """Claims and submits that one job, due or not; False when it does not wait, or its kind is unknown here."""

        def claim_it(connection: Connection[TupleRow]) -> Claim | None:
            # After a commit of unknown fate it may be claimed, and waits to be given back.
            if self._settling.pending:
                self._apply(self._settling.write_apart(connection))
            return self._store.claim_one(connection, job_id, self._run_id)

        claim = self._database.insist(claim_it)
        if claim is not None:
            self._submit([claim])
        return claim is not None

    def request_stop(self) -> None:
        """Claims nothing more and lets what runs end within the grace; asked again, interrupts at once.

        For signal handlers: it only takes note.
        """
        self._stop.ask()
        self._news.wake()

    def lease_lost(self) -> None:
        """For the lease's thread: the claims are no longer safe, whatever runs is killed and given back."""
        self._lease_is_lost = True
        self._pool.interrupt(_LEASE_LOST)
        self._news.wake()

    def abandon(self) -> None:
        """After a fault: kills what runs and gives it back, as far as the database still answers."""
        self._stop.at_once()
        self._pool.interrupt("the node met a fault")
        deadline = time.monotonic() + _LONGEST_ABANDON
        try:
            while self._settling.held() and time.monotonic() < deadline:
                self._collect()
                self._database.write_stuck()
                if self._settling.is_stuck:
                    break
                if not self._tick():
                    wait_readable([self._pool.wakeup_fileno()], 0.05)
        except psycopg.Error:
            logger.warning("{} claims are left to be taken back by another node", len(self._settling.held()))

    def insist(self, action: Callable[[Connection[TupleRow]], T]) -> T:
        """Does something that may be done twice until the database has done it, within the outage limit."""
        return self._database.insist(action)

    def close(self) -> None:
        self._database.close()

    # -- one tick

    def _collect(self) -> None:
        self._note(self._pool.poll())
        self._backends.end(self.connection)

    def _note(self, ended: Sequence[Ended]) -> None:
        self._backends.note(ended)
        self._settling.ended(ended)
        for end in ended:
            claim = self._settling.held()[end.work.claim_id]
            self._ready.ended(claim, end.seconds)
            if isinstance(end.outcome, Completed):  # one that was interrupted soon is not quick for that
                self._ahead.completed(claim, end.seconds)

    def _tick_or_recover(self) -> bool:
        """A tick, whatever the database makes of it; False when there was nothing to do."""
        try:
            self._database.write_stuck()
            worked = self._tick()
        except psycopg.Error as error:
            self._database.mend(error)
            return True
        if worked:
            self._database.works()
        return worked

    def _tick(self) -> bool:
        """Settles and claims in one transaction; False when there was nothing to do."""
        if self._braking.due:
            self._braking.pause(self.connection)
        blamed = self._settling.write_blamed(self.connection)
        if blamed is not None:
            self._apply(blamed)
        if self._alone_is_next():
            return self._claim_alone()
        turns = self._choose()
        if not turns and not self._settling.pending:
            return blamed is not None
        endings = self._settling.endings(self.connection)
        begun, rooms = time.monotonic(), Rooms()
        settled, claims = self._store.tick(
            self.connection,
            endings,
            turns,
            limited=self._ready.limited(turns),
            run_id=self._run_id,
            after=self._ready.floors(turns),
            rooms=rooms,
        )
        seconds = time.monotonic() - begun
        self._apply(self._settling.written(endings, settled))
        self._ready.claimed(turns, claims, seconds, rooms)
        self._submit(claims)
        return True

    def _choose(self) -> list[Turn]:
        slots, jobs = self._allowance.slots, self._allowance.jobs
        if slots <= 0 or jobs == 0 or not self._may_claim or self._alone.blocks(self._settling.held()):
            return []
        without = self._braking.unpaused | self._options.window.withheld()
        return self._ready.choose(slots, self._allowance.bulk_slots, jobs=jobs, without=without)

    @property
    def _may_claim(self) -> bool:
        return not self._stop.begun and not self._lease_is_lost

    def _alone_is_next(self) -> bool:
        return self._alone.waits and not self._settling.held() and self._may_claim and self._pool.free() > 0

    def _claim_alone(self) -> bool:
        # Gone, paused or at a limit by now: somebody else runs it, or its turn comes again.
        claim = self._store.claim_one(self.connection, self._alone.take(), self._run_id, within_limits=True)
        if claim is not None:
            self._submit([claim])
        return True

    def _apply(self, written: Written) -> None:
        self._ready.freed(written.freed)
        self._ready.hint(written.waiting)
        for queue, priority in written.followed:
            self._ready.hint([queue], priority)

    def _submit(self, claims: list[Claim]) -> None:
        claims, put_back = self._alone.sorted_out(claims, self._settling.held())
        self._give_back(put_back, "it has to run alone: it was there each time a node was lost")
        self._settling.hold(claims)
        if self._lease_is_lost:
            # It was lost while the claim was on its way: these jobs may be somebody else's in a moment.
            self._give_back(claims, _LEASE_LOST)
            return
        refused = fill(self._pool, claims, self._specs, self._ahead, self._allowance)
        self._give_back(refused, "no worker was free for it any more")
        self._settling.names.learn(self.connection, claims)
        self._stop_what_the_lease_left()

    def _give_back(self, claims: Sequence[Claim], reason: str) -> None:
        self._settling.give_back(claims, reason)
        for claim in claims:
            self._ready.ended(claim, 0.0)

    def _stop_what_the_lease_left(self) -> None:
        # A job that was submitted while the lease's thread stopped all others was not there yet to be stopped.
        if self._lease_is_lost and self._settling.held():
            self._pool.interrupt(_LEASE_LOST)

    # -- waiting and ending

    def _stopped(self) -> bool:
        if self._stop.due and self._settling.held():
            self._pool.interrupt("the node is shutting down")
        return self._stop.begun and not self._settling.held()

    def _drained(self) -> bool:
        """Whether nothing is left that this run should wait for.

        That is: nothing available in its scope that this node may claim, nothing of its own running, no retry that
        this run caused and no token that a job waits for due within ``drain_wait``, and no claim of a dead node that
        waits for its rescue.
        """
        options = self._options
        if self._settling.held() or ((self._alone.waits or self._braking.waits) and not self._lease_is_lost):
            return False
        if self._lease_is_lost:
            self._join_under_new_id()
            return False
        if self._allowance.is_used_up:
            return True
        if options.forever or not self._draining.is_due():
            return False
        try:
            if self._draining.has_to_wait(self.connection) or not self._pool.free() or self._waits_for_token():
                return False
            self._ready.wake()
            # Queues at a limit that others fill are not waited for: they were just tried, and gave nothing.
            return not self._tick_gave_claims() and not self._waits_for_token()
        except psycopg.Error as error:
            self._database.mend(error)
            return False

    def _waits_for_token(self) -> bool:
        """Whether a job only waits for a token of its kind: it is due, and soon it may be claimed."""
        seconds = self._ready.seconds_to_token()
        return seconds is not None and seconds <= self._options.drain_wait

    def _join_under_new_id(self) -> None:
        # First, so that a lease lost right after this one is noticed.
        self._lease_is_lost = False
        try:
            self.join_again(self.connection)
        except psycopg.Error as error:
            self._lease_is_lost = True
            self._database.mend(error)

    def _tick_gave_claims(self) -> bool:
        before = self.counts.claimed
        while self._tick() and self.counts.claimed == before:
            pass
        return self.counts.claimed > before or self._alone.waits

    def _wait(self) -> None:
        fault = self._pool.fault()
        if fault is not None:
            raise fault
        self._progress.write_if_due(self.connection)
        self._database.keep()
        if self._stop.due or not self._options.forever:
            self._database.check_stuck(stopping=self._stop.due)
        checks = [_LONGEST_SLEEP, self._stop.seconds_left(), self._ready.seconds_to_token()]
        if not self._settling.held() and not self._alone.waits and not self._options.forever:
            checks.append(self._draining.seconds_left)
        sleep = min(check for check in checks if check is not None)
        wait_readable([self._pool.wakeup_fileno(), self._news.fileno()], sleep)

    def _pause(self, seconds: float) -> None:
        # The pool's limits and a stop go on while the database is away. News wait: they would end every pause.
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._stop.heed()
            self.each_turn()
            if self._stop.due:
                raise EnvironmentFault(
                    "the node was stopped while the database failed", "what was claimed is taken back by the next run"
                )
            self._note(self._pool.poll())  # backends are ended when the database is there again
            wait_readable([self._pool.wakeup_fileno()], min(left, _SHORT_SLEEP))
