"""How files become documents: many in one go, each content once for each tenant."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection, Cursor
from psycopg.rows import TupleRow

from batchproc.core.limits import bounded_text
from batchproc.database import SqlFolder
from batchproc.documents.file_stamp import FileStamp
from batchproc.documents.original_faults import Location

TITLE_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class NewDocument:
    """What an import knows of a document. ``path`` is below ``root``; both as they are on disk.

    ``stamp``: how the file was when it was read, where that tells whether it changes.
    """

    root: bytes
    path: bytes
    sha256: bytes
    bytes: int
    external_id: str | None = None
    language: str | None = None
    title: str | None = None
    stamp: FileStamp | None = None


@dataclass(frozen=True, slots=True)
class Registered:
    """``duplicate``: the tenant already had a document of the same content, and it got one more path.

    ``failure_code``: what its last OCR met, if it failed; ``has_text``: some OCR of it was complete.
    """

    document_id: int
    duplicate: bool
    failure_code: str | None = None
    has_text: bool = False


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A file that was read before and still has that ``stamp``, and its document; ``sha256`` is of both."""

    registered: Registered
    sha256: bytes
    stamp: FileStamp
    external_id: str | None
    language: str | None
    title: str | None
    title_source: str | None

    def lacks(self, new: NewDocument) -> bool:
        """Whether the document would take anything from ``new`` when it was registered again."""
        title = bounded_text(new.title, TITLE_CHARACTERS)
        return (
            (new.external_id is not None and self.external_id is None)
            or (new.language is not None and self.language is None)
            or (
                title is not None
                and self.title_source != "person"
                and (title, "manifest") != (self.title, self.title_source)
            )
        )


def register_all(
    connection: Connection[TupleRow], sql: SqlFolder, tenant_id: int, new: Sequence[NewDocument]
) -> list[Registered]:
    """See ``DocumentStore.register_all``."""
    values = [_values(tenant_id, one) for one in new]
    added = _each(connection, sql["register"], values)
    met = [one for one, row in zip(values, added, strict=True) if row is None]
    known = iter(_each(connection, sql["register_again"], met))
    registered = []
    for row in added:
        if row is not None:
            registered.append(Registered(row[0], duplicate=False))
            continue
        again = next(known)
        assert again is not None, "the insert met this document, and documents are not deleted meanwhile"
        document_id, failure_code, has_text = again
        registered.append(Registered(document_id, True, failure_code, has_text))
    with connection.cursor() as cursor:
        cursor.executemany(
            sql["add_path"],
            [{**one, "document_id": made.document_id} for one, made in zip(values, registered, strict=True)],
        )
    return registered


def unchanged(
    connection: Connection[TupleRow], sql: SqlFolder, tenant_id: int, files: Sequence[tuple[Location, FileStamp]]
) -> dict[Location, Unchanged]:
    """See ``DocumentStore.unchanged``."""
    values = {
        "tenant_id": tenant_id,
        "hashes": [_path_hash(location) for location, _ in files],
        "bytes": [stamp.bytes for _, stamp in files],
        "modified": [stamp.modified_ns for _, stamp in files],
        "changed": [stamp.changed_ns for _, stamp in files],
    }
    known = {}
    if files:
        for place, document_id, failure_code, has_text, sha256, *others in connection.execute(
            sql["unchanged_files"], values
        ):
            location, stamp = files[place - 1]
            registered = Registered(document_id, True, failure_code, has_text)
            known[location] = Unchanged(registered, sha256, stamp, *others)
    return known


def _each(
    connection: Connection[TupleRow], statement: bytes, values: Sequence[Mapping[str, Any]]
) -> list[TupleRow | None]:
    """The first row that the statement returns for each of ``values``, pipelined."""
    if not values:
        return []
    with connection.cursor() as cursor:
        cursor.executemany(statement, values, returning=True)
        return list(_first_rows(cursor))


def _first_rows(cursor: Cursor[TupleRow]) -> Iterator[TupleRow | None]:
    yield cursor.fetchone()
    while cursor.nextset():
        yield cursor.fetchone()


def _values(tenant_id: int, new: NewDocument) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id,
        "root": new.root,
        "path": new.path,
        "sha256": new.sha256,
        "bytes": new.bytes,
        "external_id": new.external_id,
        "language": new.language,
        "title": bounded_text(new.title, TITLE_CHARACTERS),
        "stamp_bytes": new.stamp and new.stamp.bytes,
        "modified_ns": new.stamp and new.stamp.modified_ns,
        "changed_ns": new.stamp and new.stamp.changed_ns,
    }


def _path_hash(location: Location) -> bytes:
    # As document_paths.path_hash is generated.
    return hashlib.sha256(location.root + b"\0" + location.path).digest()
