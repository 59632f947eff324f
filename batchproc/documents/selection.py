"""Choosing documents by what their last OCR left, in slices of any archive's size."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from batchproc.database import SqlFolder
from batchproc.documents.store import Status

_LIKE_SPECIAL = re.compile(rb"[\\%_]")


@dataclass(frozen=True, slots=True)
class Filter:
    """What a document has to be, all of it; None leaves a point open.

    ``below_confidence``: 0 to 100, of the current revision, and so only documents of which a page was recognised; one
    on which no word was found is below any.
    ``engine_versions``: of the current revision, exactly, or of pages that were taken over into it.
    ``failure_codes``: what the last OCR of the document met; it may have kept the text of an earlier one.
    ``tags``: any of them. ``languages``: any of them among those it was read in, or, where it has no text yet, hinted.
    ``data_hashes``: of the language data it was read by. ``older_than``: since its current text
    was complete.
    ``imported_after`` and ``imported_before``: when it was first imported, from the one until before the other.
    ``min_bytes`` to ``max_pages``: of the original, these among them; whose pages nobody knows yet has too few and too
    many of them.
    ``rules``: per tenant the version of its taxonomy rules by which it was *not* classified last.
    ``paths``: patterns as of ``patterns_between``; any that fits any path of the document.
    """

    tenant_id: int | None = None
    document_ids: Sequence[int] | None = None
    statuses: Sequence[Status] | None = None
    below_confidence: float | None = None
    engine_versions: Sequence[str] | None = None
    failure_codes: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    languages: Sequence[str] | None = None
    data_hashes: Sequence[str] | None = None
    older_than: timedelta | None = None
    imported_after: datetime | None = None
    imported_before: datetime | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None
    min_pages: int | None = None
    max_pages: int | None = None
    rules: Mapping[int, str] | None = None
    paths: Sequence[bytes] | None = None

    def values(self) -> dict[str, Any]:
        """The parameters of the statement."""
        rules = None if self.rules is None else list(self.rules.items())
        return {
            "tenant_id": self.tenant_id,
            "document_ids": _listed(self.document_ids),
            "statuses": _listed(self.statuses),
            "below_confidence": self.below_confidence,
            "engine_versions": _listed(self.engine_versions),
            "failure_codes": _listed(self.failure_codes),
            "tags": _listed(self.tags),
            "languages": _listed(self.languages),
            "data_hashes": _listed(self.data_hashes),
            "older_than": self.older_than,
            "imported_after": self.imported_after,
            "imported_before": self.imported_before,
            "min_bytes": self.min_bytes,
            "max_bytes": self.max_bytes,
            "min_pages": self.min_pages,
            "max_pages": self.max_pages,
            "rules_of": None if rules is None else [tenant_id for tenant_id, _ in rules],
            "rules_versions": None if rules is None else [version for _, version in rules],
            "path_like": _listed(self.paths),
        }


@dataclass(frozen=True, slots=True)
class Selected:
    """A document that fits. ``has_text``: it has a current revision; ``by_person``: a person made that.

    ``is_begun``: a job that is no pilot began to read it, and goes on with it, or whoever reads it next does.
    ``pages``: how many it has, None where nobody knows; ``failed_pages``: those of them that could not be read, of a
    partial document.
    """

    document_id: int
    tenant_id: int
    status: Status
    failure_code: str | None
    has_text: bool
    by_person: bool
    pages: int | None = None
    failed_pages: int | None = None
    is_begun: bool = False


class DocumentSelection:
    """Reads documents of all tenants, paused ones too."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.documents", schema)

    def slice(self, connection: Connection[TupleRow], chosen: Filter, *, after: int, limit: int) -> list[Selected]:
        """At most ``limit`` documents in order of their ids, from the first id above ``after``."""
        values = chosen.values() | {"after": after, "limit": limit}
        cursor = connection.cursor(row_factory=class_row(Selected))
        # Never prepared: the best plan depends on which points are open.
        return cursor.execute(self._sql["select_documents"], values, prepare=False).fetchall()

    def engine_versions(self, connection: Connection[TupleRow]) -> list[str]:
        """Every version of an engine that complete revisions were made with."""
        return [row[0] for row in connection.execute(self._sql["engine_versions"]).fetchall()]

    def data_in_use(self, connection: Connection[TupleRow]) -> list[tuple[tuple[str, ...], str]]:
        """(languages, hash of their data) of every set that complete revisions were read in."""
        return [(tuple(row[0]), row[1]) for row in connection.execute(self._sql["data_in_use"]).fetchall()]


def patterns_between(parts: Sequence[bytes]) -> list[bytes]:
    """What ``Filter.paths`` needs for a path pattern, in which ``*`` stands for any bytes, slashes too.

    Without a ``*`` it is a file, or a folder with everything below it.

    Args:
        parts: what stands between the ``*``; one in the parts themselves stands for itself.
    """
    escaped = [_LIKE_SPECIAL.sub(rb"\\\g<0>", part) for part in parts]
    if len(escaped) > 1:
        return [b"%".join(escaped)]
    bare = escaped[0].rstrip(b"/")
    return [bare, bare + b"/%"]


def _listed(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)
