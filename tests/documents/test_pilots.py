"""Revisions that are read to be looked at, and what a revision made of the text before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from psycopg.rows import dict_row

from batchproc.core.keep import Verdict
from batchproc.database import connect
from batchproc.documents.current_revision import CurrentRevision, Origin, Retention
from batchproc.documents.diff import in_sum
from batchproc.documents.history import RevisionHistory
from batchproc.documents.readings import Readings
from batchproc.documents.text_change import TextChange, TextChanges
from tests.documents.revising import FAILED, SPEC, Revising, page, without_sums
from tests.handlers.running_job import Conn, add_document, add_tenant, add_text

PILOT = Origin(campaign_id=7, pilot=True)
READ = Origin(campaign_id=8, run_id=3)


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def tenant(connection: Conn) -> int:
    return add_tenant(connection)


@pytest.fixture
def document(connection: Conn, tenant: int) -> Revising:
    return Revising(connection, tenant, add_document(connection, tenant))


def whole_row(connection: Conn, document_id: int) -> Any:
    query = "select d::text from batchproc.documents d where document_id = %s"
    return connection.execute(query, [document_id]).fetchone()


def judged(connection: Conn, revision_id: int) -> dict[str, Any]:
    query = """
        select before_revision, before_confidence, before_failed, before_words, comparable, words_gained, words_lost,
               campaign_id, run_id, pilot
        from batchproc.ocr_revisions where revision_id = %s
    """
    row = connection.cursor(row_factory=dict_row).execute(query, [revision_id]).fetchone()
    assert row is not None
    return row


def test_a_pilot_changes_nothing_of_its_document(connection: Conn, document: Revising) -> None:
    current, _ = document.read(page("one two three"))
    before = whole_row(connection, document.document_id)
    pilot, verdict = document.read(page("one two four five"), FAILED, origin=PILOT)
    assert (verdict, verdict.is_current) == (Verdict.PILOT, False)
    assert whole_row(connection, document.document_id) == before
    assert document.left() == [current, pilot]


def test_a_pilot_of_a_document_without_text_leaves_it_so(connection: Conn, document: Revising) -> None:
    before = whole_row(connection, document.document_id)
    pilot, verdict = document.read(page("one two"), origin=PILOT)
    assert verdict == Verdict.PILOT
    assert whole_row(connection, document.document_id) == before
    assert judged(connection, pilot) | {"campaign_id": 7} == {
        "before_revision": None,
        "before_confidence": None,
        "before_failed": None,
        "before_words": 0,
        "comparable": None,
        "words_gained": 2,
        "words_lost": 0,
        "campaign_id": 7,
        "run_id": None,
        "pilot": True,
    }
    document.read(page("one two"))
    assert document.row()[1] == "completed"


def test_what_a_revision_made_of_the_text_before_is_written_with_it(connection: Conn, document: Revising) -> None:
    old, _ = document.read(page("the cat sat sat", 80.0), FAILED)
    new, _ = document.read(page("the hat sat", 90.0), page("on mats"), origin=READ)
    assert judged(connection, new) == {
        "before_revision": old,
        "before_confidence": 80.0,
        "before_failed": 1,
        "before_words": 4,
        "comparable": True,
        "words_gained": 3,
        "words_lost": 2,
        "campaign_id": 8,
        "run_id": 3,
        "pilot": False,
    }


@pytest.mark.parametrize(
    ("spec", "comparable"),
    [
        (SPEC, True),
        (replace(SPEC, profile={"mode": "force", "dpi": 300}), True),
        (replace(SPEC, engine_version="6.0"), False),
        (replace(SPEC, data_hash="other"), False),
    ],
)
def test_confidences_of_another_engine_or_data_are_not_of_one_scale(
    connection: Conn, document: Revising, spec: Any, comparable: bool
) -> None:
    document.read(page("old"))
    new, _ = document.read(page("new"), spec=spec)
    assert judged(connection, new)["comparable"] is comparable


def test_a_text_of_before_there_were_sums_is_compared_too(connection: Conn, document: Revising) -> None:
    document.read(page("the cat", 70.0))
    without_sums(connection)
    new, _ = document.read(page("the hat", 80.0))
    found = judged(connection, new)
    assert (found["before_confidence"], found["before_words"], found["words_gained"]) == (70.0, 2, 1)


def test_changes_are_those_that_a_diff_shows_however_many_pages_there_are(
    connection: Conn, tenant: int, document: Revising
) -> None:
    old = [f"word{number % 7} same\u00a0{number}" for number in range(430)]
    new = [f"word{number % 5} same {number + 3}\n" for number in range(415)]
    first = add_text(connection, tenant, document.document_id, old)
    second = add_text(connection, tenant, document.document_id, new)
    history = RevisionHistory("batchproc", tenant_id=tenant)
    diff = in_sum(history.pages(connection, first), history.pages(connection, second))
    found = TextChanges("batchproc", tenant_id=tenant).between(connection, first, second)
    assert found == TextChange(before=430 * 3, gained=diff.gained.total(), lost=diff.lost.total())
    assert diff.gained.total() - diff.lost.total() == -15 * 3


def test_no_tenant_sees_the_words_of_another(connection: Conn, tenant: int, document: Revising) -> None:
    revision = add_text(connection, tenant, document.document_id, ["secret words"])
    other = TextChanges("batchproc", tenant_id=add_tenant(connection, "beta"))
    assert other.between(connection, revision, revision) == TextChange(0, 0, 0)


def test_pilots_push_no_other_revision_out(connection: Conn, document: Revising) -> None:
    kept = [document.read(page(f"text {number}"), retention=Retention(revisions=1))[0] for number in range(2)]
    for number in range(3):
        document.read(page(f"pilot {number}"), origin=PILOT, retention=Retention(revisions=2))
    left = document.left()
    assert left[:2] == kept, "the one that can be gone back to is there"
    assert len(left) == 4, "and of the pilots the newest two"
    last, _ = document.read(page("read again"), retention=Retention(revisions=1))
    assert document.left() == [kept[1], last], "pilots go before what has been current"


def test_a_pilot_that_was_made_current_by_hand_stays(connection: Conn, tenant: int, document: Revising) -> None:
    document.read(page("text"))
    chosen, _ = document.read(page("better"), origin=PILOT)
    CurrentRevision("batchproc", tenant_id=tenant).restore(connection, document.document_id, chosen, restored_by="ada")
    for number in range(3):
        document.read(page(f"pilot {number}"), origin=PILOT, retention=Retention(revisions=1))
    assert document.row()[0] == chosen
    assert chosen in document.left()


def test_a_diff_without_names_passes_pilots_over(connection: Conn, tenant: int, document: Revising) -> None:
    first, _ = document.read(page("one"))
    document.read(page("two"), origin=PILOT)
    last, _ = document.read(page("three"))
    history = RevisionHistory("batchproc", tenant_id=tenant)
    assert history.compared(connection, document.document_id, None, None) == (first, last)


def test_readings_of_a_campaign_come_once_per_document(connection: Conn, tenant: int, document: Revising) -> None:
    first, _ = document.read(page("a b c", 60.0))
    document.read(page("a b d", 70.0), FAILED, origin=READ)
    last, _ = document.read(page("a b d", 70.0), page("e f", 80.0), origin=READ)
    other = Revising(connection, tenant, add_document(connection, tenant, content=b"2"))
    other.read(page("only one"), origin=READ)
    found = list(Readings("batchproc").of(connection, "campaign", 8))
    assert found == list(Readings("batchproc").of(connection, "run", 3))
    assert [reading.document_id for reading in found] == [document.document_id, other.document_id]
    reading = found[0]
    assert (reading.before_revision, reading.revision_id) == (first, last)
    assert reading.before_confidence == 60.0
    assert reading.confidence == pytest.approx(74.0)
    assert (reading.before_failed, reading.failed_pages, reading.page_count) == (0, 0, 2)
    assert (reading.words_gained, reading.words_lost, reading.before_words) == (3, 1, 3)
    assert (reading.current, reading.verdict, reading.tenant) == (True, "newest", "acme")
    assert found[1].before_revision is None
    assert list(Readings("batchproc").of(connection, "campaign", 9)) == []


def test_readings_of_many_documents_come_in_slices(
    connection: Conn, tenant: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchproc.documents.readings._AT_ONCE", 2)
    ids = []
    for number in range(5):
        document = Revising(connection, tenant, add_document(connection, tenant, content=bytes([number])))
        ids.append(document.document_id)
        for _ in range(1 + number % 2):
            document.read(page("text"), origin=READ)
    assert [reading.document_id for reading in Readings("batchproc").of(connection, "campaign", 8)] == ids
