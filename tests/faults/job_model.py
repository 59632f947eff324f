"""The queue as a few lines of Python: what the tables must say after each step of the state machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from batchproc.core.job import MAX_ATTEMPTS, NewJob
from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Failed, Interrupted, Outcome, Snoozed

WAITING = ("scheduled", "available")
ENDED = ("completed", "discarded", "cancelled")
MAX_TIMEOUTS, MAX_CRASHES, MAX_NODE_LOSSES = 2, 3, 3

Key = tuple[int, str, str]


@dataclass
class ModelJob:
    """``due``: its time has come. ``old``: it ended before what a prune spares."""

    job_id: int
    tenant_id: int
    kind: str
    key: str | None
    campaign: int | None
    max_attempts: int
    priority: int
    due: bool
    state: str = ""
    attempt: int = 0
    crashes: int = 0
    timeouts: int = 0
    node_losses: int = 0
    claim_id: UUID | None = None
    node_id: UUID | None = None
    failure_code: str | None = None
    cancel_requested: bool = False
    old: bool = False
    attempts: int = 0

    @classmethod
    def of(cls, job_id: int, new: NewJob) -> ModelJob:
        return cls(
            job_id,
            new.tenant_id,
            new.kind,
            new.unique_key,
            new.campaign_id,
            new.max_attempts or MAX_ATTEMPTS,
            new.priority,
            due=new.run_at is None,
        )

    @property
    def unique(self) -> Key | None:
        return None if self.key is None else (self.tenant_id, self.kind, self.key)

    @property
    def unique_while_running(self) -> bool:
        return self.kind == "once"

    def row(self) -> tuple[object, ...]:
        """In the order of the state machine's query."""
        return (
            self.job_id,
            self.state,
            self.attempt,
            self.crashes,
            self.timeouts,
            self.node_losses,
            self.claim_id,
            self.node_id,
            self.failure_code,
            self.due,
            self.attempts,
            self.cancel_requested,
        )


@dataclass
class JobModel:
    """Every method is one step, and returns what the store must return for it.

    ``usage``: how many attempts have ended. ``ends``: of them, how many left their job in that state.
    """

    jobs: dict[int, ModelJob] = field(default_factory=dict)
    paused: set[int] = field(default_factory=set)
    living: set[UUID] = field(default_factory=set)
    usage: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    # -- waiting

    def standing_in_the_way(self, job: ModelJob) -> int | None:
        """The job that keeps this one from waiting, by the unique indexes; one that waits before one that runs."""
        if job.unique is None:
            return None
        same = [other for other in self.jobs.values() if other.unique == job.unique and other is not job]
        waiting = [other.job_id for other in same if other.state in WAITING]
        active = [other.job_id for other in same if other.state == "running" and job.unique_while_running]
        return min(waiting) if waiting else min(active) if active else None

    def enqueue(self, job: ModelJob) -> int | None:
        """The id of the job of which this one is a duplicate."""
        if job.campaign not in self.paused and (known := self.standing_in_the_way(job)) is not None:
            return known
        job.state = self._place(job)
        self.jobs[job.job_id] = job
        return None

    def promote(self) -> None:
        for job in self.jobs.values():
            if job.state == "scheduled" and job.due:
                job.state = "available"

    def make_due(self, job_id: int) -> None:
        self.jobs[job_id].due = True

    def hold(self, campaign: int) -> int:
        self.paused.add(campaign)
        waiting = [job for job in self.jobs.values() if job.campaign == campaign and job.state in WAITING]
        for job in waiting:
            job.state = "held"
        return len(waiting)

    def release(self, campaign: int) -> tuple[int, int]:
        self.paused.discard(campaign)
        held = [job for job in self.jobs.values() if job.campaign == campaign and job.state == "held"]
        superseded = 0
        for job in sorted(held, key=lambda job: -job.job_id):
            if self.standing_in_the_way(job) is None:
                job.state = self._place(job)
            else:
                self._end(job, "cancelled", "superseded")
                superseded += 1
        return len(held) - superseded, superseded

    # -- claiming

    def claimable(self, tenant_id: int, kind: str, count: int) -> list[int]:
        """The ids that a claim of so many jobs of the queue takes."""
        ready = [
            job for job in self.jobs.values() if (job.tenant_id, job.kind, job.state) == (tenant_id, kind, "available")
        ]
        return sorted(job.job_id for job in sorted(ready, key=lambda job: (job.priority, job.job_id))[:count])

    def claim(self, job_id: int, claim_id: UUID, node_id: UUID) -> None:
        job = self.jobs[job_id]
        job.state, job.claim_id, job.node_id = "running", claim_id, node_id
        job.attempt += 1

    def holder(self, claim_id: UUID) -> ModelJob | None:
        """The job that this claim holds; None of a stale one."""
        return next((job for job in self.jobs.values() if job.claim_id == claim_id), None)

    def claims_of_the_dead(self) -> list[int]:
        return [job.job_id for job in self.jobs.values() if job.state == "running" and job.node_id not in self.living]

    def checkpoint(self, claim_id: UUID) -> None:
        if (job := self.holder(claim_id)) is not None:
            job.attempt, job.crashes, job.timeouts = min(job.attempt, 1), min(job.crashes, 1), min(job.timeouts, 1)

    # -- ending

    def settle(self, claim_id: UUID, outcome: Outcome) -> str | None:
        """The state in which the job is then; None of a stale claim."""
        job = self.holder(claim_id)
        if job is None:
            return None
        job.attempts += 1
        self.usage += 1
        match outcome:
            case Completed():
                self._end(job, "completed", None)
            case Cancelled():
                self._end(job, "cancelled", None)
            case Interrupted():
                job.attempt -= 1
                self._wait_again(job, None)
            case Snoozed():
                job.attempt -= 1
                job.due = False
                self._wait_again(job, None)
            case Failed():
                self._fail(job, outcome)
        self.ends[job.state] += 1
        return job.state

    def rescue(self, claim_id: UUID) -> str | None:
        job = self.holder(claim_id)
        if job is None or job.node_id in self.living:
            return None
        return self.settle(claim_id, Failed(ErrorClass.LEASE_EXPIRED, "lease_expired"))

    def cancel(self, job_ids: Iterable[int]) -> list[tuple[int, str]]:
        return [(job_id, self._cancel(self.jobs.get(job_id))) for job_id in sorted(set(job_ids))]

    def retry(self, job_ids: Iterable[int]) -> dict[int, str]:
        asked = [self.jobs[job_id] for job_id in sorted(set(job_ids)) if job_id in self.jobs]
        ended = [job for job in asked if job.state in ("discarded", "cancelled")]
        newest = {job.unique: job for job in ended}
        told = {job.job_id: "completed" if job.state == "completed" else "retried_already" for job in asked}
        going = [job for job in ended if job.unique is None or newest[job.unique] is job]
        free = [job for job in going if self.standing_in_the_way(job) is None]
        told |= {job.job_id: "superseded" for job in ended}
        for job in free:
            job.attempt = job.crashes = job.timeouts = job.node_losses = 0
            job.due = job.due or job.state == "discarded"
            job.failure_code, job.old, job.cancel_requested = None, False, False
            job.state = self._place(job)
            told[job.job_id] = "retried_held" if job.state == "held" else "retried"
        return told

    def make_old(self, job_id: int) -> None:
        self.jobs[job_id].old = True

    def prune(self) -> int:
        gone = [job_id for job_id, job in self.jobs.items() if job.old]
        for job_id in gone:
            del self.jobs[job_id]
        return len(gone)

    # -- the outcome table, written down a second time

    def _fail(self, job: ModelJob, failed: Failed) -> None:
        error = failed.error_class
        if error is ErrorClass.STORAGE_UNAVAILABLE:
            job.attempt -= 1
            job.due = False
            self._wait_again(job, failed.code)
            return
        spent, final = job.attempt >= job.max_attempts, failed.code
        if error in (ErrorClass.TIMEOUT, ErrorClass.STALLED):
            job.timeouts += 1
            spent, final = spent or job.timeouts >= MAX_TIMEOUTS, str(error)
        elif error in (ErrorClass.CRASHED, ErrorClass.OUT_OF_MEMORY):
            job.crashes += 1
            spent, final = spent or job.crashes >= MAX_CRASHES, "poison" if error is ErrorClass.CRASHED else str(error)
        elif error is ErrorClass.LEASE_EXPIRED:
            job.attempt -= 1
            job.node_losses += 1
            spent, final = job.node_losses >= MAX_NODE_LOSSES, "poison"
        elif error in (ErrorClass.PERMANENT, ErrorClass.INVALID):
            spent = True
        if spent:
            self._end(job, "discarded", final)
        else:
            job.due = error is ErrorClass.LEASE_EXPIRED
            self._wait_again(job, failed.code)

    def _wait_again(self, job: ModelJob, code: str | None) -> None:
        successor = any(
            other.unique == job.unique and other.state in WAITING
            for other in self.jobs.values()
            if other is not job and job.unique is not None
        )
        if job.cancel_requested:
            self._end(job, "cancelled", None)
        elif successor:
            self._end(job, "cancelled", "superseded")
        else:
            job.claim_id = job.node_id = None
            job.failure_code = code
            job.state = self._place(job)

    def _end(self, job: ModelJob, state: str, code: str | None) -> None:
        job.state, job.failure_code, job.claim_id, job.node_id = state, code, None, None
        job.cancel_requested = False

    def _cancel(self, job: ModelJob | None) -> str:
        if job is None:
            return "unknown"
        if job.state in ENDED:
            return "ended"
        if job.state == "running":
            job.cancel_requested = True
            return "requested"
        self._end(job, "cancelled", None)
        return "cancelled"

    def _place(self, job: ModelJob) -> str:
        """Where a job waits."""
        if job.campaign in self.paused:
            return "held"
        return "available" if job.due else "scheduled"
