"""The archive's rows: bound to a tenant, and what people set stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from batchproc.database import connect
from batchproc.documents.listing import DocumentListing
from batchproc.documents.store import DocumentStore, NewDocument, Tag
from tests.handlers.running_job import Conn, add_document, add_tenant, add_text


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


def store_of(tenant_id: int) -> DocumentStore:
    return DocumentStore("batchproc", tenant_id=tenant_id)


def new(content: int, **more: Any) -> NewDocument:
    return NewDocument(b"/archive", b"%d.tif" % content, bytes([content]) * 32, 6, **more)


def test_a_store_reaches_no_other_tenants_document(connection: Conn) -> None:
    mine, other = add_tenant(connection, "mine"), add_tenant(connection, "other")
    theirs = add_document(connection, other, content=b"theirs")
    add_text(connection, other, theirs, ["secret"])
    store = store_of(mine)
    with pytest.raises(LookupError, match=rf"no document {theirs} of tenant {mine}"):
        store.load(connection, theirs)
    assert store.text(connection, theirs) == []
    assert store.paths(connection, theirs) == []
    before = store_of(other).load(connection, theirs)
    assert not store.set_title(connection, theirs, "x", "person")
    store.set_field(connection, theirs, "x", 1)
    store.set_failure(connection, theirs, "x", keep_status=False)
    assert store_of(other).load(connection, theirs) == before
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        store.add_tag(connection, theirs, Tag("x"))


def test_an_unbound_store_reads_all_and_writes_nothing(connection: Conn) -> None:
    tenant = add_tenant(connection)
    document = add_document(connection, tenant)
    unbound = DocumentStore("batchproc", tenant_id=None)
    assert unbound.load(connection, document).tenant_id == tenant
    with pytest.raises(ValueError, match="of_tenant"):
        unbound.set_field(connection, document, "x", 1)
    unbound.of_tenant(tenant).set_field(connection, document, "x", 1)
    assert unbound.load(connection, document).fields == {"x": 1}


def test_text_is_that_of_the_current_revision_in_page_order(connection: Conn) -> None:
    tenant = add_tenant(connection)
    document = add_document(connection, tenant)
    assert store_of(tenant).text(connection, document) == []
    add_text(connection, tenant, document, ["old"])
    pages = [f"page {number}" for number in range(1, 13)]
    add_text(connection, tenant, document, pages)
    assert store_of(tenant).text(connection, document) == pages


def test_the_same_content_is_one_document_with_every_path(connection: Conn) -> None:
    store = store_of(add_tenant(connection))
    first = store.register(connection, new(1))
    long = b"/".join([b"f" * 250] * 16)
    again = store.register(connection, NewDocument(b"/other", long, bytes([1]) * 32, 6, "id-1", "deu", "Letter"))
    store.register(connection, NewDocument(b"/other", long, bytes([1]) * 32, 6))
    assert (first.duplicate, again.duplicate, again.document_id) == (False, True, first.document_id)
    assert store.paths(connection, first.document_id) == [(b"/archive", b"1.tif"), (b"/other", long)]
    document = store.load(connection, first.document_id)
    assert (document.external_id, document.language, document.title) == ("id-1", "deu", "Letter")
    assert document.path == b"1.tif"


def test_a_duplicate_keeps_what_it_has(connection: Conn) -> None:
    store = store_of(add_tenant(connection))
    document_id = store.register(connection, new(1, external_id="one", language="deu", title="Set by hand")).document_id
    store.set_title(connection, document_id, "By a person", "person")
    store.register(connection, new(1, external_id="two", language="fra", title="From a manifest"))
    document = store.load(connection, document_id)
    assert (document.external_id, document.language, document.title) == ("one", "deu", "By a person")


def test_tenants_do_not_share_documents(connection: Conn) -> None:
    stores = [store_of(add_tenant(connection, slug)) for slug in ("one", "two")]
    registered = [store.register(connection, new(1, external_id="same")) for store in stores]
    assert [found.duplicate for found in registered] == [False, False]
    assert registered[0].document_id != registered[1].document_id


def test_an_external_id_names_one_document(connection: Conn) -> None:
    store = store_of(add_tenant(connection))
    store.register(connection, new(1, external_id="same"))
    with pytest.raises(psycopg.errors.UniqueViolation):
        store.register(connection, new(2, external_id="same"))


@pytest.mark.parametrize("kept", ["person", "manifest"])
def test_a_title_that_somebody_gave_is_not_replaced(connection: Conn, kept: str) -> None:
    store = store_of(add_tenant(connection))
    document_id = store.register(connection, new(1)).document_id
    assert store.set_title(connection, document_id, "First line", "text")
    assert store.set_title(connection, document_id, "Given", kept)
    assert not store.set_title(connection, document_id, "First line", "text")
    assert store.load(connection, document_id).title == "Given"
    assert store.set_title(connection, document_id, "Later by a person", "person")


def test_titles_that_the_database_could_not_hold_are_cleaned(connection: Conn) -> None:
    store = store_of(add_tenant(connection))
    document_id = store.register(connection, new(1)).document_id
    assert store.set_title(connection, document_id, "A\x00B\ud800" + "c" * 2000, "text")
    title = store.load(connection, document_id).title
    assert title is not None
    assert title.startswith("ABc")
    assert len(title) == 1000


def test_rule_tags_are_replaced_and_those_of_others_stay(connection: Conn) -> None:
    store = store_of(add_tenant(connection))
    document_id = store.register(connection, new(1)).document_id
    store.add_tag(connection, document_id, Tag("invoice"), source="person")
    store.add_tag(connection, document_id, Tag("inbox", "upload", "1"), source="workflow")
    store.replace_rule_tags(
        connection, document_id, [Tag("invoice", "r1", "1", "Invoice"), Tag("tax", "r2", "1", "VAT")]
    )
    store.replace_rule_tags(connection, document_id, [Tag("invoice", "r1", "2", "Invoice no.")])
    assert store.tags(connection, document_id) == [
        Tag("inbox", "upload", "1", None, "workflow"),
        Tag("invoice", None, None, None, "person"),
        Tag("invoice", "r1", "2", "Invoice no.", "rule"),
    ]
    store.replace_rule_tags(connection, document_id, [])
    assert [tag.source for tag in store.tags(connection, document_id)] == ["workflow", "person"]


def test_a_failure_takes_the_status_only_where_it_should(connection: Conn) -> None:
    tenant = add_tenant(connection)
    store = store_of(tenant)
    read, unread = (add_document(connection, tenant, content=content) for content in (b"read", b"unread"))
    add_text(connection, tenant, read, ["text"])
    for document in (read, unread):
        store.set_failure(connection, document, "missing_language", keep_status=True)
    assert store.load(connection, read).status == "completed"
    assert store.load(connection, unread).status == "failed"
    store.set_failure(connection, read, "source_changed", keep_status=False)
    changed = store.load(connection, read)
    assert (changed.status, changed.failure_code) == ("failed", "source_changed")


def test_a_listing_goes_on_where_the_slice_before_ended(connection: Conn) -> None:
    one, two = add_tenant(connection, "one"), add_tenant(connection, "two")
    mine = [add_document(connection, one, content=b"%d" % number) for number in range(5)]
    other = add_document(connection, two, content=b"other")
    store_of(one).add_tag(connection, mine[0], Tag("b"), source="person")
    store_of(one).replace_rule_tags(connection, mine[0], [Tag("b"), Tag("a")])
    store_of(one).set_failure(connection, mine[3], "encrypted", keep_status=False)
    listing = DocumentListing("batchproc")

    first = listing.slice(connection, tenant_id=one, limit=2)
    assert [found.document_id for found in first.documents] == mine[:2]
    assert first.documents[0].tags == ("a", "b")
    assert first.documents[0].tenant == "one"
    last = listing.slice(connection, tenant_id=one, after=first.next or 0, limit=3)
    assert ([found.document_id for found in last.documents], last.next) == (mine[2:], None)
    assert [found.document_id for found in listing.slice(connection, status="failed").documents] == [mine[3]]
    assert [found.document_id for found in listing.slice(connection).documents] == [*mine, other]
    assert listing.one(connection, other).path == b"/nowhere/file"
    with pytest.raises(LookupError):
        listing.one(connection, other + 1)
