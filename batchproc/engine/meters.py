"""What a node tells of its work to whoever counts it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from batchproc.core.job import Claim, JobState
from batchproc.core.transition import Transition
from batchproc.engine.outage import Outage
from batchproc.engine.pool.types import Ended


@dataclass(frozen=True, slots=True)
class Slots:
    """The node's slots: how many there are, and how many have a job at the moment; to be asked from any thread."""

    count: int
    busy: Callable[[], int]


class Meters:
    """Counts nothing; a subclass counts what it is told, from any of the node's threads, quickly and never raising."""

    def begin(self, slots: Slots, outages: Sequence[Outage]) -> None:
        """The node has joined. ``outages``: of its connections to the one database."""

    def ended(self, claim: Claim, end: Ended) -> None:
        """An attempt is over, and not written yet."""

    def settled(self, claim: Claim, moved: Transition, stored: JobState) -> None:
        """The end of an attempt was written; ``stored``: what the database made of the job."""

    def rescued(self, claim: Claim, moved: Transition, stored: JobState) -> None:
        """A dead node's claim was taken back."""

    def given_up(self, kind: str, code: str) -> None:
        """A job was discarded without an attempt."""


class AllMeters(Meters):
    """Tells each of several."""

    def __init__(self, meters: Sequence[Meters]) -> None:
        self._meters = tuple(meters)

    def begin(self, slots: Slots, outages: Sequence[Outage]) -> None:
        for meters in self._meters:
            meters.begin(slots, outages)

    def ended(self, claim: Claim, end: Ended) -> None:
        for meters in self._meters:
            meters.ended(claim, end)

    def settled(self, claim: Claim, moved: Transition, stored: JobState) -> None:
        for meters in self._meters:
            meters.settled(claim, moved, stored)

    def rescued(self, claim: Claim, moved: Transition, stored: JobState) -> None:
        for meters in self._meters:
            meters.rescued(claim, moved, stored)

    def given_up(self, kind: str, code: str) -> None:
        for meters in self._meters:
            meters.given_up(kind, code)
