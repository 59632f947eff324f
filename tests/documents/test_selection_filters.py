"""Each point of a filter chooses exactly its documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from batchproc.database import connect
from batchproc.documents.selection import DocumentSelection, Filter, patterns_between
from tests.handlers.running_job import Conn, add_document, add_tenant, add_text

NAMES = ("plain", "tagged", "german", "large", "unread")


@dataclass
class Archive:
    """Documents of acme by name: plain, tagged, german, large and unread, and beta's other."""

    connection: Conn
    acme: int
    beta: int
    ids: dict[str, int]

    def put(self, name: str, table: str = "documents", **columns: Any) -> None:
        for column, value in columns.items():
            which = "current" if table == "ocr_revisions" else table
            self.connection.execute(_SET[which, column], [value, self.ids[name]])

    def chosen(self, **points: Any) -> set[str]:
        found = DocumentSelection("batchproc").slice(self.connection, Filter(**points), after=0, limit=100)
        names = {document_id: name for name, document_id in self.ids.items()}
        return {names[document.document_id] for document in found}


_SET = {
    ("documents", "bytes"): b"update batchproc.documents set bytes = %s where document_id = %s",
    ("documents", "page_count"): b"update batchproc.documents set page_count = %s where document_id = %s",
    ("documents", "language"): b"update batchproc.documents set language = %s where document_id = %s",
    ("documents", "created_at"): b"update batchproc.documents set created_at = %s where document_id = %s",
    ("documents", "rules_version"): b"update batchproc.documents set rules_version = %s where document_id = %s",
    ("document_paths", "root"): b"update batchproc.document_paths set root = %s where document_id = %s",
    ("document_paths", "path"): b"update batchproc.document_paths set path = %s where document_id = %s",
    ("current", "languages"): b"update batchproc.ocr_revisions set languages = %s where document_id = %s",
    ("current", "data_hash"): b"update batchproc.ocr_revisions set data_hash = %s where document_id = %s",
    ("current", "completed_at"): b"update batchproc.ocr_revisions set completed_at = %s where document_id = %s",
}


@pytest.fixture
def archive(database_url: str) -> Iterator[Archive]:
    with connect(database_url) as connection:
        acme, beta = add_tenant(connection, "acme"), add_tenant(connection, "beta")
        ids = {name: add_document(connection, acme, content=name.encode()) for name in NAMES}
        ids["other"] = add_document(connection, beta, content=b"other")
        for name, document_id in ids.items():
            if name != "unread":
                add_text(connection, beta if name == "other" else acme, document_id, ["text"])
        yield Archive(connection, acme, beta, ids)


def tag(archive: Archive, name: str, value: str, source: str = "rule") -> None:
    archive.connection.execute(
        "insert into batchproc.document_tags (tenant_id, document_id, tag, source) values (%s, %s, %s, %s)",
        [archive.beta if name == "other" else archive.acme, archive.ids[name], value, source],
    )


def test_any_of_the_tags_whoever_set_it(archive: Archive) -> None:
    tag(archive, "tagged", "invoice")
    tag(archive, "tagged", "invoice", "person")
    tag(archive, "other", "contract", "person")
    assert archive.chosen(tags=["invoice"]) == {"tagged"}
    assert archive.chosen(tags=["invoice", "contract"]) == {"tagged", "other"}
    assert archive.chosen(tags=["invoice", "contract"], tenant_id=archive.acme) == {"tagged"}
    assert archive.chosen(tags=["inv"]) == set()


def test_a_language_of_the_text_or_where_there_is_none_of_the_hint(archive: Archive) -> None:
    archive.put("german", "ocr_revisions", languages=["deu", "eng"])
    archive.put("unread", language="deu+fra")
    archive.put("plain", language="deu")
    assert archive.chosen(languages=["deu"]) == {"german", "unread"}, "plain was read in English all the same"
    assert archive.chosen(languages=["fra", "deu"]) == {"german", "unread"}
    assert archive.chosen(languages=["eng"]) == {"plain", "tagged", "german", "large", "other"}


def test_the_data_it_was_read_by(archive: Archive) -> None:
    archive.put("german", "ocr_revisions", data_hash="aaa")
    archive.put("large", "ocr_revisions", data_hash="bbb")
    assert archive.chosen(data_hashes=["aaa", "ccc"]) == {"german"}
    assert archive.chosen(data_hashes=[]) == set(), "none of none"


def test_texts_that_were_read_longer_ago(archive: Archive) -> None:
    now = datetime.now(UTC)
    archive.put("plain", "ocr_revisions", completed_at=now - timedelta(days=100))
    archive.put("large", "ocr_revisions", completed_at=now - timedelta(days=80))
    assert archive.chosen(older_than=timedelta(days=90)) == {"plain"}
    assert archive.chosen(older_than=timedelta(days=70)) == {"plain", "large"}


def test_when_they_were_imported(archive: Archive) -> None:
    noon = datetime(2020, 6, 1, 12, tzinfo=UTC)
    archive.put("plain", created_at=noon)
    archive.put("large", created_at=noon - timedelta(seconds=1))
    assert archive.chosen(imported_before=noon) == {"large"}
    assert archive.chosen(imported_after=noon - timedelta(hours=1), imported_before=noon + timedelta(hours=1)) == {
        "plain",
        "large",
    }
    assert archive.chosen(imported_after=noon) == set(archive.ids) - {"large"}


def test_size_and_pages_include_their_bounds(archive: Archive) -> None:
    archive.put("large", bytes=5000, page_count=40)
    archive.put("plain", bytes=1000, page_count=4)
    assert archive.chosen(min_bytes=1000) == {"large", "plain"}
    assert archive.chosen(min_bytes=1000, max_bytes=4999) == {"plain"}
    assert archive.chosen(min_pages=4, max_pages=40) == {"large", "plain"}
    assert archive.chosen(min_pages=5) == {"large"}
    assert "unread" not in archive.chosen(max_pages=100), "nobody knows its pages"


def test_documents_that_were_classified_by_other_rules_or_never(archive: Archive) -> None:
    archive.put("plain", rules_version="now")
    archive.put("tagged", rules_version="before")
    rules = {archive.acme: "now", archive.beta: "betas"}
    archive.put("other", rules_version="betas")
    assert archive.chosen(rules=rules) == {"tagged", "german", "large", "unread"}
    archive.put("other", rules_version="now")
    assert "other" in archive.chosen(rules=rules), "the rules of another tenant are other rules"


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [
        (b"/srv/scans", {"plain", "german"}),
        (b"/srv/scans/", {"plain", "german"}),
        (b"/srv/scans/a_b/plain.tif", {"plain"}),
        (b"/srv/sca", set()),
        (b"/srv/*.tif", {"plain", "german"}),
        (b"*german*", {"german"}),
        (b"/srv/scans/aXb/*", set()),
        (b"/srv/scans/a_b/*", {"plain"}),
        (b"/srv/100%/*", {"large"}),
        (b"/srv/100*", {"large", "tagged"}),
        (b"/nothing/\\here", {"unread"}),
        (b"*\xff*", {"tagged"}),
        (b"/top", {"other"}),
    ],
)
def test_paths(archive: Archive, pattern: bytes, chosen: set[str]) -> None:
    for name, root, path in (
        ("plain", b"/srv/scans", b"a_b/plain.tif"),
        ("german", b"/srv/scans/", b"german.tif"),
        ("large", b"/srv", b"100%/large"),
        ("tagged", b"/srv", b"1000\xff/tagged"),
        ("unread", b"/nothing", b"\\here"),
        ("other", b"/", b"top/file"),
    ):
        archive.put(name, "document_paths", root=root, path=path)
    assert archive.chosen(paths=patterns_between(pattern.split(b"*"))) == chosen


def test_every_path_of_a_document_counts(archive: Archive) -> None:
    archive.connection.execute(
        "insert into batchproc.document_paths (tenant_id, document_id, root, path) values (%s, %s, '/copy', 'x')",
        [archive.acme, archive.ids["plain"]],
    )
    assert archive.chosen(paths=patterns_between([b"/copy"])) == {"plain"}
    assert archive.chosen(paths=[*patterns_between([b"/copy"]), *patterns_between([b"/none"])]) == {"plain"}


def test_pages_are_told_with_each_document(archive: Archive) -> None:
    archive.put("large", page_count=40)
    archive.connection.execute("update batchproc.documents set status = 'partial' where page_count = 40")
    archive.connection.execute(
        "update batchproc.ocr_pages set state = 'failed' where revision_id = (select current_revision from"
        " batchproc.documents where page_count = 40)"
    )
    found = DocumentSelection("batchproc").slice(archive.connection, Filter(), after=0, limit=100)
    pages = {document.document_id: (document.pages, document.failed_pages) for document in found}
    assert pages[archive.ids["large"]] == (40, 1)
    assert pages[archive.ids["plain"]] == (1, None)
    assert pages[archive.ids["unread"]] == (None, None)
