"""How many words a revision gained and lost against another one of the same document, however long that is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.database import SqlFolder
from batchproc.documents.diff import WordDiff

_PAGES_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class TextChange:
    """Words as `diff.WordDiff` counts them: between white space, in any order. ``before``: those of the old text."""

    before: int
    gained: int
    lost: int


class TextChanges:
    """Compares revisions of one tenant's documents; in memory are some pages of a text, and each distinct word."""

    def __init__(self, schema: str, *, tenant_id: int) -> None:
        self._tenant_id = tenant_id
        self._sql = SqlFolder("batchproc.documents", schema)

    def between(self, connection: Connection[TupleRow], old: int, new: int) -> TextChange:
        """What the revision ``new`` gained and lost against the revision ``old``; one that was pruned is empty."""
        before, after = self._words(connection, old), self._words(connection, new)
        diff = WordDiff.between(before, after)
        return TextChange(before=before.total(), gained=diff.gained.total(), lost=diff.lost.total())

    def _words(self, connection: Connection[TupleRow], revision_id: int) -> Counter[str]:
        words: Counter[str] = Counter()
        values = {"tenant_id": self._tenant_id, "revision_id": revision_id, "after": 0, "limit": _PAGES_AT_ONCE}
        while pages := connection.execute(self._sql["text_slice"], values).fetchall():
            for page, text in pages:
                words.update(text.split())
                values["after"] = page
        return words
