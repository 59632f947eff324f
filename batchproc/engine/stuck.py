"""Endings that the database does not take for now, such as one whose job row somebody holds locked."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 5.0


@dataclass(slots=True)
class _Stuck:
    since: float = field(default_factory=time.monotonic)
    pause: float = _FIRST_PAUSE
    due: float = field(default_factory=lambda: time.monotonic() + _FIRST_PAUSE)


class StuckEndings:
    """Which claims' endings are kept out of the ticks, so that no claim and no other settle waits for them."""

    def __init__(self) -> None:
        self._stuck: dict[UUID, _Stuck] = {}

    def __contains__(self, claim_id: UUID) -> bool:
        return claim_id in self._stuck

    def __len__(self) -> int:
        return len(self._stuck)

    @property
    def due(self) -> set[UUID]:
        """Those to be tried again now."""
        now = time.monotonic()
        return {claim_id for claim_id, stuck in self._stuck.items() if stuck.due <= now}

    @property
    def seconds(self) -> float:
        """How long the oldest has been stuck; 0 when none is."""
        return max((time.monotonic() - stuck.since for stuck in self._stuck.values()), default=0.0)

    def failed(self, claim_ids: Iterable[UUID]) -> None:
        """These could not be written (again)."""
        for claim_id in claim_ids:
            stuck = self._stuck.get(claim_id)
            if stuck is None:
                self._stuck[claim_id] = _Stuck()
            else:
                stuck.pause = min(_LONGEST_PAUSE, stuck.pause * 2)
                stuck.due = time.monotonic() + stuck.pause

    def forget(self, claim_ids: Iterable[UUID]) -> None:
        """These are written, or nobody's any more."""
        for claim_id in claim_ids:
            self._stuck.pop(claim_id, None)

    def try_all_now(self) -> None:
        """The database has recovered from something: perhaps from what they were stuck for, too."""
        for stuck in self._stuck.values():
            stuck.due, stuck.pause = 0.0, _FIRST_PAUSE
