"""The archive's documents: reading them, and writing what was derived from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from psycopg import Connection, Cursor
from psycopg.rows import DictRow, TupleRow, dict_row
from psycopg.types.json import Jsonb

from batchproc.core.limits import bounded_text, clean_value
from batchproc.database import SqlFolder
from batchproc.documents import registration
from batchproc.documents.file_stamp import FileStamp
from batchproc.documents.original_faults import Location
from batchproc.documents.registration import TITLE_CHARACTERS, NewDocument, Registered, Unchanged

__all__ = ["TITLE_CHARACTERS", "Document", "DocumentStore", "NewDocument", "Registered", "Tag", "Unchanged"]

Status = Literal["pending", "completed", "partial", "failed"]
TagSource = Literal["rule", "workflow", "person"]


@dataclass(frozen=True, slots=True)
class Document:
    """One row of ``documents``. ``sha256`` is the 32 bytes of the digest, ``bytes`` the size of the original.

    ``status`` says which text there is; ``failure_code`` what the last OCR of the document met, if it failed.
    """

    document_id: int
    tenant_id: int
    external_id: str | None
    root: bytes
    path: bytes
    sha256: bytes
    bytes: int
    media_type: str | None
    page_count: int | None
    language: str | None
    title: str | None
    title_source: str | None
    status: Status
    failure_code: str | None
    flags: tuple[str, ...]
    fields: dict[str, Any]
    current_revision: int | None
    verified_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag with what set it: the rule, its version, and why it matched."""

    tag: str
    rule: str | None = None
    rule_version: str | None = None
    reason: str | None = None
    source: TagSource = "rule"


class DocumentStore:
    """Documents of one tenant, or, for reading only, of all.

    Every statement carries the tenant, so that a handler cannot reach another tenant's document.
    Writing methods belong in a transaction of the caller.

    Args:
        tenant_id: None gives a store that reads any tenant's documents and writes none.
    """

    def __init__(self, schema: str, *, tenant_id: int | None) -> None:
        self.schema = schema
        self.tenant_id = tenant_id
        self._sql = SqlFolder("batchproc.documents", schema)

    def of_tenant(self, tenant_id: int) -> DocumentStore:
        """The same archive, bound to one tenant; raises ValueError for a store that is bound to another already."""
        if self.tenant_id not in (None, tenant_id):
            raise ValueError(f"a store of tenant {self.tenant_id} does not open the archive of tenant {tenant_id}")
        return DocumentStore(self.schema, tenant_id=tenant_id)

    def load(self, connection: Connection[TupleRow], document_id: int) -> Document:
        """The document; raises LookupError when there is none, or it is another tenant's."""
        row = self._rows(connection, "load_document", document_id).fetchone()
        if row is None:
            raise LookupError(f"there is no document {document_id}{self._whose()}")
        return Document(**{**row, "flags": tuple(row["flags"])})

    def text(self, connection: Connection[TupleRow], document_id: int) -> list[str]:
        """The pages' text in the current revision, in order; pages without text are empty strings."""
        rows = self._rows(connection, "load_text", document_id)
        return [row["text"] for row in rows]

    def hints(self, connection: Connection[TupleRow], document_ids: Collection[int]) -> set[str | None]:
        """The different language hints of these documents, None among them where one has none."""
        values = {"document_ids": list(document_ids), "tenant_id": self.tenant_id}
        return {row[0] for row in connection.execute(self._sql["hints"], values).fetchall()}

    def tags(self, connection: Connection[TupleRow], document_id: int) -> list[Tag]:
        """All tags by name; the same tag may come from several sources."""
        return [Tag(**row) for row in self._rows(connection, "load_tags", document_id)]

    def paths(self, connection: Connection[TupleRow], document_id: int) -> list[tuple[bytes, bytes]]:
        """Every (root, path) the content was imported from: the document's own first, then the newest."""
        return [(row["root"], row["path"]) for row in self._rows(connection, "load_paths", document_id)]

    def register(self, connection: Connection[TupleRow], new: NewDocument) -> Registered:
        """As ``register_all``, of one."""
        return self.register_all(connection, [new])[0]

    def register_all(self, connection: Connection[TupleRow], new: Sequence[NewDocument]) -> list[Registered]:
        """Adds documents, or one more path to the tenant's document of the same content; in order, pipelined.

        A duplicate keeps its ids, language and title, and takes those it lacks from ``new``.

        Raises:
            psycopg.errors.UniqueViolation: an ``external_id`` is another document's.
            psycopg.errors.DeadlockDetected: somebody registers the same contents in another order.
        """
        return registration.register_all(connection, self._sql, self._writable(), new)

    def unchanged(
        self, connection: Connection[TupleRow], files: Sequence[tuple[Location, FileStamp]]
    ) -> dict[Location, Unchanged]:
        """Those of ``files`` that an import has read and that are as they were then, with what is known of them."""
        return registration.unchanged(connection, self._sql, self._writable(), files)

    def set_title(self, connection: Connection[TupleRow], document_id: int, title: str, source: str) -> bool:
        """Sets the title unless a person (``person``) or the import (``manifest``) gave one; True when it was set."""
        text = bounded_text(title, TITLE_CHARACTERS)
        return self._write(connection, "set_title", document_id, title=text, source=source)

    def set_field(self, connection: Connection[TupleRow], document_id: int, name: str, value: Any) -> None:
        """Sets one of the document's free fields to a JSON value."""
        self._write(connection, "set_field", document_id, fields=Jsonb(clean_value({name: value})))

    def set_verified(self, connection: Connection[TupleRow], document_id: int) -> None:
        """Records that the original was found to be what was imported, now."""
        self._write(connection, "set_verified", document_id)

    def set_failure(
        self, connection: Connection[TupleRow], document_id: int, failure_code: str, *, keep_status: bool
    ) -> None:
        """Records that the document's OCR failed.

        Args:
            keep_status: leave the status of a document that has text from an earlier revision.
        """
        self._write(connection, "set_failure", document_id, failure_code=failure_code, keep_status=keep_status)

    def add_tag(
        self, connection: Connection[TupleRow], document_id: int, tag: Tag, source: TagSource = "workflow"
    ) -> None:
        """Adds or renews one tag of ``source``; the same tag from other sources stays as it is."""
        self._put_tags(connection, document_id, [tag], source)

    def replace_rule_tags(
        self,
        connection: Connection[TupleRow],
        document_id: int,
        tags: Sequence[Tag],
        source: TagSource = "rule",
    ) -> None:
        """Makes ``tags`` all the tags that ``source`` sets; what a person or another source set stays."""
        self._write(connection, "drop_tags", document_id, tags=[tag.tag for tag in tags], source=source)
        self._put_tags(connection, document_id, tags, source)

    def set_rules_version(self, connection: Connection[TupleRow], document_id: int, version: str) -> None:
        """Records by which version of all taxonomy rules of its tenant the document was classified."""
        self._write(connection, "set_rules_version", document_id, rules_version=version)

    def _put_tags(
        self, connection: Connection[TupleRow], document_id: int, tags: Iterable[Tag], source: TagSource
    ) -> None:
        for tag in tags:
            values = {
                name: bounded_text(text, TITLE_CHARACTERS)
                for name, text in (("tag", tag.tag), ("rule", tag.rule), ("reason", tag.reason))
            }
            self._write(connection, "put_tag", document_id, **values, rule_version=tag.rule_version, source=source)

    def _rows(self, connection: Connection[TupleRow], statement: str, document_id: int) -> Cursor[DictRow]:
        cursor = connection.cursor(row_factory=dict_row)
        return cursor.execute(self._sql[statement], {"document_id": document_id, "tenant_id": self.tenant_id})

    def _write(self, connection: Connection[TupleRow], statement: str, document_id: int, **values: Any) -> bool:
        values |= {"document_id": document_id, "tenant_id": self._writable()}
        return connection.execute(self._sql[statement], values).rowcount > 0

    def _writable(self) -> int:
        if self.tenant_id is None:
            raise ValueError("a store of all tenants only reads; bind it with of_tenant()")
        return self.tenant_id

    def _whose(self) -> str:
        return "" if self.tenant_id is None else f" of tenant {self.tenant_id}"
