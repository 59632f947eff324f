"""How turns fit into free slots: one job of an ordinary kind each, or a bundle of quick jobs."""

from __future__ import annotations

from dataclasses import dataclass

from batchproc.core.job import Lane


@dataclass(slots=True)
class _Bundle:
    size: int
    jobs: int = 1

    def fits(self, size: int) -> bool:
        return self.jobs < min(self.size, size)


class Room:
    """Free slots, being filled.

    A bundle holds jobs of one lane, of any tenants and kinds; the smallest size that one of its kinds allows governs.
    Whoever packs the claimed jobs of a lane sorted by that size never needs more slots than were used up here.

    Args:
        free: slots.
        bulk: how many of them bulk jobs may take.
    """

    def __init__(self, free: int, bulk: int) -> None:
        self._free = max(0, free)
        self._bulk = min(self._free, max(0, bulk))
        self._bundles: dict[int, dict[int, _Bundle]] = {}  # by lane and size

    @property
    def has_slots(self) -> bool:
        """Whether a slot is free still, for a lane that may take it."""
        return self._free > 0

    def take(self, lane: int, size: int) -> bool:
        """Makes room for a job of that lane, whose kind allows ``size`` jobs in one slot; False if there is none."""
        if size == 1:
            return self._take_slot(lane)
        bundles = self._bundles.setdefault(lane, {})
        bundle = bundles.get(size)
        if bundle is None or not bundle.fits(size):
            if self._take_slot(lane):
                bundles[size] = _Bundle(size)
                return True
            bundle = next((other for other in bundles.values() if other.fits(size)), None)
            if bundle is None:
                return False
        bundle.jobs += 1
        bundle.size = min(bundle.size, size)
        return True

    def _take_slot(self, lane: int) -> bool:
        if not self._free or (lane == Lane.BULK and not self._bulk):
            return False
        self._free -= 1
        self._bulk -= lane == Lane.BULK
        return True
