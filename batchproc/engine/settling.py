"""From what the pool says ended to what is written, and what of it was counted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc import log
from batchproc.core.fairness import Queue
from batchproc.core.job import Claim, JobState, KindSpec
from batchproc.core.outcome import Completed, Failed, Interrupted, Outcome
from batchproc.core.transition import Transition
from batchproc.documents.bad_pages import BegunPage
from batchproc.engine.bad_pages import PageBlame
from batchproc.engine.counts import Counts
from batchproc.engine.decision import decide
from batchproc.engine.meters import Meters
from batchproc.engine.pool.worker_pool import Ended as WorkEnded
from batchproc.engine.pool.worker_pool import Work
from batchproc.engine.stuck import StuckEndings
from batchproc.engine.tenant_names import TenantNames
from batchproc.queue.endings import ending_json, recognised
from batchproc.queue.hints import Hint
from batchproc.queue.node_store import Ended, NodeStore, Settled


class Written(NamedTuple):
    """``waiting``: queues with a job that was put back; ``freed``: queues with one job less running; ``followed``: what
    follow-ups came.
    """

    waiting: list[Queue]
    freed: list[Queue]
    followed: list[Hint]


class Settling:
    """Holds the node's claims from the claim to the settle; nothing is forgotten before it is written.

    Args:
        observe: told every outcome before it is written, for the log and for ``--once``.
        settled: told every ending that was written.
        blame: decides endings that may be a page's fault; without it none is.
        names: of the tenants, for the log; without them it has their ids.
        meters: are told of every attempt that ends, and of every ending that was written.
    """

    def __init__(
        self,
        store: NodeStore,
        specs: Mapping[str, KindSpec],
        max_node_losses: int,
        observe: Callable[[Claim, Outcome, float], None],
        settled: Callable[[Claim, Transition], None] = lambda *_: None,
        blame: PageBlame | None = None,
        names: TenantNames | None = None,
        meters: Meters | None = None,
    ) -> None:
        self._store = store
        self._specs = specs
        self._max_node_losses = max_node_losses
        self._observe = observe
        self._settled = settled
        self._blame = blame
        self.meters = meters or Meters()
        self.names = names or TenantNames("batchproc")
        self._pages: dict[UUID, BegunPage] = {}
        self._prepared: dict[UUID, Ended] = {}
        self._claims: dict[UUID, Claim] = {}
        self._ended: list[WorkEnded] = []
        self.stuck = StuckEndings()
        self.counts = Counts()

    def hold(self, claims: Sequence[Claim]) -> None:
        """Claims that were just made."""
        self.counts.claimed += len(claims)
        self._claims.update((claim.claim_id, claim) for claim in claims)

    def held(self) -> Mapping[UUID, Claim]:
        """Every claim that is not settled yet, by its id."""
        return self._claims

    def prepare(self, ended: Sequence[WorkEnded]) -> None:
        """For the threads of the pool, before ``ended``: makes what is to be written, while the node's own thread waits
        for the database. Of completed jobs alone: what becomes of others may depend on what the database says of them.
        """
        for end in ended:
            claim = self._claims.get(end.work.claim_id)
            if claim is not None and isinstance(end.outcome, Completed):
                ending = Ended(self._decided(claim, end.outcome), end.worker_pid, end.seconds)
                self._prepared[claim.claim_id] = ending._replace(as_json=ending_json(ending, self._specs))

    def ended(self, ended: Sequence[WorkEnded]) -> None:
        """What the pool says ended; logged and told to the observer."""
        log.each(lambda: [self._told(self._claims[end.work.claim_id], end) for end in ended])
        for end in ended:
            claim = self._claims[end.work.claim_id]
            self._observe(claim, end.outcome, end.seconds)
            self.meters.ended(claim, end)
        self._ended.extend(ended)

    def give_back(self, claims: Sequence[Claim], reason: str) -> None:
        """Claims that no worker runs: they go back as interrupted."""
        self._claims.update((claim.claim_id, claim) for claim in claims)
        for claim in claims:
            work = Work(claim.job_id, claim.claim_id, 0.0)
            self._ended.append(WorkEnded(-1, work, Interrupted(reason), None, None, 0.0, killed=False))

    def give_back_unknown(self, held: Sequence[Claim], reason: str) -> None:
        """Claims of this node that it does not know: nobody would ever run them.

        One that was settled meanwhile costs nothing: its claim is gone, and the write finds no row.
        """
        unknown = [claim for claim in held if claim.claim_id not in self._claims]
        if unknown:
            self.give_back(unknown, reason)

    @property
    def pending(self) -> int:
        """Endings for the next tick to write."""
        return len(self._ended) - len(self.stuck)

    @property
    def is_stuck(self) -> bool:
        """Whether there are claims, and all of them have ended and wait for the database to take that."""
        return bool(self._claims) and len(self.stuck) == len(self._claims)

    def endings(self, connection: Connection[TupleRow]) -> list[Ended]:
        """What the next tick is to write, in job_id order."""
        return self._described(connection, [end for end in self._ended if end.work.claim_id not in self.stuck])

    def _described(self, connection: Connection[TupleRow], ended: Sequence[WorkEnded]) -> list[Ended]:
        unfinished = [self._claims[end.work.claim_id] for end in ended if not isinstance(end.outcome, Completed)]
        if unfinished:
            # A handler's checkpoint may have set the job's counters back meanwhile.
            self._claims.update(self._store.refreshed(connection, unfinished))
        if self._blame is not None and (suspects := self._blamed(ended)):
            claims = [self._claims[end.work.claim_id] for end in suspects]
            self._pages.update(self._blame.begun(connection, claims))
        ordered = sorted(ended, key=lambda end: end.work.job_id)
        return [self._described_one(end) for end in ordered]

    def _described_one(self, end: WorkEnded) -> Ended:
        prepared = self._prepared.get(end.work.claim_id)
        if prepared is not None:
            return prepared
        claim, page = self._claims[end.work.claim_id], self._pages.get(end.work.claim_id)
        if self._blame is not None and page is not None and isinstance(end.outcome, Failed):
            decided = self._blame.decided(claim, end.outcome, page)
            return decided._replace(worker_pid=end.worker_pid, seconds=end.seconds)
        return Ended(self._decided(claim, end.outcome), end.worker_pid, end.seconds)

    def _decided(self, claim: Claim, outcome: Outcome) -> Transition:
        return decide(claim, outcome, self._specs, self._max_node_losses)

    def _blamed(self, ended: Sequence[WorkEnded]) -> list[WorkEnded]:
        """Those that may be a page's fault: only failures are."""
        blame = self._blame
        if blame is None:
            return []
        failed = [end for end in ended if isinstance(end.outcome, Failed)]
        return [end for end in failed if blame.concerns(self._claims[end.work.claim_id], end.outcome)]

    def written(self, endings: Sequence[Ended], settled: Settled) -> Written:
        """Counts what was written and forgets it; what met an error that passes is stuck, and tried apart from others.

        An ending without a row lost its claim: somebody else settled that job, and nothing is owed.
        """
        waiting: list[Queue] = []
        freed: list[Queue] = []
        priorities: dict[Queue, int] = {}
        done = {ending.transition.claim_id for ending in endings} - settled.unwritten
        for ending in endings:
            if settled.unwritten and ending.transition.claim_id in settled.unwritten:
                continue
            claim = self._claims.pop(ending.transition.claim_id)
            stored = settled.states.get(claim.claim_id)
            if stored is None:
                continue
            self._count(claim, ending.transition, stored)
            queue = Queue(claim.lane, claim.tenant_id, claim.kind)
            freed.append(queue)
            if stored is JobState.AVAILABLE:
                waiting.append(queue)
            for follow_up in ending.transition.follow_ups:
                next_queue = queue._replace(kind=follow_up.kind)
                priorities[next_queue] = min(claim.priority, priorities.get(next_queue, claim.priority))
        self._forget(done)
        self.stuck.failed(settled.unwritten)
        return Written(waiting, freed, [Hint(queue, priorities.get(queue)) for queue in settled.followed])

    def write_apart(self, connection: Connection[TupleRow]) -> Written:
        """Writes each ending for itself, so that one that cannot be written stops no other.

        Raises:
            psycopg.OperationalError: the connection is gone.
        """
        return self._write_apart(connection, self.endings(connection))

    def write_stuck(self, connection: Connection[TupleRow]) -> Written:
        """Tries those stuck endings again whose time has come. Raises as ``write_apart``."""
        due = self.stuck.due
        ended = [end for end in self._ended if end.work.claim_id in due]
        return self._write_apart(connection, self._described(connection, ended)) if ended else Written([], [], [])

    def write_blamed(self, connection: Connection[TupleRow]) -> Written | None:
        """Writes the endings that may be a page's fault, each for itself; None when there are none.

        They are few, and what is written of the page is in a transaction with the ending. Raises as ``write_apart``.
        """
        blamed = [end for end in self._blamed(self._ended) if end.work.claim_id not in self.stuck]
        return self._write_apart(connection, self._described(connection, blamed)) if blamed else None

    def _write_apart(self, connection: Connection[TupleRow], endings: Sequence[Ended]) -> Written:
        return self.written(endings, self._store.settle_one_by_one(connection, endings))

    def forget_written(self, connection: Connection[TupleRow]) -> Written:
        """Counts and forgets endings that a commit of unknown fate did write.

        Those of claims that a rescue has settled meanwhile are forgotten, too, but were never written.
        """
        recorded = self._store.attempted(connection, [end.work.claim_id for end in self._ended])
        waiting: list[Queue] = []
        freed: list[Queue] = []
        followed: list[Hint] = []
        for end in self._ended:
            if end.work.claim_id not in recorded:
                continue
            moved = recognised(self._described_one(end), recorded[end.work.claim_id])
            claim = self._claims.pop(end.work.claim_id)
            if moved is None:
                continue
            self._count(claim, moved, moved.state)
            queue = Queue(claim.lane, claim.tenant_id, claim.kind)
            waiting.append(queue)
            followed += [Hint(queue._replace(kind=follow_up.kind), claim.priority) for follow_up in moved.follow_ups]
            freed.append(queue)
        self._forget(recorded)
        return Written(waiting, freed, followed)

    def _forget(self, claim_ids: Collection[UUID]) -> None:
        self._ended = [end for end in self._ended if end.work.claim_id not in claim_ids]
        for claim_id in claim_ids:
            self._prepared.pop(claim_id, None)
        for claim_id in self._pages.keys() & set(claim_ids):
            del self._pages[claim_id]
        self.stuck.forget(claim_ids)

    def _count(self, claim: Claim, moved: Transition, stored: JobState) -> None:
        self.counts.add(moved, stored)
        self._settled(claim, moved)
        self.meters.settled(claim, moved, stored)

    def _told(self, claim: Claim, end: WorkEnded) -> log.Line:
        tenant = self.names.of(claim.tenant_id)
        bound = {"job_id": claim.job_id, "tenant": tenant, "kind": claim.kind, "attempt": claim.attempt}
        return f"{_named(end.outcome)} after {end.seconds:.2f} s", bound


def _named(outcome: Outcome) -> str:
    return f"failed: {outcome.code}" if isinstance(outcome, Failed) else type(outcome).__name__.lower()
