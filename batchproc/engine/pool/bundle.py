"""The jobs of a slot: which are still to end, which of them have been sent, and what has been heard of them."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Sequence
from concurrent import futures
from uuid import UUID

from batchproc.core.outcome import Interrupted, Outcome
from batchproc.engine.pool import reply
from batchproc.engine.pool.child_setup import Reply
from batchproc.engine.pool.outbox import Record
from batchproc.engine.pool.progress import MOST_JOBS, Progress
from batchproc.engine.pool.types import Ended, Work
from batchproc.engine.pool.worker_handle import WorkerHandle

_NEVER_BEGAN = Interrupted("it was taken back before it began")

_Ending = tuple[Work, Outcome, float]


class Bundle:
    """Jobs that were submitted together, one or more, and are run one after the other.

    They are sent to the worker in one go, and what of them was not begun when that goes back or dies, to the next one.
    Only for the slot, under its lock. Times are those of ``time.monotonic``.

    Attributes:
        left: those that have not ended, in the order in which they are run.
        future: of the present sending.
        tries: sendings since an outcome was heard last.
        since: when the first of those that were submitted by themselves came.
        heard: when an outcome was heard last, or the jobs were sent.
        looked_at: the moment at which its slot looked for outcomes last.
        unwanted: outcomes of jobs if they have not begun by the time their worker is dead.
        expected: seconds that they should take; others may wait behind them if that is little.
        fillings: how many were submitted one by one, and joined.
    """

    def __init__(self, slot: int, works: Iterable[Work], now: float, *, expected: float = math.inf) -> None:
        self.left = {work.claim_id: work for work in works}
        self.expected = expected
        self.submitted = self.since = self.heard = now
        self.looked_at = 0.0
        self.future: futures.Future[Reply] | None = None
        self.tries = 0
        self.unwanted: dict[UUID, Outcome] = {}
        self.fillings = 1
        self._joined: dict[UUID, int] = {}
        self._slot = slot
        self._sent: list[Work] = []

    @property
    def is_streamed(self) -> bool:
        """Whether outcomes may come before the sending is over."""
        return len(self._sent) > 1

    def started(self, progress: Progress) -> Work | None:
        """The job that is in the worker's hands, by its progress record; None before, between and after them."""
        return None if progress.claim_id is None else self.left.get(progress.claim_id)

    def at(self, progress: Progress) -> Work | None:
        """The job that is started or will be next."""
        return self.started(progress) or next(iter(self.left.values()), None)

    def join(self, later: Bundle) -> None:
        """These come right after; nothing of either has been sent."""
        if not self._joined:
            self.since = later.submitted
        self._joined |= dict.fromkeys(later.left, self.fillings)
        self.left |= later.left
        self.expected += later.expected
        self.fillings += 1

    @property
    def fillings_left(self) -> int:
        """Of how many of its fillings something is left."""
        return len({self._joined.get(claim_id, 0) for claim_id in self.left})

    def joined(self, progress: Progress) -> list[UUID]:
        """The claims of what was not submitted with the first of these jobs, and is neither started nor next."""
        at = self.at(progress)
        return [claim_id for claim_id, work in self.left.items() if claim_id in self._joined and work is not at]

    def send(self, worker: WorkerHandle) -> None:
        """Sends what is left, as far as it goes at a time. Raises RuntimeError when the worker has died."""
        self.tries += 1
        self.heard = time.monotonic()
        self.future = None
        self._sent = list(self.left.values())[:MOST_JOBS]
        self.future = worker.schedule(self._sent)

    def received(self, worker: WorkerHandle, came: Reply | None = None, *, killed: bool = False) -> list[Ended]:
        """What has ended by what the worker wrote, and by what it returned if it did."""
        endings = self._heard_of(worker.outcomes())
        if came is not None:
            endings += self._heard_of(self._returned(came))
        if endings:
            self.heard, self.tries = time.monotonic(), 0
            worker.jobs += len(endings)
        return self._ended(endings, worker, killed=killed)

    def take_back(self, worker: WorkerHandle, claim_ids: Collection[UUID], outcome: Outcome) -> list[Ended]:
        """Ends those of the sent jobs with that outcome that have not begun, and now never will; and what had ended."""
        self.unwanted.update(dict.fromkeys(claim_ids, outcome))
        wanted = set(claim_ids)
        worker.skip([position for position, work in enumerate(self._sent) if work.claim_id in wanted])
        # In this order: what is not started by now, nor ended, sees that it was taken back. See ``skips``.
        started = worker.read_progress().claim_id
        ended = self.received(worker)
        return [*ended, *self.give_up([claim for claim in claim_ids if claim != started], outcome)]

    def give_up(self, claim_ids: Iterable[UUID], outcome: Outcome) -> list[Ended]:
        """Ends those of the jobs with that outcome that are left; they are in no worker's hands."""
        works = [self.left.pop(claim_id) for claim_id in list(claim_ids) if claim_id in self.left]
        return self._ended([(work, outcome, 0.0) for work in works], None, killed=False)

    def lost(self, fates: Iterable[tuple[Work, Outcome]], worker: WorkerHandle) -> list[Ended]:
        """Ends the jobs that were lost with their worker, and those that are unwanted by now."""
        begun, now = worker.read_progress(), time.monotonic()
        ends = {work.claim_id: outcome for work, outcome in fates}
        endings = []
        for claim_id, outcome in (self.unwanted | ends).items():
            work = self.left.pop(claim_id, None)
            if work is not None:
                seconds = now - begun.begun_monotonic if claim_id == begun.claim_id else 0.0
                endings.append((work, outcome, seconds))
        return self._ended(endings, worker, killed=True)

    def _heard_of(self, records: Iterable[Record]) -> list[_Ending]:
        ended = []
        for position, seconds, encoded in records:
            work = self._sent[position] if position < len(self._sent) else None
            if work is None or self.left.pop(work.claim_id, None) is None:
                continue  # it was taken back, or the record is a handler's mischief
            outcome = self.unwanted.get(work.claim_id, _NEVER_BEGAN) if encoded is None else reply.decode(encoded)
            ended.append((work, outcome, seconds))
        return ended

    def _returned(self, came: Reply) -> Sequence[Record]:
        """All records were heard of before. A job of which there should have been one, and was not, has failed."""
        done, seconds, encoded = came
        missing = [position for position, work in enumerate(self._sent[:done]) if work.claim_id in self.left]
        records = [Record(position, 0.0, reply.LOST) for position in missing]
        if encoded is not None and missing:
            records[-1] = Record(done - 1, seconds, encoded)
        return records

    def _ended(self, endings: Iterable[_Ending], worker: WorkerHandle | None, *, killed: bool) -> list[Ended]:
        pid = worker.pid if worker else None
        backend = worker.read_progress().backend_pid if killed and worker else None
        return [Ended(self._slot, work, outcome, pid, backend, seconds, killed) for work, outcome, seconds in endings]
