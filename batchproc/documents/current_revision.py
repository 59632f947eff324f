"""Which revision of a document counts: decided when one is completed, changed by hand, older ones pruned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal
from uuid import UUID

from psycopg import Connection, Cursor
from psycopg.rows import DictRow, TupleRow, dict_row
from psycopg.types.json import Jsonb

from batchproc.core.errors import UsageError
from batchproc.core.keep import KeepPolicy, Means, Standing, Verdict, verdict
from batchproc.core.limits import clean_text, clean_value
from batchproc.database import SqlFolder
from batchproc.documents.text_change import TextChange, TextChanges

DEFAULT_RETAINED = 5
"""How many complete revisions a document keeps besides the current one."""
PRUNED_AT_ONCE = 20
"""Of a document whose history is longer than it may be, so many revisions go with each that is completed."""

_WAS_CURRENT = [str(word) for word in Verdict if word.is_current]


@dataclass(frozen=True, slots=True)
class Findings:
    """What an OCR found out about the document itself. ``status`` is ``completed`` or ``partial``."""

    status: Literal["completed", "partial"]
    media_type: str
    page_count: int
    flags: tuple[str, ...]
    pdf_title: str | None


@dataclass(frozen=True, slots=True)
class Retention:
    """What happens to revisions when one is completed: which stays current, how many others are kept."""

    keep: KeepPolicy = "newest"
    revisions: int = DEFAULT_RETAINED


@dataclass(frozen=True, slots=True)
class Origin:
    """What a completed revision is remembered by. ``pilot``: it was read to be looked at, and never becomes current."""

    node_id: UUID | None = None
    campaign_id: int | None = None
    run_id: int | None = None
    pilot: bool = False


@dataclass(frozen=True, slots=True)
class Restored:
    """``before`` is the revision that was current until now, the restored one itself if nothing had to change."""

    revision_id: int
    before: int | None


class CurrentRevision:
    """Sets the current revision of one tenant's documents, in a transaction of the caller.

    The document's row is locked first, so that completing and restoring at the same time follow one another.
    """

    def __init__(self, schema: str, *, tenant_id: int) -> None:
        self._tenant_id = tenant_id
        self._sql = SqlFolder("batchproc.documents", schema)
        self._changes = TextChanges(schema, tenant_id=tenant_id)

    def complete(
        self,
        connection: Connection[TupleRow],
        document_id: int,
        revision_id: int,
        findings: Findings,
        *,
        retention: Retention,
        origin: Origin,
    ) -> Verdict:
        """Ends an open revision, makes it the current one if the policy says so, and prunes older ones.

        The document's row then fits whichever revision is current; what was found out about the original itself
        (type, flags, PDF title, that it is what was imported) is written in any case. A pilot changes nothing of the
        document, and prunes no other revisions than pilots. What a revision made of the text before is written with it.

        Raises:
            RuntimeError: the revision is not open, or not the document's.
        """
        held = self._held(connection, document_id)
        ended = self._row(
            connection, "complete_revision", document_id=document_id, revision_id=revision_id, **asdict(origin)
        )
        if held is None or ended is None:
            raise RuntimeError(f"revision {revision_id} of document {document_id} is not open")
        before: int | None = held["revision_id"]
        standing, new = None if before is None else _standing(held), _standing(ended)
        decided = Verdict.PILOT if origin.pilot else verdict(retention.keep, standing, new)
        self._judge(connection, decided, held, ended)
        if origin.pilot:
            self._run(
                connection,
                "prune_pilots",
                document_id=document_id,
                verdict=str(Verdict.PILOT),
                retained=max(1, retention.revisions),
                limit=PRUNED_AT_ONCE,
            )
            return decided
        current = ended if decided.is_current else held
        partial = findings.status == "partial" if decided.is_current else held["failed_pages"] > 0
        self._run(
            connection,
            "make_current",
            document_id=document_id,
            current=current["revision_id"],
            status="partial" if partial else "completed",
            media_type=findings.media_type,
            page_count=findings.page_count if decided.is_current else held["page_count"],
            flags=list(findings.flags),
            fields=Jsonb(clean_value({"pdf_title": findings.pdf_title} if findings.pdf_title else {})),
        )
        self._prune(connection, document_id, revision_id, before, retention.revisions)
        return decided

    def _judge(self, connection: Connection[TupleRow], decided: Verdict, held: DictRow, ended: DictRow) -> None:
        """Writes the verdict on a revision, and what it made of the one that was current."""
        before, revision_id = held["revision_id"], ended["revision_id"]
        if before is None:
            change, comparable = TextChange(before=0, gained=ended["words"], lost=0), None
        else:
            change = self._changes.between(connection, before, revision_id)
            comparable = _one_scale(_standing(held), _standing(ended))
        self._run(
            connection,
            "set_verdict",
            revision_id=revision_id,
            verdict=str(decided),
            before_revision=before,
            before_confidence=held["confidence"],
            before_failed=None if before is None else held["failed_pages"],
            before_words=change.before,
            comparable=comparable,
            words_gained=change.gained,
            words_lost=change.lost,
        )

    def restore(
        self, connection: Connection[TupleRow], document_id: int, revision_id: int, *, restored_by: str
    ) -> Restored:
        """Makes a complete revision of the document current again, whatever the policy and whoever made either.

        The next completed OCR may take its place like that of any other: only what a person made stays.

        Args:
            restored_by: the login name of whoever asked for it.

        Raises:
            UsageError: there is no such document or revision, it is another document's, or it is not complete.
        """
        held = self._require_held(connection, document_id)
        found = self._row(connection, "load_complete", revision_id=revision_id)
        _require_restorable(found, document_id, revision_id)
        assert found is not None
        before: int | None = held["revision_id"]
        if before != revision_id:
            named = {"verdict": str(Verdict.RESTORED), "restored_by": restored_by}
            self._run(connection, "restore_revision", revision_id=revision_id, **named)
            partial = found["failed_pages"] > 0
            self._make_current_again(connection, document_id, revision_id, found["page_count"], partial=partial)
        return Restored(revision_id, before)

    def type(
        self,
        connection: Connection[TupleRow],
        document_id: int,
        pages: Sequence[str],
        *,
        source_sha256: bytes,
        typed_by: str,
    ) -> Restored:
        """Adds a revision with the text that a person gives to each page, and makes it current.

        No OCR takes its place; restoring another revision does.

        Args:
            typed_by: the person's login name.

        Raises:
            UsageError: there is no such document.
        """
        held = self._require_held(connection, document_id)
        texts = [clean_text(text)[0] for text in pages]
        page_words = [len(text.split()) for text in texts]
        row = self._row(
            connection,
            "add_typed_revision",
            document_id=document_id,
            texts=texts,
            page_words=page_words,
            words=sum(page_words),
            characters=sum(map(len, texts)),
            source_sha256=source_sha256,
            verdict=str(Verdict.TYPED),
            typed_by=typed_by,
        )
        assert row is not None
        self._make_current_again(connection, document_id, row["revision_id"], len(texts), partial=False)
        return Restored(row["revision_id"], held["revision_id"])

    def _make_current_again(
        self, connection: Connection[TupleRow], document_id: int, revision_id: int, page_count: int, *, partial: bool
    ) -> None:
        self._run(
            connection,
            "make_current_again",
            document_id=document_id,
            revision_id=revision_id,
            page_count=page_count,
            status="partial" if partial else "completed",
        )

    def _require_held(self, connection: Connection[TupleRow], document_id: int) -> DictRow:
        held = self._held(connection, document_id)
        if held is None:
            raise UsageError(f"there is no document {document_id}", "see: batchproc documents list")
        return held

    def _held(self, connection: Connection[TupleRow], document_id: int) -> DictRow | None:
        """The current revision of the document, whose row is locked now; None when there is no such document."""
        # Two statements: what is current cannot change any more when the second one looks.
        self._run(connection, "lock_document", document_id=document_id)
        return self._row(connection, "load_standing", document_id=document_id)

    def _prune(
        self, connection: Connection[TupleRow], document_id: int, completed: int, before: int | None, retained: int
    ) -> None:
        self._run(
            connection,
            "prune_revisions",
            document_id=document_id,
            revision_id=completed,
            fresh=[completed] if before is None else [completed, before],
            was_current=_WAS_CURRENT,
            retained=retained,
            limit=PRUNED_AT_ONCE,
        )

    def _row(self, connection: Connection[TupleRow], statement: str, **values: Any) -> DictRow | None:
        return self._run(connection, statement, **values).fetchone()

    def _run(self, connection: Connection[TupleRow], statement: str, **values: Any) -> Cursor[DictRow]:
        cursor = connection.cursor(row_factory=dict_row)
        return cursor.execute(self._sql[statement], {"tenant_id": self._tenant_id, **values})


def _one_scale(old: Standing, new: Standing) -> bool:
    """Whether the confidences of both mean the same, whatever pages each of them recognised."""
    read_by = [(one.means.engine, one.means.engine_version, one.means.data_hash) for one in (old, new)]
    return read_by[0] == read_by[1] and not (old.mixed or new.mixed)


def _standing(row: DictRow) -> Standing:
    return Standing(
        means=Means(row["engine"], row["engine_version"], row["data_hash"], row["profile"]),
        confidence=row["confidence"],
        characters=row["characters"],
        failed_pages=row["failed_pages"],
        by_person=row["by_person"],
        mixed=row["mixed"],
    )


def _require_restorable(found: DictRow | None, document_id: int, revision_id: int) -> None:
    history = f"see: batchproc documents history {document_id}"
    if found is None:
        raise UsageError(f"document {document_id} has no revision {revision_id}; it may have been pruned", history)
    if found["document_id"] != document_id:
        raise UsageError(f"revision {revision_id} is of document {found['document_id']}, not {document_id}", history)
    if found["state"] == "open":
        raise UsageError(f"revision {revision_id} is still being read: only a complete one can be restored", history)
    if found["state"] == "abandoned":
        raise UsageError(f"revision {revision_id} was never completed: it cannot be restored", history)
