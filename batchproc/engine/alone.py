"""The jobs that may be what takes nodes down: their last tries run with no other job in the node.

A node that dies, and a forkserver too, takes every job with it that ran there, and each of them is charged with the
loss. Whoever runs alone is cleared by completing, or found.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from batchproc.core.job import Claim

LAST_LOSSES = 2
"""So many losses before the last a job begins to run alone: twice, so that one death from elsewhere, such as a
restart of the machine, does not make an innocent job poison."""


class Alone:
    """Whose turn it is to run alone. While one waits for the slots to empty it holds no claim, so that no node waits
    for another: whichever is empty first runs it.
    """

    def __init__(self, max_node_losses: int) -> None:
        self._from_losses = max(1, max_node_losses - LAST_LOSSES)
        self._waiting: int | None = None
        self._running: UUID | None = None
        self._met = False

    @property
    def is_near(self) -> bool:
        """Whether the last claim met a suspect: more may follow, and jobs are to be claimed one at a time, so that not
        all of them are claimed and given back for each that runs."""
        return self._met

    def sorted_out(self, claims: list[Claim], held: Mapping[UUID, Claim]) -> tuple[list[Claim], list[Claim]]:
        """Of claims just made: those to run now, and those to give back because they have to run alone.

        The first of the latter is remembered; more are met again when their turn comes, so that the rest of the
        queues waits for one job at a time.

        Args:
            held: the node's other claims.
        """
        suspects = [claim for claim in claims if claim.node_losses >= self._from_losses]
        if claims:
            self._met = bool(suspects)
        if not suspects:
            return claims, []
        first, *others = suspects
        if not held and len(suspects) == len(claims):
            self._running = first.claim_id
            return [first], others
        self._waiting = first.job_id
        return [claim for claim in claims if claim.node_losses < self._from_losses], suspects

    @property
    def waits(self) -> bool:
        """Whether a job waits for all slots to be empty."""
        return self._waiting is not None

    def blocks(self, held: Mapping[UUID, Claim]) -> bool:
        """Whether nothing else may be claimed: a job waits to run alone, or does."""
        return self._waiting is not None or self._running in held

    def take(self) -> int:
        """The job that waits, which is forgotten: it runs now, or was taken by somebody else meanwhile."""
        assert self._waiting is not None
        job_id, self._waiting = self._waiting, None
        return job_id
