"""Whether a revision that has just been completed takes the place of the current one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

KeepPolicy = Literal["newest", "best"]
"""``newest``: the newer revision takes the place of the older; ``best``: unless it looks worse."""


class Verdict(StrEnum):
    """Why a completed revision became the current one, or why not."""

    FIRST = "first"
    """It became current: there was none."""
    NEWEST = "newest"
    """It became current: it is the newer one, and nothing that can be compared speaks against it."""
    FEWER_FAILED = "fewer_failed"
    """It became current: fewer of its pages failed."""
    BETTER = "better"
    """It became current: read by equal means with more confidence."""
    AS_GOOD = "as_good"
    """It became current: read by equal means with equal confidence."""
    RESTORED = "restored"
    """Somebody made it current again by hand."""
    TYPED = "typed"
    """It became current: a person gave it."""
    REVERTED = "reverted"
    """It became current again: the campaign that had made another one current was reverted."""
    PERSON = "person"
    """The current one stays: a person made it."""
    LOST_CHARACTERS = "lost_characters"
    """The current one stays: this one has less than four fifths of its characters."""
    MORE_FAILED = "more_failed"
    """The current one stays: more pages of this one failed."""
    NOT_BETTER = "not_better"
    """The current one stays: this one was read by equal means with less confidence."""
    PILOT = "pilot"
    """The current one stays, if there is one: this one was read to be looked at."""

    @property
    def is_current(self) -> bool:
        """Whether the revision became the current one."""
        return self in _BECAME_CURRENT


_BECAME_CURRENT = frozenset(
    {
        Verdict.FIRST,
        Verdict.NEWEST,
        Verdict.FEWER_FAILED,
        Verdict.BETTER,
        Verdict.AS_GOOD,
        Verdict.RESTORED,
        Verdict.TYPED,
        Verdict.REVERTED,
    }
)


@dataclass(frozen=True, slots=True)
class Means:
    """What a text was read with. Confidences of unequal means cannot be compared."""

    engine: str
    engine_version: str
    data_hash: str
    profile: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Standing:
    """A revision as far as it is compared.

    ``confidence`` is the mean of its recognised words, 0 to 100, None where none was recognised; ``characters`` and
    ``failed_pages`` are counts; ``by_person``: a person typed or corrected it; ``mixed``: pages of it were taken over
    that had been read by other means, so that its confidence can be compared with none.
    """

    means: Means
    confidence: float | None
    characters: int
    failed_pages: int
    by_person: bool = False
    mixed: bool = False


def verdict(policy: KeepPolicy, current: Standing | None, new: Standing) -> Verdict:
    """Whether ``new`` takes the place of ``current``.

    Under either policy a text of a person stays. ``newest`` asks nothing else. ``best`` keeps the current one when
    the new one, in this order, lost more than a fifth of its characters, or has more failed pages (a failure tells
    of the attempt, not of the page); or when both were read by equal means, fail equally often, and the new one is
    less confident. So a partial revision never takes the place of a complete one, and a complete one that lost
    nothing always that of a partial one. In doubt the newer one wins.
    """
    if current is None:
        return Verdict.FIRST
    if current.by_person:
        return Verdict.PERSON
    if policy == "newest":
        return Verdict.NEWEST
    if _lost_characters(current, new):
        return Verdict.LOST_CHARACTERS
    if new.failed_pages != current.failed_pages:
        return Verdict.MORE_FAILED if new.failed_pages > current.failed_pages else Verdict.FEWER_FAILED
    if current.means != new.means or current.mixed or new.mixed:
        return Verdict.NEWEST
    if current.confidence is None or new.confidence is None:
        return Verdict.NEWEST
    if new.confidence == current.confidence:
        return Verdict.AS_GOOD
    return Verdict.BETTER if new.confidence > current.confidence else Verdict.NOT_BETTER


def _lost_characters(current: Standing, new: Standing) -> bool:
    """More than a fifth: what the design allows a better engine to leave out as noise."""
    return new.characters * 5 < current.characters * 4
