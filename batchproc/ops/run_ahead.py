"""What a run still has before it, asked again and again beside it: how much waits and runs, and how long that takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core import throughput
from batchproc.engine.unserved import PATIENCE
from batchproc.ops.estimates import Estimates, Work, shared, work_left
from batchproc.queue.campaign_listing import CampaignListing
from batchproc.queue.inspection_run import Due, NodeAtWork, Retries, RunInspection, RunningJob
from batchproc.queue.nights import PAST_DAYS

Value = TypeVar("Value")

COUNT_SHARE = 0.05
"""Part of the time that counting may take: that reads an entry of an index for each job that waits. Of a million it
took 0.3 s, so that they are counted every 6 s."""
ESTIMATE_SHARE = 0.02
"""Part of the time that estimating may take: that reads the jobs and their documents. Of a million jobs of 10,000
tenants it took 1.7 s, so that they are estimated every 85 s. In between the time that passes is taken off."""
MOST_SECONDS = 10
"""Longer no statement of a look may take; where estimating would, it is left."""


class Silent(NamedTuple):
    """Jobs of nodes that gave no sign of life since the run looks, and the seconds after which those are taken back, if
    that stays so. ``gone``: no lease of theirs lasts any more."""

    jobs: int
    nodes: int
    gone: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class RunLook:
    """``seconds_left`` until nothing waits nor runs; None where nobody can tell. ``due`` and ``retries`` are None while
    there are too many to be counted.

    Attributes:
        silent: what the run waits for when it has nothing else to do; no time left is told then.
        unserved: seconds after which what waits is given up on, where no node has the languages for any of it, and
            nothing runs; no time left is told then, either.
    """

    due: Due | None
    retries: Retries | None
    seconds_left: float | None
    silent: Silent | None = None
    unserved: float | None = None


class _Rarely(Generic[Value]):
    """What is asked for again and again, and takes so large a share of the time at most; None as long as it takes too
    long."""

    def __init__(self, share: float, clock: Callable[[], float], ask: Callable[[Connection[TupleRow]], Value]) -> None:
        self._share = share
        self._clock = clock
        self._ask = ask
        self._due = self._at = clock()
        self._value: Value | None = None

    def asked(self, connection: Connection[TupleRow]) -> tuple[Value | None, float]:
        """What was told last, and how many seconds ago."""
        if (begun := self._clock()) >= self._due:
            try:
                self._value = self._ask(connection)
            except psycopg.errors.QueryCanceled:
                self._value = None
            self._at = self._clock()
            self._due = self._at + (self._at - begun) / self._share
        return self._value, self._clock() - self._at


class RunAhead:
    """Looks on a connection that the caller passes, whose statements end after `MOST_SECONDS`.

    The time left is that of `estimates`, of what waits and could be claimed and of what is left of what runs. Where the
    past knows nothing of some of that, it is told as it went lately, and before anybody has seen that not at all.

    Args:
        inspection: of what the run serves: the kinds that its node knows.
        within: seconds from now within which a retry has to be due for the run to wait for it.
        tells_time: False for a run that ends before nothing is left, so that nobody can tell.
        language_kinds: kinds of which the run gives up on what no node has the languages for.
        lease: of the run's node, in seconds.
    """

    def __init__(
        self,
        inspection: RunInspection,
        run_id: int,
        within: Callable[[], float],
        *,
        workers: int,
        tells_time: bool = True,
        language_kinds: Collection[str] = (),
        lease: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inspection = inspection
        self._run_id = run_id
        self._within = within
        self._workers = workers
        self._tells_time = tells_time
        self._language_kinds = language_kinds
        self._lease = lease
        self._clock = clock
        self._begun = clock()
        self._leases: dict[UUID, datetime | None] = {}
        self._unserved_since: float | None = None
        self._waited: throughput.Window[int] = throughput.Window()
        self._due = _Rarely(COUNT_SHARE, clock, self._counted)
        self._retries = _Rarely(COUNT_SHARE, clock, self._later)
        self._lacking = _Rarely(COUNT_SHARE, clock, self._without_language)
        self._estimate = _Rarely(ESTIMATE_SHARE, clock, self._estimated)

    def look(self, connection: Connection[TupleRow]) -> RunLook:
        """Raises psycopg.Error when the database does not answer."""
        due, _ = self._due.asked(connection)
        later, since = self._retries.asked(connection)
        if later is not None and later.next_seconds is not None:
            later = Retries(later.jobs, max(0.0, later.next_seconds - since))
        silent = self._silent(connection) if due is not None and not due.waiting else None
        unserved = self._unserved(connection, due) if due is not None else None
        waits = silent is not None or unserved is not None
        tells = self._tells_time and due is not None and any(due) and not waits
        return RunLook(due, later, self._seconds_left(connection) if tells else None, silent, unserved)

    def _silent(self, connection: Connection[TupleRow]) -> Silent | None:
        """None while the run's own node is at work, and where every other one was heard of. As `Draining` has it: a
        node is heard of when it has renewed its lease since it was first seen."""
        nodes = self._inspection.at_work(connection, self._run_id)
        silent = [node for node in nodes if not node.own and not self._heard_of(node)]
        if not silent or any(node.own for node in nodes):
            return None
        # Nothing is taken back before the node of the run has lived for a lease itself (`Housekeeping`).
        calm = self._lease - (self._clock() - self._begun)
        seconds = max(0.0, calm, *(node.seconds for node in silent))
        gone = not any(node.seconds for node in silent)
        return Silent(sum(node.jobs for node in silent), len(silent), gone, seconds)

    def _heard_of(self, node: NodeAtWork) -> bool:
        first = self._leases.setdefault(node.node_id, node.lease_until)
        return bool(node.seconds and first is not None and node.lease_until is not None and node.lease_until > first)

    def _unserved(self, connection: Connection[TupleRow], due: Due) -> float | None:
        """None unless nothing runs and all that waits does so for languages that no node has."""
        asks = bool(self._language_kinds and due.waiting and not due.running)
        lacking = self._lacking.asked(connection)[0] if asks else None
        if lacking is None or lacking < due.waiting:
            self._unserved_since = None
            return None
        if self._unserved_since is None:
            self._unserved_since = self._clock()
        return max(0.0, min(PATIENCE, self._lease) - (self._clock() - self._unserved_since))

    def _counted(self, connection: Connection[TupleRow]) -> Due:
        now, due = self._clock(), self._inspection.due(connection)
        self._waited.add(now, due.waiting)
        return due

    def _without_language(self, connection: Connection[TupleRow]) -> int:
        return self._inspection.unserved(connection, self._language_kinds)

    def _later(self, connection: Connection[TupleRow]) -> Retries:
        return self._inspection.retries(connection, self._run_id, self._within())

    def _seconds_left(self, connection: Connection[TupleRow]) -> float | None:
        estimated, since = self._estimate.asked(connection)
        if estimated is not None:
            # What takes longer than it was to take: nobody knows for how long.
            return estimated - since if estimated > since else None
        return throughput.seconds_left(self._waited.looks) or None

    def _estimated(self, connection: Connection[TupleRow]) -> float | None:
        listing = CampaignListing(self._inspection.schema)
        works = work_left(self._inspection.due_work(connection))
        running = self._inspection.running_work(connection)
        if not works and not running:
            return None
        estimates = Estimates(listing.past(connection, PAST_DAYS))
        waiting, begun = estimates.seconds(works), rest_of(running, estimates)
        if waiting is None or begun is None:
            return None
        jobs = sum(work.jobs for work in works) + len(running)
        return shared(waiting + begun, listing.slots(connection) or self._workers, jobs)


def rest_of(running: Sequence[RunningJob], estimates: Estimates) -> float | None:
    """Worker seconds that are left of what runs; None where nothing tells of some of it.

    By the progress that a job told; of one that told none, by the time that it has had. What ran for longer than such
    jobs do is taken to end at once.
    """
    left = 0.0
    for job in running:
        whole = estimates.seconds([_whole(job)])
        if whole is None:
            return None
        left += whole * (1 - _done(job)) if job.total else max(0.0, whole - job.seconds)
    return left


def _whole(job: RunningJob) -> Work:
    work = Work(job.tenant_id, job.kind, 1, job.pages, job.pages_unknown, job.mode)
    if not job.total or not work.reads:
        return work
    # It knows its pages better than anybody did before it.
    return Work(job.tenant_id, job.kind, 1, job.total, 0, job.mode)


def _done(job: RunningJob) -> float:
    return min(1.0, max(0.0, (job.done or 0) / (job.total or 1)))
