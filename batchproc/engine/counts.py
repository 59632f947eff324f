"""What a run has done, in the keys that its summary shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from batchproc.core.job import JobState
from batchproc.core.limits import CODE
from batchproc.core.transition import Transition


@dataclass
class Counts:
    """Attempts and jobs of one run; ``codes`` counts the failure codes of discarded jobs.

    ``partial_codes`` counts the documents that ended partial by the code of the first page that failed, where their
    result says one, as failures.sql finds it.

    ``storages`` counts the jobs that wait for a storage by what their handlers said of it, of the first hundred such
    texts.
    """

    claimed: int = 0
    completed: int = 0
    retried: int = 0
    snoozed: int = 0
    rescued: int = 0
    discarded: int = 0
    cancelled: int = 0
    interrupted: int = 0
    partial: int = 0
    storage_unavailable: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    partial_codes: Counter[str] = field(default_factory=Counter)
    storages: Counter[str] = field(default_factory=Counter)

    def add(self, moved: Transition, stored: JobState) -> None:
        """Counts one settled attempt; ``stored`` is what the database made of it (it may be superseded)."""
        if stored is JobState.COMPLETED:
            self.completed += 1
            if moved.partial:
                self.partial += 1
                self._name_page(moved.result)
        elif stored is JobState.DISCARDED:
            self.discarded += 1
            self.codes[moved.failure_code or "internal_error"] += 1
        elif stored is JobState.CANCELLED:
            self.cancelled += 1
        elif moved.outcome == "interrupted":
            self.interrupted += 1
        elif moved.outcome == "snoozed":
            self.snoozed += 1
            if moved.error_class == "storage_unavailable":
                self.storage_unavailable += 1
                self._name_storage(moved.detail or "a storage is unavailable")
        else:
            self.retried += 1

    def _name_page(self, result: str | None) -> None:
        code = first_page_code(result)
        if code is not None:
            self.partial_codes[code] += 1

    def _name_storage(self, told: str) -> None:
        if told in self.storages or len(self.storages) < _STORAGES_NAMED:
            self.storages[told] += 1

    def rescue(self, jobs: int, discarded: int) -> None:
        """Counts claims taken back from dead nodes, and those of them that were given up on."""
        self.rescued += jobs
        if discarded:
            self.discarded += discarded
            self.codes["poison"] += discarded

    def give_up(self, code: str, jobs: int) -> None:
        """Counts jobs that were discarded without an attempt."""
        if jobs:
            self.discarded += jobs
            self.codes[code] += jobs

    def forget_discarded(self, codes: Mapping[str, int]) -> None:
        """Takes back jobs that were counted as discarded, by code: something else that is counted tells of them."""
        for code, jobs in codes.items():
            taken = min(jobs, self.codes[code])
            self.discarded -= taken
            self.codes[code] -= taken
        self.codes = +self.codes

    def exit_code(self, accepted: Collection[str]) -> int:
        """3 when a storage was gone, 1 when jobs were discarded or documents ended partial, else 0.

        Args:
            accepted: codes of discarded jobs, and of the first page of partial documents, that nobody wants to hear of.
        """
        if self.storage_unavailable:
            return 3
        partial = self.partial - sum(self.partial_codes[code] for code in set(accepted))
        return 1 if partial > 0 or any(code not in accepted for code in self.codes) else 0

    def plain(self) -> dict[str, int]:
        """The counts by the keys of the run's summary."""
        return {name: getattr(self, name) for name in _SUMMARY}


def first_page_code(result: str | None) -> str | None:
    """The code of the first of the ``failed_pages`` in a result; None when it names none."""
    try:
        code = json.loads(result or "null")["failed_pages"][0]["code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return code if isinstance(code, str) and CODE.match(code) else None


_STORAGES_NAMED = 100
_SUMMARY = (
    "claimed",
    "completed",
    "retried",
    "snoozed",
    "rescued",
    "discarded",
    "cancelled",
    "interrupted",
    "partial",
)
