"""A slot: the place of one worker, who gets one job at a time, and is replaced when it dies or has to.

Each slot has a keeper, a thread of its own that kills and starts its workers, so that no slot waits for another and
none needs a new thread, which a fork bomb could refuse it, to end a job. The state changes only under the lock.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from uuid import UUID

from loguru import logger

from batchproc.core.errors import EnvironmentFault
from batchproc.core.outcome import Cancelled, Interrupted, Outcome
from batchproc.engine.pool import reply
from batchproc.engine.pool.progress import Progress
from batchproc.engine.pool.types import Ended, Running, Work
from batchproc.engine.pool.verdict import DIED, START, WORN, Job, Verdict, judge, limit_passed, progress_of, too_heavy
from batchproc.engine.pool.worker_handle import StartFailure, WorkerHandle, WorkerPlan

CHECK_SECONDS = 0.5
_SOON = 0.01
_MAX_BARREN = 10
_LONGEST_PAUSE = 5.0


class _State(Enum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    ENDING = "ending"
    RETIRED = "retired"


@dataclass(slots=True)
class Shared:
    """What the slots of a pool share."""

    plan: WorkerPlan
    publish: Callable[[Ended], None]
    wake: Callable[[], None]
    watch: Callable[[Slot, WorkerHandle], None]
    unwatch: Callable[[WorkerHandle], None]
    look_again: Callable[[float], None]
    changed: threading.Condition = field(default_factory=threading.Condition)
    draining: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)


class Slot:
    """See the module. ``fault`` is set when no worker could be started any more."""

    def __init__(self, number: int, shared: Shared) -> None:
        self.number = number
        self.fault: EnvironmentFault | None = None
        self._shared = shared
        self._options = shared.plan.options
        self._lock = threading.Lock()
        self._state = _State.STARTING
        self._worker: WorkerHandle | None = None
        self._job: Job | None = None
        self._generation = 0
        self._barren = 0
        self._last_end = ""
        self._was_ready = False
        self._orders: queue.SimpleQueue[Verdict | None] = queue.SimpleQueue()
        self._keeper = threading.Thread(target=self._keep, name=f"slot-{number}", daemon=True)

    # What the pool asks for.

    def start(self) -> None:
        self._keeper.start()
        self._orders.put(START)

    @property
    def free(self) -> bool:
        return self._state is _State.IDLE

    @property
    def settled(self) -> bool:
        """Whether it is ready, or never will be."""
        return self._state is not _State.STARTING

    def submit(self, work: Work) -> bool:
        """False when the slot is not free."""
        with self._lock:
            if self._state is not _State.IDLE:
                return False
            job = self._job = Job(work, time.monotonic())
            self._state = _State.BUSY
            self._hand_over(job)
        self._listen(job)
        return True

    def running(self) -> Running | None:
        """The job in this slot, with its progress."""
        with self._lock:
            job, worker = self._job, self._worker
            if job is None:
                return None
            progress = progress_of(worker, job) if self._state is _State.BUSY else Progress(job.work.claim_id)
            return Running(self.number, job.work, worker.pid if worker else None, job.submitted, progress)

    def cancel(self, claim_id: UUID) -> bool:
        """Ends the job of this claim as cancelled; False when it is not here."""
        if self._job is None or self._job.work.claim_id != claim_id:
            return False
        return self._end_job(Verdict("has a cancelled job", Cancelled()), claim_id)

    def interrupt(self, reason: str) -> None:
        """Ends the job, if there is one, as interrupted."""
        self._end_job(Verdict("is interrupted", Interrupted(reason)))

    def ask_to_stop(self) -> None:
        """Lets the handler see that the node is shutting down."""
        with self._lock:
            if self._worker is not None and self._worker.progress is not None and self._state is not _State.RETIRED:
                self._worker.progress.ask_to_stop()

    def close(self) -> None:
        """Begins the end; ``join`` waits for it."""
        self._orders.put(None)

    def join(self, timeout: float) -> bool:
        self._keeper.join(timeout)
        return not self._keeper.is_alive()

    # What the watcher sees.

    def worker_died(self, worker: WorkerHandle) -> None:
        with self._lock:
            if worker is not self._worker or not worker.has_ended():
                return
            self._replace(DIED)

    def check(self, now: float) -> float:
        """Enforces the limits of time; returns when to check next."""
        with self._lock:
            job, worker = self._job, self._worker
            if self._state is not _State.BUSY or job is None or worker is None or job.future is None:
                return now + CHECK_SECONDS
            verdict, due = limit_passed(job, worker, now)
            if verdict is not None and job.future.done():
                return now + _SOON  # pebble's thread is about to say so
            if verdict is not None:
                self._replace(verdict)
            return due

    def weigh(self) -> bool:
        """Enforces the limits of memory and processes; whether the tree is so near them that it needs watching."""
        worker = self._worker
        if worker is None or self._state not in (_State.IDLE, _State.BUSY):
            return False
        verdict, near = too_heavy(worker, self._options.memory_limit_mb)
        if verdict is not None:
            with self._lock:
                if worker is self._worker:
                    self._replace(verdict)
        return near

    # Inside. The first two are called under the lock.

    def _replace(self, verdict: Verdict) -> None:
        if self._state is _State.BUSY:
            self._state = _State.ENDING
        elif self._state is _State.IDLE:
            self._state = _State.STARTING
        else:  # its keeper is at it
            return
        self._orders.put(verdict)

    def _hand_over(self, job: Job) -> None:
        assert self._worker is not None
        job.tries += 1
        job.scheduled = time.monotonic()
        try:
            job.future = self._worker.schedule(job.work)
        except RuntimeError:  # it died while it was idle, a moment ago
            job.future = None
            self._replace(DIED)
        else:
            self._worker.jobs += 1

    def _listen(self, job: Job) -> None:
        """Not under the lock: when the job has ended already, the callback runs here and now."""
        if job.future is not None:
            job.future.add_done_callback(partial(self._job_done, job))
            self._shared.look_again(min(job.deadline, job.scheduled + (job.work.stall_timeout or CHECK_SECONDS)))

    def _job_done(self, job: Job, future: futures.Future[bytes]) -> None:
        """Runs in a thread of pebble's."""
        error = future.exception()
        outcome = reply.decode(future.result()) if error is None else None
        with self._lock:
            if self._job is not job or job.future is not future or self._state is not _State.BUSY:
                return
            if outcome is None:
                self._replace(DIED)
                return
            worker = self._worker
            assert worker is not None
            self._job = None
            self._barren = 0
            self._state = _State.IDLE
            if 0 < self._options.max_jobs_per_worker <= worker.jobs:
                self._replace(WORN)
        self._publish(job, outcome, worker, killed=False)

    def _end_job(self, verdict: Verdict, claim_id: UUID | None = None) -> bool:
        with self._lock:
            job = self._job
            if job is None or (claim_id is not None and job.work.claim_id != claim_id):
                return False
            if self._state is not _State.STARTING:
                job.unwanted = verdict.outcome
                self._replace(verdict)
                return True
            self._job = None  # it waited for a new worker
        assert verdict.outcome is not None
        self._publish(job, verdict.outcome, None, killed=False)
        return True

    def _publish(self, job: Job, outcome: Outcome, worker: WorkerHandle | None, *, killed: bool) -> None:
        backend_pid = worker.progress.read().backend_pid if killed and worker and worker.progress else None
        seconds = time.monotonic() - job.submitted
        pid = worker.pid if worker else None
        self._shared.publish(Ended(self.number, job.work, outcome, pid, backend_pid, seconds, killed))

    # The keeper's thread.

    def _keep(self) -> None:
        while (verdict := self._orders.get()) is not None:
            try:
                self._turn_over(verdict)
            except Exception as error:  # noqa: BLE001 - whatever it is, no job may be lost by it
                logger.opt(exception=error).error("slot {} failed", self.number)
                with contextlib.suppress(Exception):
                    if self._worker is not None:
                        self._worker.kill(self._options.kill_deadline)
                self._give_up(f"{type(error).__name__}: {error}")
        self._say_farewell()

    def _turn_over(self, verdict: Verdict) -> None:
        old = self._worker
        if old is not None and verdict is not WORN:
            self._end(old, verdict)
        if self._shared.draining.is_set() or self._shared.closing.is_set():
            self._retire()
        else:
            self._install(self._started_worker())
        if old is not None:
            if verdict is WORN:
                self._shared.unwatch(old)
                old.kill(self._options.kill_deadline)
            old.discard()

    def _end(self, worker: WorkerHandle, verdict: Verdict) -> None:
        """Kills the worker and concludes its job. The slot is free only when the whole tree is gone."""
        self._shared.unwatch(worker)
        job = self._job
        gone = worker.kill(self._options.kill_deadline)
        log = logger.bind(job_id=job.work.job_id) if job is not None else logger
        level = "WARNING" if job is not None or verdict is not DIED else "DEBUG"
        how = worker.how_it_ended() if verdict is DIED else "killed"
        log.log(level, "worker {} of slot {} {}: {}", worker.pid, self.number, verdict.reason, how)
        if job is None:
            self._barren = self._barren + 1 if worker.jobs == 0 else 0
            self._last_end = f"{verdict.reason}: {how}"
        else:
            self._conclude(job, verdict, worker)
        while not gone and not self._shared.closing.wait(1.0):
            gone = worker.kill(0)

    def _conclude(self, job: Job, verdict: Verdict, worker: WorkerHandle) -> None:
        outcome = judge(job, verdict, worker, self._shared.draining.is_set())
        with self._lock:
            if outcome is None and job.tries < self._options.start_attempts and not self._shared.closing.is_set():
                self._state = _State.STARTING  # it never began: the next worker gets it
                return
            self._job = None
        self._publish(job, outcome or Interrupted("no worker took it"), worker, killed=True)

    def _started_worker(self) -> WorkerHandle | None:
        """A worker that is ready; None, and the slot is given up, when none can be had."""
        with self._lock:
            self._state = _State.STARTING
        reason = f"its workers end as soon as they are started, the last one {self._last_end}"
        attempts = self._options.start_attempts if self._barren <= _MAX_BARREN else 0
        for attempt in range(attempts):
            if self._shared.closing.wait(_pause(self._barren + attempt)):
                break
            self._generation += 1
            worker = WorkerHandle(self._shared.plan, self.number, self._generation)
            try:
                worker.start(self._shared.closing)
            except StartFailure as failure:
                reason = str(failure)
                logger.debug("worker {} of slot {} cannot be started: {}", worker.pid, self.number, reason)
                worker.kill(self._options.kill_deadline)
                worker.discard()
            else:
                return worker
        if self._shared.closing.is_set():
            self._retire()
        else:
            self._give_up(reason)
        return None

    def _install(self, worker: WorkerHandle | None) -> None:
        if worker is None:
            return
        with self._lock:
            self._worker = worker
            self._was_ready = True
            job = self._job
            self._state = _State.IDLE if job is None else _State.BUSY
            if job is not None:
                self._hand_over(job)
        if job is not None:
            self._listen(job)
        self._shared.watch(self, worker)
        if self._shared.draining.is_set():
            self.ask_to_stop()
        self._tell()

    def _tell(self) -> None:
        """Those who wait for a slot, or for the start of the pool, may look again."""
        self._shared.wake()
        with self._shared.changed:
            self._shared.changed.notify_all()

    def _give_up(self, reason: str) -> None:
        self.fault = EnvironmentFault(
            f"slot {self.number} has no worker: {reason}", "mend that and start again; `batchproc doctor` tests it"
        )
        if self._was_ready:  # else the pool's start reports it
            logger.error("{}", self.fault)
        self._retire()

    def _retire(self) -> None:
        with self._lock:
            job, self._job = self._job, None
            worker, self._worker = self._worker, None
            self._state = _State.RETIRED
        if job is not None:
            self._publish(job, Interrupted("no worker for it"), worker, killed=worker is not None)
        self._tell()

    def _say_farewell(self) -> None:
        with self._lock:
            worker, self._worker = self._worker, None
            job, self._job = self._job, None
            self._state = _State.RETIRED
        if worker is not None:
            self._shared.unwatch(worker)
            worker.kill(self._options.kill_deadline)
        if job is not None:
            self._publish(job, Interrupted("the pool was closed"), worker, killed=worker is not None)
        if worker is not None:
            worker.discard()


def _pause(failures: int) -> float:
    """Nothing before the first try, then longer and longer."""
    return 0.0 if failures == 0 else min(0.1 * 2.0 ** (failures - 1), _LONGEST_PAUSE)
