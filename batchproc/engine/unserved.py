"""Gives up on jobs that no live node has the languages for, and keeps a run from ending before that."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Hashable
from threading import Event

from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.languages import named, remedy
from batchproc.engine.news import GivenUp, NewsBox
from batchproc.engine.ready import Scope
from batchproc.queue.node_store import NodeStore
from batchproc.queue.unserved import FAILURE_CODE, Gap, Unserved

PATIENCE = 10.0
"""Seconds for which nobody must have had the languages: cron starts the nodes of several machines at the same minute,
and one that is restarted is away for a moment."""
_BATCH = 500
_BATCHES = 20
_SHOWN = 5


class GivingUp:
    """Looks for such jobs in housekeeping's thread, and answers to the dispatcher's.

    Args:
        run_id: the run that tells of them.
        patience: seconds, see ``PATIENCE``.
        give_in: seconds after which a run no longer waits, such as for rows that somebody holds locked.
        brake: jobs after which the kind is to be paused where the node lacks what its own settings name; None never.
        own_lacking: what it lacks of those. Then its environment is at fault, not what was asked for: a folder of
            language files that is not mounted must not discard a million jobs.
    """

    def __init__(
        self,
        store: NodeStore,
        news: NewsBox,
        scope: Scope,
        run_id: int,
        *,
        patience: float = PATIENCE,
        give_in: float = 600.0,
        brake: int | None = None,
        own_lacking: Collection[str] = (),
    ) -> None:
        self._store = store
        self._news = news
        self._scope = {"tenant_ids": scope.tenant_ids, "kinds": scope.kinds, "lanes": scope.lanes}
        self._run_id = run_id
        self._patience = patience
        self._give_in = give_in
        self._brakes = bool(own_lacking) and brake is not None
        self._batch = min(_BATCH, brake) if own_lacking and brake is not None else _BATCH
        self._since: dict[Gap, float] = {}
        self._waiting_since: float | None = None
        self._begun = self._heeded = 0

    def look(self, connection: Connection[TupleRow], stop: Event) -> None:
        """For housekeeping: gives up what nobody could do for long enough; the dispatcher is told of each batch."""
        now = time.monotonic()
        self._since = {gap: self._since.get(gap, now) for gap in self._store.gaps(connection, self._scope)}
        for gap, since in self._since.items():
            if now - since >= self._patience and self._give_up(connection, gap, stop) and self._brakes:
                return  # the dispatcher may pause the kind before the next batch, whosever it is

    def has_to_wait(self, connection: Connection[TupleRow]) -> bool:
        """For the dispatcher: whether jobs of the run's scope are still to be given up, or were and are not counted."""
        # In this order: what was begun before the look and is not there any more is still to be heeded.
        found = bool(self._store.gaps(connection, self._scope))
        if self._begun != self._heeded:
            return True
        if not found:
            self._waiting_since = None
            return False
        now = time.monotonic()
        self._waiting_since = self._waiting_since or now
        return now - self._waiting_since < self._give_in

    def heed(self, _: GivenUp) -> None:
        """For the dispatcher: it has counted these."""
        self._heeded += 1

    def _give_up(self, connection: Connection[TupleRow], gap: Gap, stop: Event) -> int:
        count = 0
        for _ in range(1 if self._brakes else _BATCHES):
            jobs: list[Unserved] = []
            self._begun += 1
            try:
                jobs = self._store.give_up_unserved(connection, gap, run_id=self._run_id, limit=self._batch)
            finally:
                self._news.tell(GivenUp([(job.kind, _whose(job)) for job in jobs], self._brakes))
            _log(jobs)
            count += len(jobs)
            if len(jobs) < self._batch or stop.is_set():
                break
        return count


def _whose(job: Unserved) -> Hashable:
    """All jobs on one document lack the same: one document is one, however many ranges it was split into."""
    return job.job_id if job.document_id is None else ("document", job.document_id)


def _log(jobs: list[Unserved]) -> None:
    alike = defaultdict(list)
    for job in jobs:
        alike[job.tenant, job.kind, job.lacking].append(job)
    for (tenant, kind, lacking), group in alike.items():
        shown = ", ".join(_named(job) for job in group[:_SHOWN]) + (", ..." if len(group) > _SHOWN else "")
        logger.error(
            "tenant {}: {} {} jobs end as {}, no node that runs has {}: {} ({}); then: batchproc jobs retry JOB_ID",
            tenant,
            len(group),
            kind,
            FAILURE_CODE,
            named(lacking),
            shown,
            remedy(lacking),
        )


def _named(job: Unserved) -> str:
    return f"job {job.job_id}" + ("" if job.document_id is None else f" of document {job.document_id}")
