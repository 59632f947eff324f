"""A slot: the place of one worker, who gets one bundle of jobs at a time, and is replaced when it dies or has to.

While its jobs are quick ones others may wait in the slot, for the worker to go on with at once. They go back when the
jobs before them take longer than was thought.

Its keeper kills and starts its workers. The state changes only under the lock.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Sequence
from concurrent import futures
from enum import Enum
from functools import partial
from uuid import UUID

from batchproc.core.ahead import MOST_WAITING, room_behind
from batchproc.core.errors import EnvironmentFault
from batchproc.core.outcome import Cancelled, Interrupted, Outcome
from batchproc.engine.pool.bundle import Bundle
from batchproc.engine.pool.child_setup import Reply
from batchproc.engine.pool.keeper import Keeper
from batchproc.engine.pool.progress import Progress
from batchproc.engine.pool.scales import Scales
from batchproc.engine.pool.shared import Shared
from batchproc.engine.pool.types import Ended, Running, Work
from batchproc.engine.pool.verdict import DIED, UNFIT, WORN, Verdict, await_report, judge, limit_passed
from batchproc.engine.pool.waiting import Waiting
from batchproc.engine.pool.worker_handle import WorkerHandle

CHECK_SECONDS = 0.5
STREAM_SECONDS = 0.05
"""How often the outcomes of bundles that are being worked at are looked for."""

AHEAD_SECONDS = CHECK_SECONDS
"""So long a bundle waits behind jobs that should have been quick."""
_STILL_QUICK_SECONDS = 0.1

_SOON = 0.01


class _State(Enum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    ENDING = "ending"
    RETIRED = "retired"


class Slot:
    """See the module. ``worker`` and ``bundle`` are for the keeper.

    There is a bundle while BUSY or ENDING, also when all of its jobs have ended and the worker has not returned yet;
    while STARTING there may be one that waits for the next worker.
    """

    def __init__(self, number: int, shared: Shared) -> None:
        self.number = number
        self.worker: WorkerHandle | None = None
        self.bundle: Bundle | None = None
        self._waiting = Waiting()
        self._shared = shared
        self._options = shared.plan.options
        self._lock = threading.Lock()
        self._state = _State.STARTING
        self._keeper = Keeper(self, shared)
        self._scales = Scales(self._options.memory_limit_mb)

    # What the pool asks for.

    def start(self) -> None:
        self._keeper.start()

    @property
    def fault(self) -> EnvironmentFault | None:
        """Set when no worker could be started any more."""
        return self._keeper.fault

    @property
    def free(self) -> bool:
        return self._state is _State.IDLE

    @property
    def settled(self) -> bool:
        """Whether it is ready, or never will be."""
        return self._state is not _State.STARTING

    @property
    def waiting(self) -> int:
        """How many bundles wait behind the one that its worker is at."""
        return len(self._waiting)

    def room_ahead(self, now: float, most: int = MOST_WAITING) -> int:
        """How many more may wait, of so many at most: none where the worker is at one job for long."""
        bundle = self.bundle
        if self._state is not _State.BUSY or bundle is None or now > bundle.heard + _STILL_QUICK_SECONDS:
            return 0
        return room_behind(bundle.expected, self._waiting.expected, fillings=bundle.fillings, most=most)

    @property
    def heard(self) -> float:
        """When an outcome was heard last, or the jobs that its worker is at were sent; 0 where there are none."""
        bundle = self.bundle
        return 0.0 if bundle is None else bundle.heard

    def submit(self, works: Sequence[Work], *, expected: float = math.inf, ahead: bool = False) -> bool:
        """False when the slot is not free, and takes nothing ahead.

        Args:
            expected: seconds that they should take.
            ahead: they may wait behind others.
        """
        now = time.monotonic()
        with self._lock:
            bundle = Bundle(self.number, works, now, expected=expected)
            if self._state is not _State.IDLE:
                if not ahead or not self.room_ahead(now):
                    return False
                self._waiting.add(bundle)
                return True
            self._begin(bundle)
        self._listen(bundle)
        return True

    def running(self) -> Running | None:
        """The job that this slot is at, with its progress."""
        with self._lock:
            bundle, worker = self.bundle, self.worker
            if bundle is None:
                return None
            progress = worker.read_progress() if worker and self._state is _State.BUSY else Progress()
            work = bundle.at(progress)
            if work is None:
                return None
            if progress.claim_id != work.claim_id:
                progress = Progress(work.claim_id, backend_pid=progress.backend_pid)
            pid, resident = worker.pid if worker else None, self._scales.resident_bytes(worker)
            return Running(self.number, work, pid, bundle.submitted, progress, resident)

    def holds(self) -> list[UUID]:
        """The claims of the jobs in this slot that have not ended; of those that wait, too."""
        with self._lock:
            return [*(self.bundle.left if self.bundle is not None else ()), *self._waiting.claims]

    def cancel(self, claim_id: UUID) -> bool:
        """Ends the job of this claim as cancelled; False when it is not here. Its worker dies only if it has begun."""
        cancelled = Cancelled()
        with self._lock:
            bundle, ended = self.bundle, self._waiting.cancel(claim_id, cancelled)
            if not ended and bundle is not None and claim_id in bundle.left:
                ended = self._take_back(bundle, [claim_id], cancelled)
                if claim_id in bundle.left:
                    bundle.unwanted[claim_id] = cancelled
                    self._replace(Verdict("has a cancelled job", cancelled, claim_id))
            elif not ended:
                return False
        self._publish(ended)
        return True

    def interrupt(self, reason: str) -> None:
        """Ends every job that there is as interrupted."""
        outcome = Interrupted(reason)
        with self._lock:
            ended = self._waiting.give_up(outcome)
            bundle = self.bundle
            if bundle is not None and bundle.left:
                if self._state is _State.STARTING:  # they wait for a new worker
                    ended += bundle.give_up(bundle.left, outcome)
                else:
                    bundle.unwanted.update(dict.fromkeys(bundle.left, outcome))
                    self._replace(Verdict("is interrupted", outcome, of_all=True))
        self._publish(ended)

    def ask_to_stop(self) -> None:
        """The node is shutting down: lets the handler see it, and gives back what would come after its job."""
        outcome = Interrupted("the node is shutting down")
        with self._lock:
            ended = self._waiting.give_up(outcome)
            bundle, worker = self.bundle, self.worker
            if worker is not None and worker.progress is not None and self._state is not _State.RETIRED:
                worker.progress.ask_to_stop()
            if bundle is not None and worker is not None and self._state is _State.BUSY:
                last = bundle.at(worker.read_progress())
                later = [claim_id for claim_id, work in bundle.left.items() if work is not last]
                ended += self._take_back(bundle, later, outcome)
        self._publish(ended)

    def close(self) -> None:
        """Begins the end; ``join`` waits for it."""
        self._keeper.close()

    def join(self, timeout: float) -> bool:
        return self._keeper.join(timeout)

    # What the watcher sees.

    def worker_died(self, worker: WorkerHandle) -> None:
        with self._lock:
            if worker is not self.worker or not worker.has_ended():
                return
            self._replace(DIED)

    def check(self, now: float) -> float:
        """Takes up outcomes, and enforces the limits of time; returns when to check next."""
        with self._lock:
            ended, due = self._check(now)
        self._publish(ended)
        return due

    def weigh(self, now: float) -> float:
        """Enforces the limits of memory and processes; returns when to weigh next."""
        worker = self.worker
        if worker is None or self._state not in (_State.IDLE, _State.BUSY):
            return now + CHECK_SECONDS
        verdict, due = self._scales.weigh(worker, now)
        if verdict is not None:
            with self._lock:
                if worker is self.worker:
                    self._replace(verdict)
        return due

    # What the keeper does.

    def await_worker(self) -> None:
        """The old worker is gone."""
        with self._lock:
            self._state = _State.STARTING

    def install(self, worker: WorkerHandle) -> None:
        """A worker that is ready; jobs that waited for it are handed over."""
        with self._lock:
            self.worker = worker
            if self.bundle is not None and not self.bundle.left:
                self.bundle = None
            bundle = self.bundle or self._waiting.take(self._worn_in(worker))
            self._state = _State.IDLE
            if bundle is not None:
                self._begin(bundle)
        if bundle is not None:
            self._listen(bundle)
        self._shared.watch(self, worker)
        self._shared.look_again(time.monotonic())  # it has never been weighed
        if self._shared.draining.is_set():
            self.ask_to_stop()
        self._tell()

    def conclude(self, bundle: Bundle, verdict: Verdict, worker: WorkerHandle) -> None:
        """The worker of these jobs is dead: they end, or wait for the next worker if they never began."""
        came = await_report(bundle, verdict)
        with self._lock:
            ended = bundle.received(worker, came, killed=True)
        fates = judge(bundle, verdict, worker, self._shared.draining)
        with self._lock:
            ended += bundle.lost(fates, worker)
            if bundle.tries >= self._options.start_attempts or self._shared.closing.is_set():
                ended += bundle.give_up(bundle.left, Interrupted("no worker took it"))
            if bundle.left:
                self._state = _State.STARTING
            else:
                self.bundle = None
        self._publish(ended)

    def retire(self, reason: str, kill_within: float | None = None) -> None:
        """There will be no worker any more; kills the one there is, if told, and gives back the jobs there are."""
        outcome = Interrupted(reason)
        with self._lock:
            ended = self._waiting.give_up(outcome)
            bundle, self.bundle = self.bundle, None
            worker, self.worker = self.worker, None
            self._state = _State.RETIRED
        self._publish(ended)
        if worker is not None and kill_within is not None:
            self._shared.unwatch(worker)
            worker.kill(kill_within)
        if bundle is not None:
            if worker is None:
                self._publish(bundle.give_up(bundle.left, outcome))
            else:
                ended = bundle.received(worker, killed=True)
                self._publish(ended + bundle.lost([(work, outcome) for work in bundle.left.values()], worker))
        self._tell()

    # Inside, under the lock.

    def _check(self, now: float) -> tuple[list[Ended], float]:
        bundle, worker = self.bundle, self.worker
        ended = self._late_ahead(now)
        if self._state is not _State.BUSY or bundle is None or worker is None or bundle.future is None:
            return ended, now + CHECK_SECONDS
        # All slots in the same moments: so many times a second at most somebody is told of outcomes. Of a bundle
        # that is over before that nobody is told in parts: each part is a settle of its own.
        moment = now // STREAM_SECONDS
        if bundle.is_streamed and moment != bundle.looked_at and now >= bundle.heard + STREAM_SECONDS:
            bundle.looked_at = moment
            ended += bundle.received(worker)
        verdict, due = limit_passed(bundle, worker, now)
        if bundle.is_streamed:
            due = min(due, (moment + 1) * STREAM_SECONDS)
        if verdict is not None and bundle.future.done():
            verdict, due = None, now + _SOON  # pebble's thread is about to say so
        if verdict is not None:
            self._replace(verdict)
        if (since := self._waiting.since) is not None:
            due = min(due, since + AHEAD_SECONDS)
        if bundle.fillings > 1 and now < (late := bundle.since + AHEAD_SECONDS):
            due = min(due, late)
        return ended, due

    def _replace(self, verdict: Verdict) -> None:
        if self._state is _State.BUSY:
            self._state = _State.ENDING
        elif self._state is _State.IDLE:
            self._state = _State.STARTING
        else:  # its keeper is at it
            return
        self._keeper.replace(verdict)

    def _begin(self, bundle: Bundle) -> None:
        """These are the jobs that the worker is at from now on."""
        self.bundle = bundle
        self._state = _State.BUSY
        if self.worker is not None:
            self.worker.bundles += bundle.fillings_left
        self._hand_over(bundle)

    def _late_ahead(self, now: float) -> list[Ended]:
        """Gives back what waits when what is before it was not so quick: it is for whoever is free.

        Also what was sent with the job before it, but submitted by itself.
        """
        outcome = Interrupted("the jobs before it took longer than was thought")
        ended: list[Ended] = []
        bundle, worker, since = self.bundle, self.worker, self._waiting.since
        if bundle is not None and worker is not None and bundle.fillings > 1 and now >= bundle.since + AHEAD_SECONDS:
            joined = bundle.joined(worker.read_progress())
            if joined:
                bundle.expected = math.inf
                ended = self._take_back(bundle, joined, outcome)
        if since is not None and now >= since + AHEAD_SECONDS:
            if bundle is not None:
                bundle.expected = math.inf
            ended += self._waiting.give_up(outcome)
        return ended

    def _hand_over(self, bundle: Bundle) -> None:
        assert self.worker is not None
        try:
            bundle.send(self.worker)
        except RuntimeError:  # it died while it was idle, a moment ago
            self._replace(DIED)

    def _take_back(self, bundle: Bundle, claim_ids: Collection[UUID], outcome: Outcome) -> list[Ended]:
        """Ends those of the jobs that have not begun, if that can be done now."""
        if self._state is _State.STARTING:  # they wait for a new worker
            return bundle.give_up(claim_ids, outcome)
        if self._state is not _State.BUSY or self.worker is None:
            return []
        return bundle.take_back(self.worker, claim_ids, outcome)

    # Inside, not under the lock.

    def _listen(self, bundle: Bundle) -> None:
        """Not under the lock: when the worker has returned already, the callback runs here and now."""
        if bundle.future is None:
            return
        bundle.future.add_done_callback(partial(self._returned, bundle))
        if bundle.is_streamed:
            pause = STREAM_SECONDS
        else:
            work = next(iter(bundle.left.values()), None)
            pause = CHECK_SECONDS if work is None else min(work.timeout, work.stall_timeout or CHECK_SECONDS)
        self._shared.look_again(bundle.heard + pause)

    def _returned(self, bundle: Bundle, future: futures.Future[Reply]) -> None:
        """Runs in a thread of pebble's."""
        came = future.result() if future.exception() is None else None
        with self._lock:
            worker = self.worker
            if self.bundle is not bundle or bundle.future is not future or self._state is not _State.BUSY:
                return
            if came is None or worker is None:
                self._replace(DIED)
                return
            ended = bundle.received(worker, came)
            coming = self._go_on(bundle, worker)
        self._publish(ended)
        if coming is not None:
            self._listen(coming)
        elif not ended:
            self._shared.wake()  # the slot may be free

    def _go_on(self, bundle: Bundle, worker: WorkerHandle) -> Bundle | None:
        """After a sending, under the lock: the worker is free, or has to be replaced, or gets what is returned."""
        if worker.jobs:
            self._keeper.job_done()
        if not bundle.left:
            self.bundle = None
        self._state = _State.IDLE
        if worker.unfit() or (bundle.left and bundle.tries):  # it returned, and nothing came of it
            self._replace(UNFIT)
        elif self._worn_in(worker) <= 0:
            self._replace(WORN)
        elif bundle.left:
            self._state = _State.BUSY
            self._hand_over(bundle)
            return bundle
        elif (ahead := self._waiting.take(self._worn_in(worker))) is not None:
            self._begin(ahead)
            return ahead
        return None

    def _worn_in(self, worker: WorkerHandle) -> float:
        """So many fillings more this worker gets."""
        most = self._options.max_jobs_per_worker
        return most - worker.bundles if most > 0 else math.inf

    def _publish(self, ended: Sequence[Ended]) -> None:
        if ended:
            self._shared.publish(ended)

    def _tell(self) -> None:
        """Those who wait for a slot, or for the start of the pool, may look again."""
        self._shared.wake()
        with self._shared.changed:
            self._shared.changed.notify_all()
