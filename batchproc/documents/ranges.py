"""Revisions whose pages are read by several jobs, each a range, and joined by one when all of them are over.

``ranges_left`` counts the jobs of a revision's ranges that have not come to a final state: a trigger keeps it
(migration 0004), whatever brings a job there. The ranges belong to their revision for good: who goes on with the pages
of a revision that was split moves them to a new one, so that a range that is retried later meets no pages of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from psycopg import Connection, Cursor
from psycopg.rows import DictRow, TupleRow, dict_row
from psycopg.types.json import Jsonb

from batchproc.core.limits import clean_value
from batchproc.core.ranges import PageRange
from batchproc.database import SqlFolder
from batchproc.documents.current_revision import Findings
from batchproc.documents.revisions import Revision, revision_from


@dataclass(frozen=True, slots=True)
class SplitRevision:
    """A revision as its ranges see it.

    ``ranges_left``: None where it is not split. ``findings``: what was found out about the original when it was split,
    with the status of a document that was read wholly.
    """

    revision: Revision
    document_id: int
    state: Literal["open", "complete", "abandoned"]
    ranges_left: int | None
    findings: Findings | None

    @property
    def is_being_read(self) -> bool:
        """Whether its ranges have something to do."""
        return self.state == "open" and self.ranges_left is not None


@dataclass(frozen=True, slots=True)
class Unread:
    """Pages that a job should have read which was given up on, with the failure code of that."""

    job_id: int
    pages: PageRange
    code: str


class RangeStore:
    """The split revisions of one tenant's documents; writing methods belong in a transaction of the caller."""

    def __init__(self, schema: str, *, tenant_id: int) -> None:
        self._tenant_id = tenant_id
        self._sql = SqlFolder("batchproc.documents", schema)

    def load(self, connection: Connection[TupleRow], revision_id: int) -> SplitRevision | None:
        """The revision with that id; None when it was pruned, or is another tenant's."""
        row = self._run(connection, "load_revision", revision_id=revision_id).fetchone()
        if row is None:
            return None
        own = {name: row.pop(name) for name in ("document_id", "state", "ranges_left")}
        findings = row.pop("findings")
        return SplitRevision(revision_from(row), findings=None if findings is None else _findings(findings), **own)

    def is_newest(self, connection: Connection[TupleRow], split: SplitRevision) -> bool:
        """Whether the document has no later revision that is being read or is complete."""
        values = {"document_id": split.document_id, "revision_id": split.revision.revision_id}
        return self._run(connection, "newer_revision", **values).fetchone() is None

    def split(self, connection: Connection[TupleRow], revision_id: int, ranges: int, findings: Findings) -> None:
        """Leaves the rest of an open revision to so many jobs, which are enqueued when the caller's job is settled."""
        values = {"ranges": ranges, "findings": Jsonb(clean_value(asdict(findings)))}
        self._run(connection, "split_revision", revision_id=revision_id, **values)

    def lock(self, connection: Connection[TupleRow], document_id: int, revision_id: int) -> int | None:
        """How many ranges are left, which nobody changes until the transaction's end; None if it is not open."""
        # The document first, as whoever completes or restores a revision does.
        self._run(connection, "lock_document", document_id=document_id)
        row = self._run(connection, "lock_ranges", revision_id=revision_id).fetchone()
        return None if row is None else row["ranges_left"]

    def fail_unread(self, connection: Connection[TupleRow], revision_id: int, unread: Sequence[Unread]) -> int:
        """Marks what is not done of these pages as failed, counts it in the tenant's usage, and returns how much."""
        values = {
            "job_ids": [part.job_id for part in unread],
            "firsts": [part.pages.first for part in unread],
            "lasts": [part.pages.last for part in unread],
            "codes": [part.code for part in unread],
        }
        row = self._run(connection, "fail_unread", revision_id=revision_id, **values).fetchone()
        assert row is not None
        return int(row["failed"])

    def move_pages(self, connection: Connection[TupleRow], from_revision_id: int, revision_id: int) -> None:
        """Gives all pages of a revision to an open one of the same document that is read in the same way."""
        self._run(connection, "move_pages", revision_id=revision_id, from_revision_id=from_revision_id)

    def note_means(self, connection: Connection[TupleRow], revision_id: int, engine_version: str) -> None:
        """Pages of an open revision are read by other means than its own, by an engine of that version."""
        self._run(connection, "note_means", revision_id=revision_id, engine_version=engine_version)

    def _run(self, connection: Connection[TupleRow], statement: str, **values: Any) -> Cursor[DictRow]:
        cursor = connection.cursor(row_factory=dict_row)
        return cursor.execute(self._sql[statement], {"tenant_id": self._tenant_id, **values})


def _findings(stored: dict[str, Any]) -> Findings:
    return Findings(**{**stored, "flags": tuple(stored["flags"])})
