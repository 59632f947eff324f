"""All revisions of a document as they are listed, and two of them compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.errors import UsageError
from batchproc.database import connect
from batchproc.documents import diff
from batchproc.documents.current_revision import CurrentRevision
from batchproc.documents.diff import WordDiff, by_page, in_sum, line_diff
from batchproc.documents.history import RevisionHistory
from tests.documents.revising import FAILED, Revising, page
from tests.handlers.running_job import Conn, add_document, add_tenant, add_text

words = st.lists(st.sampled_from(["alpha", "bravo", "c", "ä"]), max_size=12)
texts = words.map(" ".join)
pages = st.dictionaries(st.integers(1, 4), texts, max_size=4)


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


@pytest.fixture
def history(tenant: int) -> RevisionHistory:
    return RevisionHistory("batchproc", tenant_id=tenant)


def test_history_has_every_revision_whatever_became_of_it(
    connection: Conn, tenant: int, document: Revising, history: RevisionHistory
) -> None:
    typed = add_text(connection, tenant, document.document_id, ["typed by hand"], source="person")
    read, _ = document.read(page("one two"), FAILED)
    abandoned = document.abandon()
    opened = document.begin(3)
    document.write(opened, 1, page("three", seconds=2.0))
    past = history.revisions(connection, document.document_id)
    assert [
        (one.revision_id, one.state, one.current, one.source, one.page_count, one.done_pages, one.failed_pages)
        for one in past
    ] == [
        (typed, "complete", True, "person", 1, 1, 0),
        (read, "complete", False, "engine", 2, 2, 1),
        (abandoned, "abandoned", False, "engine", 1, 1, 0),
        (opened, "open", False, "engine", 3, 1, 0),
    ]
    assert [one.words for one in past] == [3, 2, 1, 1]
    assert (past[3].seconds, past[3].confidence, past[3].verdict) == (2.0, None, None)
    assert [one.revision_id for one in history.revisions(connection, document.document_id, after=read, limit=1)] == [
        abandoned
    ]
    stranger = RevisionHistory("batchproc", tenant_id=add_tenant(connection, "stranger"))
    assert stranger.revisions(connection, document.document_id) == []


def test_the_current_revision_is_compared_with_the_one_before(
    connection: Conn, tenant: int, document: Revising, history: RevisionHistory
) -> None:
    number = document.document_id
    with pytest.raises(UsageError, match="no two revisions"):
        history.compared(connection, number, None, None)
    first, _ = document.read(page("one"))
    with pytest.raises(UsageError, match="no two revisions"):
        history.compared(connection, number, None, None)
    document.abandon()
    second, _ = document.read(page("two"))
    third, _ = document.read(page("three"))
    assert history.compared(connection, number, None, None) == (second, third)
    assert history.compared(connection, number, first, None) == (first, third)
    assert history.compared(connection, number, third, first) == (third, first)
    CurrentRevision("batchproc", tenant_id=tenant).restore(connection, number, first, restored_by="ann")
    assert history.compared(connection, number, None, None) == (third, first), "what the restore took the place of"
    other = Revising(connection, tenant, add_document(connection, tenant, content=b"other"))
    foreign, _ = other.read(page("text"))
    with pytest.raises(UsageError, match=f"has no revision {foreign}"):
        history.compared(connection, number, foreign, None)


def test_pages_that_were_only_started_have_no_text(
    connection: Conn, document: Revising, history: RevisionHistory
) -> None:
    read, _ = document.read(page("one"), FAILED)
    assert history.pages(connection, read) == {1: "one", 2: ""}


@given(texts, texts)
def test_words_lost_and_gained_are_the_difference(old: str, new: str) -> None:
    found = WordDiff.of(old, new)
    assert Counter(old.split()) - found.lost + found.gained == Counter(new.split())
    assert not found.lost & found.gained
    assert WordDiff.of(new, old) == WordDiff(lost=found.gained, gained=found.lost)


@given(words)
def test_the_order_of_words_does_not_count(old: list[str]) -> None:
    assert not WordDiff.of(" ".join(old), "\n".join(reversed(old)))


@given(pages, pages)
def test_pages_that_do_not_differ_are_left_out_and_the_sum_is_of_the_document(
    old: dict[int, str], new: dict[int, str]
) -> None:
    found = by_page(old, new)
    assert all(old.get(number, "").split() != new.get(number, "").split() for number in found)
    total = in_sum(old, new)
    balance = sum(one.gained.total() - one.lost.total() for one in found.values())
    assert total.gained.total() - total.lost.total() == balance
    assert total.lost.total() <= sum(one.lost.total() for one in found.values())


def test_a_word_on_another_page_is_not_lost() -> None:
    old, new = {1: "alpha bravo", 2: ""}, {1: "alpha", 2: "bravo"}
    assert {number: (one.lost, one.gained) for number, one in by_page(old, new).items()} == {
        1: ({"bravo": 1}, {}),
        2: ({}, {"bravo": 1}),
    }
    assert not in_sum(old, new)


def test_lines_are_compared_in_their_order() -> None:
    old, new = "one\ntwo  \nthree\nfour", "one\ntwo\nthr33\nfour"
    assert list(line_diff(old, new)) == ["@@ -2,3 +2,3 @@", " two", "-three", "+thr33", " four"]
    assert list(line_diff(old, old)) == []


def test_a_page_of_too_many_lines_is_not_compared() -> None:
    old, new = "a\n" * (diff.LONGEST_LINE_DIFF + 1), "a"
    assert list(line_diff(old, new))[1:] == ["-(2001 lines, too many to compare)", "+(1 lines, too many to compare)"]
