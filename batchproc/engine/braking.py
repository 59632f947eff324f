"""The node's brake: watches how attempts end, and pauses a kind in the database when the environment is at fault."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable

from loguru import logger
from psycopg import Connection
from psycopg.errors import LockNotAvailable
from psycopg.rows import TupleRow

from batchproc.core.brake import Brake, Braked, tells
from batchproc.core.job import Claim
from batchproc.core.transition import Transition
from batchproc.engine.run_report import RunOptions
from batchproc.queue.kind_store import KindStore

_PAUSE_WHEN_LOCKED = 1.0
_LONGEST_WAIT = 30.0


class Braking:
    """What the brake has found; each node counts for itself.

    Args:
        jobs: see ``core.brake.Brake``.
    """

    def __init__(self, kinds: KindStore, jobs: int | None) -> None:
        self._kinds = kinds
        self._brake = Brake(jobs)
        self._due: list[Braked] = []
        self._not_before = 0.0
        self._locked_since: float | None = None
        self._braked: dict[str, Braked] = {}

    def change(self, jobs: int | None) -> None:
        """From now on so many jobs are enough; what was seen before no longer counts."""
        self._brake = Brake(jobs)

    def note(self, claim: Claim, moved: Transition) -> None:
        """An attempt was settled."""
        if not tells(moved):
            return
        braked = self._brake.note(claim.kind, _whose(claim), moved.failure_code)
        if braked is not None:
            self._due.append(braked)

    def note_given_up(self, jobs: Iterable[tuple[str, Hashable]], code: str) -> None:
        """Jobs were discarded without an attempt: as (kind, what stands for the job, see ``core.brake``)."""
        for kind, whose in jobs:
            braked = self._brake.note(kind, whose, code)
            if braked is not None:
                self._due.append(braked)

    @property
    def due(self) -> bool:
        """Whether a kind is to be paused now."""
        return bool(self._due) and time.monotonic() >= self._not_before

    @property
    def unpaused(self) -> frozenset[str]:
        """Kinds that are to be paused and are not yet: this node at least claims none of them."""
        return frozenset(braked.kind for braked in self._due)

    @property
    def waits(self) -> bool:
        """Whether it is worth to wait for a row that somebody holds locked; a run does not wait for it for ever."""
        since = self._locked_since
        return bool(self._due) and (since is None or time.monotonic() - since < _LONGEST_WAIT)

    def pause(self, connection: Connection[TupleRow]) -> None:
        """Pauses what is to be paused. What runs may end; nobody claims another job of the kind.

        A kind whose row somebody holds locked is tried again in a moment: no other kind's jobs wait for it.

        Raises:
            psycopg.Error: the database failed, and what is left stays due.
        """
        while self._due:
            braked = self._due[0]
            try:
                self._kinds.brake(connection, braked)
            except LockNotAvailable:
                logger.warning("kind {} cannot be paused: somebody holds its row locked", braked.kind)
                now = time.monotonic()
                self._not_before = now + _PAUSE_WHEN_LOCKED
                self._locked_since = self._locked_since or now
                return
            self._braked[braked.kind] = braked
            self._locked_since = None
            del self._due[0]
            logger.error("kind {} is paused: {}", braked.kind, braked.reason)

    def standing(
        self, connection: Connection[TupleRow], known: Iterable[str], options: RunOptions
    ) -> tuple[Braked, ...]:
        """The kinds that this run has braked, and those of ``known`` that another or an earlier one has while jobs
        of its scope are due: every run tells of them until a person has looked. For a single job there are none.
        """
        if options.single:
            return ()
        scope = options.scope
        found = self._kinds.braked(
            connection, list(known), tenant_ids=scope.tenant_ids, kinds=scope.kinds, lanes=scope.lanes
        )
        mine = self._braked | {braked.kind: braked for braked in self._due}
        return tuple(({braked.kind: braked for braked in found} | mine).values())


def _whose(claim: Claim) -> Hashable:
    """The revision for all that read its ranges: one bad document is one, however many jobs it has."""
    return claim.job_id if claim.range_of is None else ("revision", claim.range_of)
