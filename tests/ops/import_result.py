"""All that came of an import that is small enough to be remembered."""

from __future__ import annotations

from collections.abc import Iterable

from batchproc.ops.importing import Imported, Rejected


class ImportResult:
    """``outcomes`` as they come, each kind in its order."""

    def __init__(self, outcomes: Iterable[Imported | Rejected]) -> None:
        self.documents: list[Imported] = []
        self.rejected: list[Rejected] = []
        for outcome in outcomes:
            if isinstance(outcome, Imported):
                self.documents.append(outcome)
            else:
                self.rejected.append(outcome)
