"""The bundles that wait in a slot, for its worker to go on with at once."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from batchproc.core.ahead import MOST_TOGETHER
from batchproc.core.outcome import Outcome
from batchproc.engine.pool.bundle import Bundle
from batchproc.engine.pool.types import Ended


class Waiting:
    """In the order in which they are run; to be changed under the lock of the slot alone."""

    def __init__(self) -> None:
        # Replaced, never changed: it is also read without the lock.
        self._bundles: tuple[Bundle, ...] = ()

    def __len__(self) -> int:
        return len(self._bundles)

    @property
    def expected(self) -> Sequence[float]:
        """Seconds that each should take."""
        return [bundle.expected for bundle in self._bundles]

    @property
    def claims(self) -> list[UUID]:
        """Those of all their jobs that have not ended."""
        return [claim_id for bundle in self._bundles for claim_id in bundle.left]

    @property
    def since(self) -> float | None:
        """When the first of them came, on ``time.monotonic``; None where none waits."""
        return self._bundles[0].submitted if self._bundles else None

    def add(self, bundle: Bundle) -> None:
        self._bundles += (bundle,)

    def take(self, most: float) -> Bundle | None:
        """What is run next, and waits no longer: the first one, joined by those after it while they are few jobs.

        Args:
            most: how many may be joined, the first one counted.
        """
        bundles = [bundle for bundle in self._bundles if bundle.left]
        if not bundles:
            self._bundles = ()
            return None
        first, *others = bundles
        while others and first.fillings < most and len(first.left) + len(others[0].left) <= MOST_TOGETHER:
            first.join(others.pop(0))
        self._bundles = tuple(others)
        return first

    def cancel(self, claim_id: UUID, outcome: Outcome) -> list[Ended]:
        """Ends that job with that outcome; nothing where it does not wait here."""
        return [ended for bundle in self._bundles for ended in bundle.give_up([claim_id], outcome)]

    def give_up(self, outcome: Outcome) -> list[Ended]:
        """Ends all their jobs with that outcome; none waits any more."""
        bundles, self._bundles = self._bundles, ()
        return [ended for bundle in bundles for ended in bundle.give_up(bundle.left, outcome)]
