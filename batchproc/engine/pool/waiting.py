"""The bundles that wait in a slot, for its worker to go on with at once."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

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

    def take(self) -> Bundle | None:
        """The first one that still has something in it: it waits no longer."""
        while self._bundles:
            bundle, *others = self._bundles
            self._bundles = tuple(others)
            if bundle.left:
                return bundle
        return None

    def cancel(self, claim_id: UUID, outcome: Outcome) -> list[Ended]:
        """Ends that job with that outcome; nothing where it does not wait here."""
        return [ended for bundle in self._bundles for ended in bundle.give_up([claim_id], outcome)]

    def give_up(self, outcome: Outcome) -> list[Ended]:
        """Ends all their jobs with that outcome; none waits any more."""
        bundles, self._bundles = self._bundles, ()
        return [ended for bundle in bundles for ended in bundle.give_up(bundle.left, outcome)]
