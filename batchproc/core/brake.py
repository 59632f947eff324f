"""The brake: when the environment, not the documents, makes the jobs of a kind fail, the kind is to be paused.

An archive that is not mounted or a broken release must not discard a million jobs. So attempts are watched in the
order in which they end, and a kind is braked as soon as one code about the environment

- has ended the attempts of ``jobs`` different jobs of the kind in a row, or
- is that of half of the kind's last ``10 * jobs`` attempts, by at least ``jobs`` different jobs.

One job that fails again and again is no reason: it says as much of itself as of the environment. Nor is one large
document that is read by many jobs, a range of its pages each: those count as one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable
from dataclasses import dataclass

from batchproc.core.outcome import ErrorClass
from batchproc.core.transition import Transition

ENVIRONMENT_CODES = frozenset(
    {
        "internal_error",
        "invalid_args",
        "missing_language",
        "no_space",
        "permission_denied",
        "poison",
        "source_missing",
        "unknown_kind",
    }
)
"""Codes that tell of a release, a machine, its settings or a mount; args were validated when they were enqueued, so
that it is a release that no longer takes them. Never those of a document's content, nor timeouts: a few hundred bad
scans in a row are no fault of the environment."""

_WINDOW = 10
_SAYS_NOTHING = frozenset({"interrupted", "snoozed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Braked:
    """A kind to pause. ``reason``: ``20 jobs in a row ended with internal_error``."""

    kind: str
    code: str
    reason: str


def tells(moved: Transition) -> bool:
    """Whether the ending says anything of its kind's environment; a node that died, or somebody's wish, does not."""
    return moved.outcome not in _SAYS_NOTHING and moved.error_class != ErrorClass.LEASE_EXPIRED


class Brake:
    """Decides when a kind is to be paused. It remembers ``10 * jobs`` attempts of each kind.

    Args:
        jobs: how many different jobs in a row are enough; None never brakes.
    """

    def __init__(self, jobs: int | None) -> None:
        self._jobs = jobs
        self._kinds: dict[str, _Endings] = {}

    def note(self, kind: str, whose: Hashable, code: str | None) -> Braked | None:
        """An attempt has ended: with that failure code, or well (None).

        Args:
            whose: what stands for the job; jobs that are parts of one work have the same.

        Returns:
            Why the kind is to be paused, if it is. What was seen of the kind is forgotten then: once resumed, it
            begins anew.
        """
        if self._jobs is None:
            return None
        endings = self._kinds.get(kind)
        if endings is None:
            endings = self._kinds[kind] = _Endings(self._jobs)
        cause = code if code in ENVIRONMENT_CODES else None
        endings.add(whose, cause)
        reason = endings.reason(cause) if cause is not None else None
        if cause is None or reason is None:
            return None
        del self._kinds[kind]
        return Braked(kind, cause, reason)


class _Endings:
    """The last attempts of one kind: whose they were, and the code about the environment they ended with, if any."""

    def __init__(self, jobs: int) -> None:
        self._least = jobs
        self._size = _WINDOW * jobs
        self._row_code: str | None = None
        self._row: set[Hashable] = set()
        self._window: deque[tuple[Hashable, str | None]] = deque()
        self._failed: dict[str, Counter[Hashable]] = {}  # code: attempts of each
        self._attempts: Counter[str] = Counter()

    def add(self, whose: Hashable, cause: str | None) -> None:
        if cause != self._row_code:
            self._row_code, self._row = cause, set()
        self._window.append((whose, cause))
        if cause is not None:
            self._row.add(whose)
            self._failed.setdefault(cause, Counter())[whose] += 1
            self._attempts[cause] += 1
        if len(self._window) > self._size:
            self._forget(*self._window.popleft())

    def reason(self, cause: str) -> str | None:
        """Why ``cause`` brakes the kind, None when it does not."""
        if len(self._row) >= self._least:
            what = f"{len(self._row)} jobs in a row" if self._least > 1 else "a job"
            return f"{what} ended with {cause}"
        if 2 * self._attempts[cause] >= self._size and len(self._failed[cause]) >= self._least:
            return f"{self._attempts[cause]} of the last {self._size} attempts ended with {cause}"
        return None

    def _forget(self, whose: Hashable, cause: str | None) -> None:
        if cause is None:
            return
        self._attempts[cause] -= 1
        self._failed[cause][whose] -= 1
        if not self._failed[cause][whose]:
            del self._failed[cause][whose]
