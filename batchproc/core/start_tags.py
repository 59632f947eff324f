"""A tenant's place in its lane, as if all that it is charged had been known from the start.

In start-time fair queueing a tag rises with each charge, and is lifted to the present time when its owner comes back
from being idle. Here a charge may be corrected long after, when later ones were made, and lifts came in between. What
the tag then has to be is the greatest of sums: of the first tag and all charges, and of each lift and the charges
since. So a correction cannot be lost in a lift, nor become a credit beyond it.
"""

from __future__ import annotations

SCALE = 2**32
"""Tags are whole numbers, so that what was charged can be taken back exactly: so many to a turn, or a second."""


def amount(cost: float, weight: float) -> int:
    """What a tag moves on for so many turns or seconds."""
    return max(1, round(cost * SCALE / weight))


class Epoch:
    """The time from one lift to the next; ``open`` counts its charges that may still be corrected."""

    __slots__ = ("offset", "open")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.open = 0


class StartTag:
    """The tag of one tenant, at first ``tag``.

    There are never more epochs than charges that are open, and one.
    """

    __slots__ = ("_charged", "_epochs", "value")

    def __init__(self, tag: int) -> None:
        self.value = tag
        self._charged = 0  # in all; an epoch's sum is its offset and this
        self._epochs = [Epoch(tag)]

    @property
    def epoch(self) -> Epoch:
        """That of the charges made now."""
        return self._epochs[-1]

    @property
    def epochs(self) -> int:
        """How many are told apart."""
        return len(self._epochs)

    @property
    def is_open(self) -> bool:
        """Whether a charge may still be corrected."""
        return any(epoch.open for epoch in self._epochs)

    def charge(self, amount: int) -> None:
        """Adds ``amount``, which is open until ``correct``."""
        self._charged += amount
        self.value += amount
        self._epochs[-1].open += 1

    def correct(self, epoch: Epoch, difference: int, charges: int = 1) -> None:
        """So many ``charges`` of ``epoch`` should have been ``difference`` more, together, and are final now."""
        epoch.open -= charges
        for each in self._epochs:
            each.offset += difference
            if each is epoch:
                break
        self._close()
        self.value = self._charged + max(each.offset for each in self._epochs)

    def lift(self, floor: int) -> None:
        """The owner was idle until now: its tag is ``floor`` at least."""
        offset = floor - self._charged
        last = self._epochs[-1]
        if last.open:
            self._epochs.append(Epoch(offset))
        elif offset > last.offset:
            last.offset = offset
        self.value = max(self.value, floor)

    def _close(self) -> None:
        # Two sums differ by a constant once no charge is open that only the earlier one holds: the greater stays.
        epochs = self._epochs
        for place in range(len(epochs) - 2, -1, -1):
            if not epochs[place].open:
                epochs[place + 1].offset = max(epochs[place + 1].offset, epochs[place].offset)
                del epochs[place]
