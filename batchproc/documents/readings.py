"""What the readings of one campaign, or of one run, made of the texts that documents had before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from psycopg import Connection
from psycopg.rows import TupleRow, args_row

from batchproc.database import SqlFolder

_AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class Reading:
    """A document that was read to its end, against the text that was current before.

    ``before_revision``: None where it had no text. Confidences are 0 to 100, None where no word was recognised;
    ``comparable``: both were read by one engine of one version with the same data, else they are not of one scale.
    ``verdict`` is that of the last reading; ``current``: its text is the current one now. ``seconds`` of a worker.
    Words are those of `diff.WordDiff`; ``before_words`` is how many there were.
    """

    document_id: int
    tenant_id: int
    tenant: str
    path: bytes
    before_revision: int | None
    before_confidence: float | None
    before_failed: int | None
    before_words: int
    comparable: bool
    revision_id: int
    confidence: float | None
    failed_pages: int
    page_count: int
    verdict: str
    current: bool
    seconds: float
    words_gained: int
    words_lost: int


class Readings:
    """Reads them for all tenants. What was pruned meanwhile is not there any more (see docs/revisions.md)."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.documents", schema)

    def of(self, connection: Connection[TupleRow], what: Literal["campaign", "run"], number: int) -> Iterator[Reading]:
        """The documents in order of their ids, some thousands in memory at a time."""
        values = {"campaign_id": None, "run_id": None, "after": 0, "limit": _AT_ONCE} | {f"{what}_id": number}
        statement = self._sql["readings"]
        cursor = connection.cursor(row_factory=args_row(Reading))
        # Once more after the last: readings of another time may be all that stood between two slices.
        while found := cursor.execute(statement, values).fetchall():
            yield from found
            values["after"] = found[-1].document_id
