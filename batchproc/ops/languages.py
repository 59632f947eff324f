"""What is told of languages where they are asked for: that nobody has them, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import UsageError
from batchproc.core.kinds import OCR
from batchproc.core.languages import AUTO, Able, named, remedy, wanted
from batchproc.ocr import detection
from batchproc.ocr.tessdata import Tessdata
from batchproc.queue.store import JobStore
from batchproc.settings import Settings


class LanguageCheck:
    """Compares what is asked for with what this machine and the nodes that run now have.

    Args:
        of_tenant: the languages of the tenant whose jobs they are, if it has any.
    """

    def __init__(
        self, settings: Settings, jobs: JobStore, connection: Connection[TupleRow], of_tenant: Sequence[str] | None
    ) -> None:
        self._settings = settings
        self._jobs = jobs
        self._connection = connection
        self._of_tenant = of_tenant
        self._told: set[frozenset[str]] = set()

    @cached_property
    def here(self) -> frozenset[str]:
        """What this machine has, with ``auto`` where it can detect languages."""
        return installed(self._settings)

    def warning(self, asked: Sequence[str] | None) -> str | None:
        """What is missing everywhere for a job that asks for these (None: for nothing), told once; else None."""
        lacking = self._lacking(asked)
        if not lacking or lacking in self._told:
            return None
        self._told.add(lacking)
        have = ", ".join(sorted(self.here)) or "none"
        return (
            f"{named(lacking)} is installed neither here ({have}) nor on a node that runs now, and without it jobs end"
            f" as missing_language: {remedy(lacking)}"
        )

    def require_detection(self, asked: Sequence[str] | None) -> None:
        """Raises UsageError where ``auto`` is asked for and neither this machine nor a node that runs now has it."""
        if AUTO in self._lacking(asked):
            raise UsageError(
                "languages cannot be detected (auto), neither here nor on a node that runs now", remedy([AUTO])
            )

    def _lacking(self, asked: Sequence[str] | None) -> frozenset[str]:
        needed = wanted(asked, self._of_tenant, self._settings.ocr.languages).needed
        if needed <= self.here:
            return frozenset()
        found = [needed - self.here, *(node.lacks(asked, self._of_tenant) for node in self._nodes)]
        return min(found, key=lambda lack: (len(lack), sorted(lack)))

    @cached_property
    def _nodes(self) -> list[Able]:
        return [node for node in self._jobs.able_nodes(self._connection) if OCR in node.kinds]


def installed(settings: Settings) -> frozenset[str]:
    """The languages of this machine, with ``auto`` where it can detect them."""
    languages = Tessdata(settings.ocr.tessdata).languages()
    return frozenset(languages | {AUTO}) if detection.is_installed() else frozenset(languages)
