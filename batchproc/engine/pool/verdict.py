"""What becomes of a job in a slot: whether a limit has passed, and how it ended when its worker is gone."""

from __future__ import annotations

import threading
from concurrent import futures
from dataclasses import dataclass

from batchproc.core.outcome import ErrorClass, Failed, Interrupted, Outcome
from batchproc.engine.pool import reply
from batchproc.engine.pool.progress import Progress
from batchproc.engine.pool.types import Work
from batchproc.engine.pool.worker_handle import WorkerHandle

TAKE_SECONDS = 10.0
"""A worker that has not begun its job after this is replaced, and the job is given to the next."""

_CRASH_REPORT_SECONDS = 0.3
_SAME_SIGNAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a worker has to go. Without an outcome the way it ended decides what becomes of its job."""

    reason: str
    outcome: Outcome | None = None


START = Verdict("is started")
DIED = Verdict("died")
NOT_TAKEN = Verdict("did not take its job")
WORN = Verdict("has done its number of jobs")
UNFIT = Verdict("was left unfit for another job")


@dataclass(slots=True, eq=False)
class Job:
    """A job in its slot. ``unwanted`` is its outcome if it has not begun by the time its worker is dead."""

    work: Work
    submitted: float
    scheduled: float = 0.0
    future: futures.Future[bytes] | None = None
    tries: int = 0
    unwanted: Outcome | None = None

    @property
    def deadline(self) -> float:
        return self.scheduled + self.work.timeout


def limit_passed(job: Job, worker: WorkerHandle, now: float) -> tuple[Verdict | None, float]:
    """The verdict on a job whose time is up, and when to look again."""
    work, deadline = job.work, job.deadline
    if not worker.begun(work):
        take_by = min(deadline, job.scheduled + TAKE_SECONDS)
        return (NOT_TAKEN if now >= take_by else None), take_by
    if now >= deadline:
        text = f"ran longer than its limit of {work.timeout:g} s"
        return _over(worker, job, Failed(ErrorClass.TIMEOUT, "timeout", detail=text)), deadline
    if work.stall_timeout is None:
        return None, deadline
    stalled_at = max(job.scheduled, progress_of(worker, job).last_beat_monotonic) + work.stall_timeout
    if now >= stalled_at:
        text = f"showed no progress for {work.stall_timeout:g} s"
        return _over(worker, job, Failed(ErrorClass.STALLED, "stalled", detail=text)), stalled_at
    return None, min(deadline, stalled_at)


def _over(worker: WorkerHandle, job: Job, failed: Failed) -> Verdict:
    if progress_of(worker, job).loading:
        text = "the worker could not reach the database in time"
        failed = Failed(ErrorClass.STORAGE_UNAVAILABLE, "storage_unavailable", detail=text)
        return Verdict("waits for the database", failed)
    return Verdict(f"has a job that {failed.detail}", failed)


def judge(job: Job, verdict: Verdict, worker: WorkerHandle, draining: threading.Event) -> Outcome | None:
    """What became of a job whose worker is dead now; None when it never began.

    Args:
        draining: set when the node is shutting down.
    """
    future = job.future
    if future is not None and verdict.outcome is None:
        futures.wait([future], _CRASH_REPORT_SECONDS)  # for pebble's report, or a result still in the pipe
    if future is not None and future.done() and future.exception() is None:
        return reply.decode(future.result())  # it had ended before it was killed
    if verdict.outcome is not None:
        return verdict.outcome
    if future is None or not worker.begun(job.work):
        return job.unwanted
    if future.done() and isinstance(future.exception(), TimeoutError):
        return Interrupted("clock")  # pebble's limit is later than ours on a clock that nobody sets
    # A signal to a whole cgroup may reach a worker before the node has heeded its own.
    if draining.wait(_SAME_SIGNAL_SECONDS if worker.was_asked_to_end() else 0.0):
        return Interrupted("shutdown")
    if worker.went_with_forkserver():
        # Perhaps it was this job that killed it: it counts, or that job would take every worker with it for ever.
        return Failed(ErrorClass.LEASE_EXPIRED, "forkserver_died", "the forkserver died, and every worker with it")
    how = worker.how_it_ended()
    if worker.was_killed_for_memory():
        return Failed(ErrorClass.OUT_OF_MEMORY, "out_of_memory", how)
    return Failed(ErrorClass.CRASHED, "poison", how)


def progress_of(worker: WorkerHandle | None, job: Job) -> Progress:
    if worker is None or worker.progress is None:
        return Progress(job.work.claim_id)
    return worker.progress.read_for(job.work.claim_id)
