"""Which text a document has after the ``ocr`` handler read it again, on a real file with the real engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batchproc.database import connect
from batchproc.documents.current_revision import Retention
from batchproc.documents.history import RevisionHistory
from batchproc.handlers.context import Context
from batchproc.handlers.ocr import OcrResult, ocr
from batchproc.handlers.ocr_options import OcrArgs, retention
from batchproc.settings import Settings
from tests.handlers.running_job import Conn, add_document, add_tenant, add_text, claim_again, running_job
from tests.ocr import drawn

LONG = "a text of a far better engine, " * 20


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


class Reader:
    """A document that has text already, and jobs that read it again."""

    def __init__(self, connection: Conn, folder: Path, **tenant_settings: Any) -> None:
        file = folder / "scan.tif"
        file.write_bytes(drawn.saved(drawn.page(), "TIFF", dpi=(300, 300)))
        self.connection = connection
        self.folder = folder
        self.tenant = add_tenant(connection, **tenant_settings)
        self.document_id = add_document(connection, self.tenant, file)

    def claim(self, **ocr_settings: Any) -> Context:
        settings = Settings.model_validate({"ocr": {"languages": ["eng"], **ocr_settings}})
        return running_job(
            self.connection,
            self.folder,
            kind="ocr",
            tenant_id=self.tenant,
            document_id=self.document_id,
            settings=settings,
        )

    def read(self, ctx: Context, **args: Any) -> OcrResult:
        result = ocr(ctx, OcrArgs(document_id=self.document_id, **args))
        assert isinstance(result, OcrResult)
        return result

    def give(self, text: str, source: str = "engine") -> int:
        """Text from elsewhere, with the sums that a completed revision has."""
        revision_id = add_text(self.connection, self.tenant, self.document_id, [text], source)
        self.connection.execute(
            "update batchproc.ocr_revisions set characters = %s, failed_pages = 0 where revision_id = %s",
            [len(text), revision_id],
        )
        return revision_id

    def history(self) -> list[tuple[bool, str | None]]:
        past = RevisionHistory("batchproc", tenant_id=self.tenant).revisions(self.connection, self.document_id)
        return [(one.current, one.verdict) for one in past]


@pytest.mark.parametrize(
    ("of_job", "of_tenant", "of_settings", "expected"),
    [
        (None, None, "newest", "newest"),
        (None, None, "best", "best"),
        (None, "newest", "best", "newest"),
        ("best", "newest", "newest", "best"),
        ("newest", "best", "best", "newest"),
    ],
)
def test_the_most_special_word_decides_what_is_kept(
    connection: Conn, tmp_path: Path, of_job: Any, of_tenant: Any, of_settings: str, expected: Any
) -> None:
    reader = Reader(connection, tmp_path, **({"keep": of_tenant} if of_tenant else {}))
    ctx = reader.claim(keep=of_settings)
    assert retention(ctx, OcrArgs(document_id=1, keep=of_job)) == Retention(expected, 5)


def test_a_worse_text_does_not_replace_a_better_one_and_is_there_all_the_same(connection: Conn, tmp_path: Path) -> None:
    reader = Reader(connection, tmp_path, keep="best")
    reader.give(LONG)
    ctx = reader.claim()
    read = reader.read(ctx)
    assert reader.history() == [(True, None), (False, "lost_characters")]
    assert ctx.documents.text(connection, reader.document_id) == [LONG]
    assert [follow.kind for follow in ctx.follow_ups] == ["classify"]
    again = claim_again(connection, ctx, attempt=2)
    assert reader.read(again) == read, "only its ending was lost"
    assert len(reader.history()) == 2


def test_by_default_the_newer_text_counts(connection: Conn, tmp_path: Path) -> None:
    reader = Reader(connection, tmp_path)
    reader.give(LONG)
    ctx = reader.claim()
    reader.read(ctx)
    assert reader.history() == [(False, None), (True, "newest")]
    assert "quick brown fox" in ctx.documents.text(connection, reader.document_id)[0]


def test_a_persons_text_stays(connection: Conn, tmp_path: Path) -> None:
    reader = Reader(connection, tmp_path)
    reader.give("typed", source="person")
    ctx = reader.claim()
    reader.read(ctx)
    assert reader.history() == [(True, None), (False, "person")]
    assert ctx.documents.text(connection, reader.document_id) == ["typed"]


def test_the_node_and_its_time_are_kept_with_the_revision(connection: Conn, tmp_path: Path) -> None:
    reader = Reader(connection, tmp_path)
    reader.read(reader.claim())
    [past] = RevisionHistory("batchproc", tenant_id=reader.tenant).revisions(connection, reader.document_id)
    nodes = connection.execute("select node_id from batchproc.nodes").fetchall()
    assert [(past.node_id,)] == nodes
    assert past.seconds > 0
    assert past.confidence is not None
    assert 50 < past.confidence <= 100
