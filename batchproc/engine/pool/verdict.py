"""What becomes of the jobs of a slot: whether a limit has passed, and how they ended when their worker is gone."""

from __future__ import annotations

import threading
from concurrent import futures
from dataclasses import dataclass
from uuid import UUID

from batchproc.core.outcome import ErrorClass, Failed, Interrupted, Outcome
from batchproc.engine.pool.bundle import Bundle
from batchproc.engine.pool.child_setup import Reply
from batchproc.engine.pool.progress import Progress
from batchproc.engine.pool.types import Work
from batchproc.engine.pool.worker_handle import WorkerHandle

TAKE_SECONDS = 10.0
"""A worker that has not begun its next job after this is replaced, and its jobs are given to the next worker."""

_CRASH_REPORT_SECONDS = 0.3
_SAME_SIGNAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a worker has to go. Without an outcome the way it ended decides what becomes of the job that it was at.

    ``claim_id``: whose outcome it is; None means whichever job has started, and with ``of_all`` every job.
    """

    reason: str
    outcome: Outcome | None = None
    claim_id: UUID | None = None
    of_all: bool = False


START = Verdict("is started")
DIED = Verdict("died")
NOT_TAKEN = Verdict("did not take its job")
WORN = Verdict("has done its number of jobs")
UNFIT = Verdict("was left unfit for another job")

NEIGHBOUR = Interrupted("its worker was lost with another job")
"""What becomes of the jobs that were to come after the one that the worker was lost with."""


def limit_passed(bundle: Bundle, worker: WorkerHandle, now: float) -> tuple[Verdict | None, float]:
    """The verdict on a started job whose time is up, or on a worker that begins none, and when to look again."""
    progress = worker.read_progress()
    work = bundle.started(progress)
    if work is None:
        coming = bundle.at(progress)
        take_by = bundle.heard + min(TAKE_SECONDS, coming.timeout if coming else TAKE_SECONDS)
        return (NOT_TAKEN if now >= take_by else None), take_by
    deadline = progress.begun_monotonic + work.timeout
    if now >= deadline:
        text = f"ran longer than its limit of {work.timeout:g} s"
        return _over(progress, work, Failed(ErrorClass.TIMEOUT, "timeout", detail=text)), deadline
    if work.stall_timeout is None:
        return None, deadline
    stalled_at = progress.last_beat_monotonic + work.stall_timeout
    if now >= stalled_at:
        text = f"showed no progress for {work.stall_timeout:g} s"
        return _over(progress, work, Failed(ErrorClass.STALLED, "stalled", detail=text)), stalled_at
    return None, min(deadline, stalled_at)


def _over(progress: Progress, work: Work, failed: Failed) -> Verdict:
    if progress.loading:
        text = "the worker could not reach the database in time"
        failed = Failed(ErrorClass.STORAGE_UNAVAILABLE, "storage_unavailable", detail=text)
        return Verdict("waits for the database", failed, work.claim_id)
    return Verdict(f"has a job that {failed.detail}", failed, work.claim_id)


def await_report(bundle: Bundle, verdict: Verdict) -> Reply | None:
    """What the dead worker's last sending returned, if that was still on its way; else waits for pebble's report."""
    future = bundle.future
    if future is not None and verdict.outcome is None:
        futures.wait([future], _CRASH_REPORT_SECONDS)
    if future is not None and future.done() and future.exception() is None:
        return future.result()
    return None


def judge(
    bundle: Bundle, verdict: Verdict, worker: WorkerHandle, draining: threading.Event
) -> list[tuple[Work, Outcome]]:
    """What became of the jobs that are left when their worker is dead; those that are not named never began.

    Only the job that had started is charged with anything. The rest goes back with it, as interrupted; if none was
    lost, the rest waits for the next worker.

    Args:
        draining: set when the node is shutting down.
    """
    if verdict.of_all and verdict.outcome is not None:
        return [(work, verdict.outcome) for work in bundle.left.values()]
    started = bundle.started(worker.read_progress())
    fates: dict[UUID, Outcome] = dict(bundle.unwanted)
    if started is not None:
        fates = dict.fromkeys(bundle.left, NEIGHBOUR) | fates
        fates[started.claim_id] = NEIGHBOUR if verdict is not DIED else _of_death(bundle, worker, draining)
    if verdict.outcome is not None:
        charged = verdict.claim_id or (started.claim_id if started else None)
        if charged is not None:
            fates[charged] = verdict.outcome
    return [(work, fates[claim_id]) for claim_id, work in bundle.left.items() if claim_id in fates]


def _of_death(bundle: Bundle, worker: WorkerHandle, draining: threading.Event) -> Outcome:
    """Of a started job whose worker ended by itself, or by somebody else's hand."""
    future = bundle.future
    if future is not None and future.done() and isinstance(future.exception(), TimeoutError):
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
