"""What one node has done, counted as it goes. Every name, and what it means, is here and in ``queue_metrics``.

Labels are kinds, outcomes and failure codes: words of the settings and of handlers. Nothing of a tenant or a document.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from batchproc.core.job import Claim, JobState
from batchproc.core.outcome import Cancelled, ErrorClass, Failed, Interrupted
from batchproc.core.transition import Transition
from batchproc.engine.meters import Meters, Slots
from batchproc.engine.outage import Outage
from batchproc.engine.pool.types import Ended

_SECONDS = (0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800, 7200)
_ENDED = frozenset({JobState.COMPLETED, JobState.DISCARDED, JobState.CANCELLED})
_DEATHS = frozenset({ErrorClass.TIMEOUT, ErrorClass.STALLED, ErrorClass.CRASHED, ErrorClass.OUT_OF_MEMORY})

# When a counter began is of no use in a file that goes on where the last run ended, and doubles what is stored.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class NodeMetrics(Meters):
    """Counters of this node alone, from its start; to be collected from any thread."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._attempts = Counter(
            "batchproc_attempts",
            "Attempts by how they ended: completed, failed, snoozed, cancelled, interrupted.",
            ["kind", "outcome"],
            registry=registry,
        )
        self._failures = Counter(
            "batchproc_attempt_failures", "Failed attempts by failure code.", ["kind", "code"], registry=registry
        )
        self._seconds = Histogram(
            "batchproc_attempt_duration_seconds",
            "How long attempts took in their worker.",
            ["kind"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._jobs = Counter(
            "batchproc_jobs",
            "Jobs that are over: completed, discarded, cancelled.",
            ["kind", "outcome"],
            registry=registry,
        )
        self._discarded = Counter(
            "batchproc_jobs_discarded", "Discarded jobs by failure code.", ["kind", "code"], registry=registry
        )
        self._partial = Counter(
            "batchproc_jobs_partial",
            "Completed jobs whose document has pages that failed.",
            ["kind"],
            registry=registry,
        )
        self._deaths = Counter(
            "batchproc_worker_deaths",
            "Workers that died under a job: killed for timeout, stalled, out_of_memory, cancelled, interrupted; or"
            " crashed.",
            ["cause"],
            registry=registry,
        )
        self._rescues = Counter(
            "batchproc_jobs_rescued", "Jobs taken back from nodes whose lease had ended.", registry=registry
        )
        self._slots: Slots | None = None
        self._outages: Sequence[Outage] = ()
        self._began = time.monotonic()
        self._slot_seconds = 0.0
        self.last_completed: float | None = None
        """When a job was last completed, in seconds since 1970."""
        registry.register(_OfTheNode(self))

    def begin(self, slots: Slots, outages: Sequence[Outage]) -> None:
        self._slots, self._outages, self._began = slots, outages, time.monotonic()

    def over(self) -> None:
        """The node has left: it has no slots any more."""
        self._slot_seconds, self._slots = self.slot_seconds, None

    def ended(self, claim: Claim, end: Ended) -> None:
        self._seconds.labels(claim.kind).observe(end.seconds)
        if (cause := _cause_of_death(end)) is not None:
            self._deaths.labels(cause).inc()

    def settled(self, claim: Claim, moved: Transition, stored: JobState) -> None:
        self._attempts.labels(claim.kind, moved.outcome).inc()
        code = moved.failure_code or "internal_error"
        if moved.outcome == "failed":
            self._failures.labels(claim.kind, code).inc()
        if stored in _ENDED:
            self._jobs.labels(claim.kind, str(stored)).inc()
        if stored is JobState.DISCARDED:
            self._discarded.labels(claim.kind, code).inc()
        if stored is JobState.COMPLETED:
            self.last_completed = time.time()
            if moved.partial:
                self._partial.labels(claim.kind).inc()

    def rescued(self, claim: Claim, moved: Transition, stored: JobState) -> None:
        self._rescues.inc()
        self.settled(claim, moved, stored)

    def given_up(self, kind: str, code: str) -> None:
        self._jobs.labels(kind, str(JobState.DISCARDED)).inc()
        self._discarded.labels(kind, code).inc()

    @property
    def slots(self) -> int:
        return 0 if self._slots is None else self._slots.count

    @property
    def busy(self) -> int:
        return 0 if self._slots is None else self._slots.busy()

    @property
    def slot_seconds(self) -> float:
        return self._slot_seconds + self.slots * (time.monotonic() - self._began)

    @property
    def outage_count(self) -> int:
        """Two connections that fail at once are one outage."""
        return max((outage.count for outage in self._outages), default=0)

    @property
    def outage_seconds(self) -> float:
        return max((outage.seconds for outage in self._outages), default=0.0)


class _OfTheNode:
    """What is asked for at the moment of the look."""

    def __init__(self, node: NodeMetrics) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        node = self._node
        yield GaugeMetricFamily("batchproc_slots", "Jobs that this node can run at a time.", value=node.slots)
        yield GaugeMetricFamily("batchproc_slots_busy", "Slots of this node that have a job.", value=node.busy)
        yield CounterMetricFamily(
            "batchproc_slot_seconds",
            "Seconds of all slots of this node, busy or not; beside the sum of batchproc_attempt_duration_seconds it"
            " is their use.",
            value=node.slot_seconds,
        )
        yield CounterMetricFamily(
            "batchproc_database_outages", "How often the database failed this node.", value=node.outage_count
        )
        yield CounterMetricFamily(
            "batchproc_database_outage_seconds", "For how long it failed.", value=node.outage_seconds
        )


def _cause_of_death(end: Ended) -> str | None:
    """Why the job's worker is dead; None when it is not, or died of another job of the bundle."""
    if not end.killed:
        return None
    match end.outcome:
        case Failed() if end.outcome.error_class in _DEATHS:
            return str(end.outcome.error_class)
        case Cancelled():
            return "cancelled"
        case Interrupted() if end.seconds > 0:
            return "interrupted"
    return None
