"""``documents``: list, show, text; its revisions are in ``revisions``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import click

from batchproc.cli.documents.revisions import known_document, restore_revision, set_text, show_diff, show_history
from batchproc.cli.line.groups import JsonGroup
from batchproc.cli.shared.app import AFTER, ID, App, pass_app
from batchproc.cli.shared.filters import FailureCode, warn_of_code
from batchproc.cli.shared.messages import say
from batchproc.cli.shared.output import emit_json, emit_rows, fields, json_option, table
from batchproc.core.durations import duration
from batchproc.core.shown_text import one_line
from batchproc.documents.listing import PAGE_SIZE, DocumentListing, ListedDocument, ListedPage, ListedRevision
from batchproc.documents.original_faults import Location
from batchproc.documents.paths import display_path, terminal_path
from batchproc.documents.store import Document

# Of narrow columns but the first: a terminal's 80 cells have to do for all that matters.
_COLUMNS = ("document_id", "tenant", "status", "title", "code", "conf", "pages", "tags", "path")
_PAGE_COLUMNS = ("page", "state", "confidence", "words", "rotation", "seconds", "failure_code")
_MORE_OF_A_PAGE = ("skew", "dpi", "dpi_estimated", "languages", "engine_calls", "kept_from")
FAILED_PAGES_NAMED = 100
OTHER_PATHS_NAMED = 20
_STATUSES = ("pending", "completed", "partial", "failed")


@click.group(cls=JsonGroup)
def documents() -> None:
    """Look at documents, their text and its revisions."""


documents.add_command(show_history)
documents.add_command(show_diff)
documents.add_command(restore_revision)


@documents.command("list")
@click.option("--tenant", metavar="SLUG", help="Only this tenant's.")
@click.option("--status", type=click.Choice(_STATUSES), help="Only those in this status.")
@click.option(
    "--failure-code", type=FailureCode(), metavar="CODE", help="Only those whose last OCR failed with this code."
)
@click.option("--after", type=AFTER, default=0, metavar="ID", help="Continue behind this document.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=PAGE_SIZE, show_default=True, help="Documents a page.")
@json_option
@pass_app
def list_documents(
    app: App,
    tenant: str | None,
    status: str | None,
    failure_code: str | None,
    after: int,
    limit: int,
    as_json: bool,
) -> None:
    """List documents of all tenants, oldest first.

    code is the failure code. conf is the confidence of the recognised words of the current revision, 0 to 100.
    """
    with app.connect() as connection:
        tenant_id = app.jobs.tenant(connection, tenant).tenant_id if tenant is not None else None
        found = DocumentListing(app.schema).slice(
            connection, tenant_id=tenant_id, status=status, failure_code=failure_code, after=after, limit=limit
        )
    rows = [_row(document, as_json) for document in found.documents]
    if not as_json:
        rows = [
            row | {"conf": row["confidence"], "code": row["failure_code"], "pages": row["page_count"]} for row in rows
        ]
    emit_rows("documents", rows, _COLUMNS, found.next, as_json)
    if failure_code is not None and not found.documents:
        warn_of_code(app, failure_code)


@documents.command("show")
@click.argument("document_id", type=ID)
@json_option
@pass_app
def show_document(app: App, document_id: int, as_json: bool) -> None:
    """Show a document and its pages.

    The pages are those of its current revision, or of the newest if none became current.
    """
    listing = DocumentListing(app.schema)
    with app.connect() as connection:
        stored = known_document(app, connection, document_id)
        row = _row(listing.one(connection, document_id), as_json)
        paths = app.documents.paths(connection, document_id)
        revision = listing.revision(connection, document_id)
        pages = listing.pages(connection, revision.revision_id) if revision else []
        ranges = listing.ranges(connection, document_id)
    failed = [{"page": page.page, "code": page.failure_code} for page in pages if page.state == "failed"]
    row |= {
        "other_paths": _other_paths(stored, paths, display_path if as_json else terminal_path),
        "media_type": stored.media_type,
        "bytes": stored.bytes,
        "fields": stored.fields,
        "revision": revision.revision_id if revision else None,
        "ocr": _ocr(revision) if revision else None,
        "failed_page_count": len(failed),
        "failed_pages": failed[:FAILED_PAGES_NAMED],
        "ranges": [
            {"job_id": part.job_id, "state": part.state, "pages": part.pages, "done": part.done} for part in ranges
        ],
    }
    if as_json:
        columns = (*_PAGE_COLUMNS, *_MORE_OF_A_PAGE)
        emit_json(row | {"pages": [{column: getattr(page, column) for column in columns} for page in pages]})
        return
    row["failed_pages"] = [f"{page['page']} {page['code']}" for page in failed[:FAILED_PAGES_NAMED]]
    row["ranges"] = [f"{part.pages} {part.state} (job {part.job_id}, {part.done} done)" for part in ranges]
    fields(list(row.items()))
    if pages:
        click.echo()
        _show_pages(pages, detected=revision is not None and "detect" in revision.profile)


@documents.command("text")
@click.argument("document_id", type=ID)
@click.option(
    "--set",
    "given",
    type=click.File("rb"),
    metavar="FILE",
    help="Give it this text instead, UTF-8, a form feed between pages; - is standard input. No OCR will replace it.",
)
@json_option
@pass_app
def show_text(app: App, document_id: int, given: BinaryIO | None, as_json: bool) -> int:
    """Print the text of a document, its pages separated by form feeds.

    Exits with 1 when it has none yet.
    """
    if given is not None:
        return set_text(app, document_id, given, as_json)
    with app.connect() as connection:
        document = known_document(app, connection, document_id)
        pages = app.documents.text(connection, document_id)
    if as_json:
        emit_json({"document_id": document_id, "pages": pages})
    elif pages:
        _write("\f".join(pages))
    if document.current_revision is not None:
        return 0
    reason = f"{document.status}, {document.failure_code}" if document.failure_code else document.status
    say(f"document {document_id} has no text ({reason}); see: batchproc documents show {document_id}")
    return 1


def _row(document: ListedDocument, as_json: bool) -> dict[str, Any]:
    return {
        "document_id": document.document_id,
        "tenant": document.tenant,
        "external_id": document.external_id,
        "path": display_path(document.path) if as_json else terminal_path(document.path),
        "sha256": document.sha256.hex(),
        "status": document.status,
        "failure_code": document.failure_code,
        "title": document.title,
        "title_source": document.title_source,
        "language": document.language,
        "page_count": document.page_count,
        "confidence": None if document.confidence is None else round(document.confidence, 1),
        "tags": list(document.tags),
        "flags": list(document.flags),
    }


def _other_paths(
    document: Document, paths: Sequence[tuple[bytes, bytes]], displayed: Callable[[bytes], str]
) -> list[str]:
    """Where else the content was imported from: it is read there, if it is not found at the document's own path."""
    others = [place for place in paths if place != (document.root, document.path)]
    return [displayed(Location(*place).full) for place in others[:OTHER_PATHS_NAMED]]


def _show_pages(pages: Sequence[ListedPage], *, detected: bool) -> None:
    """A table; with the language that ``auto`` chose for each page, where one was ``detected``."""
    columns = [{"seconds": "took"}.get(column, column) for column in _PAGE_COLUMNS]
    rows = [[_shown_of(page, column) for column in _PAGE_COLUMNS] for page in pages]
    if not detected:
        table(columns, rows)
        return
    chosen = [page.languages[0] if page.languages else None for page in pages]
    table((*columns, "language"), [[*row, language] for row, language in zip(rows, chosen, strict=True)])


def _shown_of(page: ListedPage, column: str) -> Any:
    value = getattr(page, column)
    return duration(value) if column == "seconds" and value is not None else value


def _ocr(revision: ListedRevision) -> dict[str, Any]:
    return {
        "state": revision.state,
        "current": revision.current,
        "source": revision.source,
        "engine": revision.engine,
        "engine_version": revision.engine_version,
        "languages": list(revision.languages),
        "profile": revision.profile,
    }


def _write(text: str) -> None:
    if sys.stdout.isatty():
        # A document must not control the terminal it is shown on.
        text = "".join(char if char in "\n\t\f" else one_line(char) for char in text)
        # A form feed alone moves down, not to the line's beginning.
        text = text.replace("\f", "\n\f\r")
    stream = sys.stdout.buffer
    stream.write(text.encode() + (b"" if text.endswith("\n") else b"\n"))
    stream.flush()
