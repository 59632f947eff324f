"""A slot: the place of one worker, who gets one job at a time, and is replaced when it dies or has to.

Its keeper kills and starts its workers. The state changes only under the lock.
"""

from __future__ import annotations

import threading
import time
from concurrent import futures
from enum import Enum
from functools import partial
from uuid import UUID

from batchproc.core.errors import EnvironmentFault
from batchproc.core.outcome import Cancelled, Interrupted, Outcome
from batchproc.engine.pool import reply
from batchproc.engine.pool.keeper import Keeper
from batchproc.engine.pool.progress import Progress
from batchproc.engine.pool.scales import Scales
from batchproc.engine.pool.shared import Shared
from batchproc.engine.pool.types import Ended, Running, Work
from batchproc.engine.pool.verdict import DIED, UNFIT, WORN, Job, Verdict, judge, limit_passed, progress_of
from batchproc.engine.pool.worker_handle import WorkerHandle

CHECK_SECONDS = 0.5
_SOON = 0.01


class _State(Enum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    ENDING = "ending"
    RETIRED = "retired"


class Slot:
    """See the module. ``worker`` and ``job`` are for the keeper."""

    def __init__(self, number: int, shared: Shared) -> None:
        self.number = number
        self.worker: WorkerHandle | None = None
        self.job: Job | None = None
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

    def submit(self, work: Work) -> bool:
        """False when the slot is not free."""
        with self._lock:
            if self._state is not _State.IDLE:
                return False
            job = self.job = Job(work, time.monotonic())
            self._state = _State.BUSY
            self._hand_over(job)
        self._listen(job)
        return True

    def running(self) -> Running | None:
        """The job in this slot, with its progress."""
        with self._lock:
            job, worker = self.job, self.worker
            if job is None:
                return None
            progress = progress_of(worker, job) if self._state is _State.BUSY else Progress(job.work.claim_id)
            return Running(self.number, job.work, worker.pid if worker else None, job.submitted, progress)

    def cancel(self, claim_id: UUID) -> bool:
        """Ends the job of this claim as cancelled; False when it is not here."""
        if self.job is None or self.job.work.claim_id != claim_id:
            return False
        return self._end_job(Verdict("has a cancelled job", Cancelled()), claim_id)

    def interrupt(self, reason: str) -> None:
        """Ends the job, if there is one, as interrupted."""
        self._end_job(Verdict("is interrupted", Interrupted(reason)))

    def ask_to_stop(self) -> None:
        """Lets the handler see that the node is shutting down."""
        with self._lock:
            if self.worker is not None and self.worker.progress is not None and self._state is not _State.RETIRED:
                self.worker.progress.ask_to_stop()

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
        """Enforces the limits of time; returns when to check next."""
        with self._lock:
            job, worker = self.job, self.worker
            if self._state is not _State.BUSY or job is None or worker is None or job.future is None:
                return now + CHECK_SECONDS
            verdict, due = limit_passed(job, worker, now)
            if verdict is not None and job.future.done():
                return now + _SOON  # pebble's thread is about to say so
            if verdict is not None:
                self._replace(verdict)
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
        """A worker that is ready; a job that waited for it is handed over."""
        with self._lock:
            self.worker = worker
            job = self.job
            self._state = _State.IDLE if job is None else _State.BUSY
            if job is not None:
                self._hand_over(job)
        if job is not None:
            self._listen(job)
        self._shared.watch(self, worker)
        self._shared.look_again(time.monotonic())  # it has never been weighed
        if self._shared.draining.is_set():
            self.ask_to_stop()
        self._tell()

    def conclude(self, job: Job, verdict: Verdict, worker: WorkerHandle) -> None:
        """The job's worker is dead: it ends, or waits for the next worker if it never began."""
        outcome = judge(job, verdict, worker, self._shared.draining)
        with self._lock:
            if outcome is None and job.tries < self._options.start_attempts and not self._shared.closing.is_set():
                self._state = _State.STARTING
                return
            self.job = None
        self._publish(job, outcome or Interrupted("no worker took it"), worker, killed=True)

    def retire(self, reason: str, kill_within: float | None = None) -> None:
        """There will be no worker any more; kills the one there is, if told, and gives back the job there is."""
        with self._lock:
            job, self.job = self.job, None
            worker, self.worker = self.worker, None
            self._state = _State.RETIRED
        if worker is not None and kill_within is not None:
            self._shared.unwatch(worker)
            worker.kill(kill_within)
        if job is not None:
            self._publish(job, Interrupted(reason), worker, killed=worker is not None)
        self._tell()

    # Inside. The first two are called under the lock.

    def _replace(self, verdict: Verdict) -> None:
        if self._state is _State.BUSY:
            self._state = _State.ENDING
        elif self._state is _State.IDLE:
            self._state = _State.STARTING
        else:  # its keeper is at it
            return
        self._keeper.replace(verdict)

    def _hand_over(self, job: Job) -> None:
        assert self.worker is not None
        job.tries += 1
        job.scheduled = time.monotonic()
        try:
            job.future = self.worker.schedule(job.work)
        except RuntimeError:  # it died while it was idle, a moment ago
            job.future = None
            self._replace(DIED)
        else:
            self.worker.jobs += 1

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
            if self.job is not job or job.future is not future or self._state is not _State.BUSY:
                return
            if outcome is None:
                self._replace(DIED)
                return
            worker = self.worker
            assert worker is not None
            self.job = None
            self._keeper.job_done()
            self._state = _State.IDLE
            if worker.unfit():
                self._replace(UNFIT)
            elif 0 < self._options.max_jobs_per_worker <= worker.jobs:
                self._replace(WORN)
        self._publish(job, outcome, worker, killed=False)

    def _end_job(self, verdict: Verdict, claim_id: UUID | None = None) -> bool:
        with self._lock:
            job = self.job
            if job is None or (claim_id is not None and job.work.claim_id != claim_id):
                return False
            if self._state is not _State.STARTING:
                job.unwanted = verdict.outcome
                self._replace(verdict)
                return True
            self.job = None  # it waited for a new worker
        assert verdict.outcome is not None
        self._publish(job, verdict.outcome, None, killed=False)
        return True

    def _publish(self, job: Job, outcome: Outcome, worker: WorkerHandle | None, *, killed: bool) -> None:
        backend_pid = worker.progress.read().backend_pid if killed and worker and worker.progress else None
        seconds = time.monotonic() - job.submitted
        pid = worker.pid if worker else None
        self._shared.publish(Ended(self.number, job.work, outcome, pid, backend_pid, seconds, killed))

    def _tell(self) -> None:
        """Those who wait for a slot, or for the start of the pool, may look again."""
        self._shared.wake()
        with self._shared.changed:
            self._shared.changed.notify_all()
