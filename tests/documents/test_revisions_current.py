"""Which revision is current, what the document's row then says, what is pruned, and going back by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest

from batchproc.core.errors import UsageError
from batchproc.core.keep import Verdict
from batchproc.database import SqlFolder, connect
from batchproc.documents.current_revision import CurrentRevision, Retention
from batchproc.documents.history import RevisionHistory
from batchproc.documents.revisions import PageProgress, RevisionStore
from batchproc.documents.store import DocumentStore
from tests.documents.revising import FAILED, SPEC, Revising, page, without_sums
from tests.handlers.running_job import Conn, add_document, add_tenant, add_text
from tests.waiting import wait_until

BEST = Retention(keep="best")
NEWER_ENGINE = replace(SPEC, engine_version="6.0")


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
def current(tenant: int) -> CurrentRevision:
    return CurrentRevision("batchproc", tenant_id=tenant)


def usage(connection: Conn) -> list[Any]:
    return connection.execute("select pages_text, pages_ocr, pages_failed from batchproc.usage_daily").fetchall()


def test_a_completed_revision_has_its_sums(connection: Conn, tenant: int, document: Revising) -> None:
    node = uuid4()
    revision_id = document.begin(4)
    document.write(revision_id, 1, page("one two three", 80.0, seconds=1.5))
    document.write(revision_id, 2, page("four", 100.0, seconds=0.5))
    document.write(revision_id, 3, replace(page("of the layer", seconds=0.25), state="text", confidence=None))
    document.write(revision_id, 4, FAILED)
    assert document.complete(revision_id, node_id=node) is Verdict.FIRST
    [past] = RevisionHistory("batchproc", tenant_id=tenant).revisions(connection, document.document_id)
    assert (past.words, past.characters, past.failed_pages, past.done_pages) == (7, 29, 1, 4)
    assert past.confidence == pytest.approx((3 * 80 + 100) / 4), "the mean of the recognised words"
    assert (past.seconds, past.node_id, past.verdict, past.current) == (2.25, node, "first", True)
    assert document.row() == (revision_id, "partial", 4, None)


def test_pages_of_a_text_layer_have_no_confidence(connection: Conn, tenant: int, document: Revising) -> None:
    document.read(replace(page("layer"), state="text", confidence=None), replace(page(""), state="blank"))
    [past] = RevisionHistory("batchproc", tenant_id=tenant).revisions(connection, document.document_id)
    assert past.confidence is None


def test_newest_takes_the_newer_text_even_if_it_is_worse(document: Revising) -> None:
    document.read(page("a good long text", 95.0))
    worse, verdict = document.read(page("bad", 30.0))
    assert verdict is Verdict.NEWEST
    assert document.row()[0] == worse


def test_best_keeps_the_text_that_is_better(document: Revising) -> None:
    good, _ = document.read(page("a good long text", 95.0), page("more of it", 95.0))
    assert document.read(page("a good long te%t", 94.0), page("more of it", 95.0), retention=BEST)[1] == "not_better"
    assert document.read(page("a", 99.0), page("", 99.0), retention=BEST)[1] == "lost_characters"
    assert document.read(page("a", 99.0), FAILED, spec=NEWER_ENGINE, retention=BEST)[1] == "lost_characters"
    partial = document.read(page("a good long text and some more"), FAILED, spec=NEWER_ENGINE, retention=BEST)
    assert partial[1] == "more_failed"
    assert document.row() == (good, "completed", 2, None), "all that the row says is of the current one"
    newer, verdict = document.read(
        page("a good long text"), page("more of it", 10.0), spec=NEWER_ENGINE, retention=BEST
    )
    assert (verdict, document.row()[0]) == ("newest", newer)
    better, verdict = document.read(page("a good long text"), page("more of it"), spec=NEWER_ENGINE, retention=BEST)
    assert (verdict, document.row()[0]) == ("better", better)
    again, verdict = document.read(page("a good long text"), page("more of it"), spec=NEWER_ENGINE, retention=BEST)
    assert (verdict, document.row()[0]) == ("as_good", again)


def test_a_complete_revision_takes_the_place_of_a_partial_one(document: Revising) -> None:
    document.read(page("some text of a page", 95.0), FAILED)
    assert document.row()[1] == "partial"
    whole, verdict = document.read(page("some text of a page", 50.0), page("and the other"), retention=BEST)
    assert (verdict, document.row()) == ("fewer_failed", (whole, "completed", 2, None))


def test_best_sees_what_is_lost_of_a_revision_of_before_there_were_sums(
    connection: Conn, tenant: int, document: Revising
) -> None:
    good, _ = document.read(page("a good long text", 95.0), FAILED)
    without_sums(connection)
    [past] = history(document)
    assert (past.characters, past.failed_pages, past.confidence) == (16, 1, 95.0)
    assert document.read(page("a", 99.0), page("b", 99.0), retention=BEST)[1] == "lost_characters"
    assert document.row()[:2] == (good, "partial")
    assert document.read(page("a good long te%t", 94.0), FAILED, retention=BEST)[1] == "not_better"
    assert document.read(FAILED, FAILED, retention=BEST)[1] == "lost_characters"
    assert document.read(page("a good long text"), page("more"), retention=BEST)[1] == "fewer_failed"


def test_a_partial_revision_of_before_there_were_sums_is_restored_as_partial(
    connection: Conn, document: Revising, current: CurrentRevision
) -> None:
    partial, _ = document.read(page("text"), FAILED)
    whole, _ = document.read(page("text"), page("more"))
    without_sums(connection)
    current.restore(connection, document.document_id, partial, restored_by="ann")
    assert document.row()[:2] == (partial, "partial")
    current.restore(connection, document.document_id, whole, restored_by="ann")
    assert document.row()[:2] == (whole, "completed")


def test_confidences_of_a_text_by_two_engines_decide_nothing(connection: Conn, document: Revising) -> None:
    old, _ = document.read(page("a good long text", 95.0), FAILED)
    mixed = document.begin(2, NEWER_ENGINE)
    document.store.keep_pages(connection, mixed, old)
    document.write(mixed, 2, page("more of it", 95.0))
    assert document.complete(mixed, BEST) == "fewer_failed"
    pages = (page("a good long text", 50.0), page("more of it", 50.0))
    assert document.read(*pages, spec=NEWER_ENGINE, retention=BEST)[1] == "newest"
    assert document.read(*pages, spec=NEWER_ENGINE, retention=BEST)[1] == "as_good"


def test_a_text_whose_pages_were_taken_over_from_equal_means_is_compared(connection: Conn, document: Revising) -> None:
    old, _ = document.read(page("a good long text", 95.0), FAILED)
    second = document.begin(2)
    document.store.keep_pages(connection, second, old)
    document.write(second, 2, page("more of it", 95.0))
    document.complete(second)
    worse = (page("a good long text", 50.0), page("more of it", 50.0))
    assert document.read(*worse, retention=BEST)[1] == "not_better"


def test_what_was_taken_over_twice_is_still_told(connection: Conn, document: Revising) -> None:
    old, _ = document.read(page("a good long text", 95.0), FAILED, FAILED)
    second = document.begin(3, NEWER_ENGINE)
    document.store.keep_pages(connection, second, old)
    document.write(second, 2, page("more of it", 95.0))
    document.write(second, 3, FAILED)
    document.complete(second)
    third = document.begin(3, NEWER_ENGINE)
    document.store.keep_pages(connection, third, second)
    document.write(third, 3, page("the end", 95.0))
    document.complete(third)
    kept = connection.execute("select kept_versions from batchproc.ocr_revisions order by revision_id").fetchall()
    assert kept == [(None,), (["5.5"],), (["5.5"],)]


@pytest.mark.parametrize("retention", [Retention(), BEST])
def test_a_persons_text_stays_and_the_reading_can_be_restored(
    connection: Conn, tenant: int, document: Revising, current: CurrentRevision, retention: Retention
) -> None:
    typed = add_text(connection, tenant, document.document_id, ["typed"], source="person")
    read, verdict = document.read(page("recognised", 99.0), page("too"), retention=retention)
    assert (verdict, document.row()) == ("person", (typed, "completed", 1, None))
    current.restore(connection, document.document_id, read, restored_by="ann")
    assert document.row() == (read, "completed", 2, None)
    current.restore(connection, document.document_id, typed, restored_by="ann")
    assert document.read(page("recognised", 99.0), retention=retention)[1] == "person"


def test_a_reading_that_changes_nothing_ends_the_failure_of_the_one_before(
    connection: Conn, tenant: int, document: Revising
) -> None:
    good, _ = document.read(page("a good long text"))
    documents = DocumentStore("batchproc", tenant_id=tenant)
    documents.set_failure(connection, document.document_id, "source_missing", keep_status=False)
    assert document.row() == (good, "failed", 1, "source_missing")
    assert document.read(page("a"), retention=BEST)[1] == "lost_characters"
    assert document.row() == (good, "completed", 1, None), "its original was there"


def test_history_is_pruned_to_the_newest(document: Revising) -> None:
    ids = [document.read(page(f"reading {number}"), retention=Retention(revisions=2))[0] for number in range(5)]
    assert document.left() == ids[2:], "the current one and two before it"


def test_pages_go_with_their_revision(connection: Conn, document: Revising) -> None:
    for number in range(3):
        document.read(page(f"reading {number}"), page("two"), retention=Retention(revisions=1))
    assert connection.execute("select count(*) from batchproc.ocr_pages").fetchone() == (4,)


def test_the_one_that_was_current_before_is_never_pruned(
    connection: Conn, document: Revising, current: CurrentRevision
) -> None:
    first, _ = document.read(page("a good long text", 95.0))
    rejected = [document.read(page("bad", 1.0), retention=BEST)[0] for _ in range(7)]
    assert document.left() == [first, *rejected[2:]], "five besides the current one, the oldest there is"
    better, _ = document.read(page("a good long text", 96.0), retention=BEST)
    assert document.left() == [first, *rejected[3:], better]
    document.read(page("bad", 1.0), retention=Retention("best", 2))
    assert first in document.left(), "it counted once; those that never did go before it"
    current.restore(connection, document.document_id, first, restored_by="ann")
    newest, _ = document.read(page("the newest"), retention=Retention(revisions=1))
    assert document.left() == [first, newest]


def test_the_revision_that_was_just_read_stays_although_it_did_not_become_current(document: Revising) -> None:
    first, _ = document.read(page("a good long text", 95.0))
    second, _ = document.read(page("a good long text", 96.0))
    rejected, _ = document.read(page("bad"), retention=Retention("best", 1))
    assert document.left() == [second, rejected]
    assert first not in document.left()


def test_what_a_person_made_and_what_is_open_is_never_pruned(
    connection: Conn, tenant: int, document: Revising, current: CurrentRevision
) -> None:
    typed = add_text(connection, tenant, document.document_id, ["typed"], source="person")
    kept, _ = document.read(page("one"), retention=Retention(revisions=1))
    current.restore(connection, document.document_id, kept, restored_by="ann")
    ids = [document.read(page("again"), retention=Retention(revisions=1))[0] for _ in range(3)]
    assert document.left() == [typed, *ids[1:]]
    opened = document.begin(1)
    assert document.left() == [typed, *ids[1:], opened]


def test_abandoned_revisions_go_when_a_newer_one_is_complete(connection: Conn, document: Revising) -> None:
    document.abandon()
    document.abandon()
    done, _ = document.read(page("text"))
    assert document.left() == [done]
    later = document.abandon()
    assert document.left() == [done, later]
    assert connection.execute("select count(*) from batchproc.ocr_pages").fetchone() == (2,)


def test_a_long_history_is_pruned_in_parts(document: Revising, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchproc.documents.current_revision.PRUNED_AT_ONCE", 2)
    ids = [document.read(page("text"), retention=Retention(revisions=100))[0] for _ in range(6)]
    document.read(page("text"), retention=Retention(revisions=1))
    assert len(document.left()) == 5, "of six besides the current one, two"
    document.read(page("text"), retention=Retention(revisions=1))
    assert document.left()[0] == ids[4]


def test_other_documents_lose_nothing(connection: Conn, tenant: int, document: Revising) -> None:
    other = Revising(connection, tenant, add_document(connection, tenant, content=b"other"))
    kept = [other.read(page("text"))[0], other.abandon()]
    for _ in range(4):
        document.read(page("text"), retention=Retention(revisions=1))
    assert other.left() == kept


def test_restoring_brings_text_and_row_back(
    connection: Conn, tenant: int, document: Revising, current: CurrentRevision
) -> None:
    documents = DocumentStore("batchproc", tenant_id=tenant)
    first, _ = document.read(page("the first text"), FAILED)
    second, _ = document.read(page("the second"), page("text"))
    documents.set_failure(connection, document.document_id, "out_of_memory", keep_status=True)
    assert document.row() == (second, "completed", 2, "out_of_memory")
    restored = current.restore(connection, document.document_id, first, restored_by="ann")
    assert (restored.revision_id, restored.before) == (first, second)
    assert documents.text(connection, document.document_id) == ["the first text", ""]
    assert document.row() == (first, "partial", 2, None)
    past = RevisionHistory("batchproc", tenant_id=tenant).revisions(connection, document.document_id)
    assert [(one.current, one.verdict, one.restored_by) for one in past] == [
        (True, "restored", "ann"),
        (False, "newest", None),
    ]
    assert current.restore(connection, document.document_id, first, restored_by="bob").before == first
    assert document.read(page("the third"), page("text"))[1] == "newest", "only a person's text is never replaced"


def test_a_typed_text_is_current_and_stays(
    connection: Conn, tenant: int, document: Revising, current: CurrentRevision
) -> None:
    documents = DocumentStore("batchproc", tenant_id=tenant)
    documents.set_failure(connection, document.document_id, "encrypted", keep_status=True)
    typed = current.type(connection, document.document_id, ["one t\x00wo", ""], source_sha256=b"s" * 32, typed_by="ann")
    assert document.row() == (typed.revision_id, "completed", 2, None), "there is text now"
    assert documents.text(connection, document.document_id) == ["one two", ""]
    [past] = history(document)
    assert (past.source, past.verdict, past.words, past.characters) == ("person", "typed", 2, 7)
    assert (past.page_count, past.done_pages, past.restored_by) == (2, 2, "ann")
    again = current.type(connection, document.document_id, ["three", ""], source_sha256=b"s" * 32, typed_by="ann")
    assert again.before == typed.revision_id
    for _ in range(3):
        assert document.read(page("read"), page("too"), retention=Retention(revisions=1))[1] == "person"
    assert document.left()[:2] == [typed.revision_id, again.revision_id], "both are a person's"
    assert document.row()[0] == again.revision_id


def test_an_alarm_about_the_original_outlives_a_restore(
    connection: Conn, tenant: int, document: Revising, current: CurrentRevision
) -> None:
    first, _ = document.read(page("one"))
    document.read(page("two"))
    DocumentStore("batchproc", tenant_id=tenant).set_failure(
        connection, document.document_id, "source_changed", keep_status=False
    )
    current.restore(connection, document.document_id, first, restored_by="ann")
    assert document.row() == (first, "failed", 1, "source_changed")


def test_only_complete_revisions_of_the_document_are_restored(
    connection: Conn, tenant: int, document: Revising, current: CurrentRevision
) -> None:
    done, _ = document.read(page("text"))
    abandoned = document.abandon()
    opened = document.begin(1)
    other = Revising(connection, tenant, add_document(connection, tenant, content=b"other"))
    foreign, _ = other.read(page("text"))
    stranger = add_tenant(connection, "stranger")
    theirs, _ = Revising(connection, stranger, add_document(connection, stranger)).read(page("secret"))
    for revision_id, message in (
        (abandoned, "was never completed"),
        (opened, "is still being read"),
        (foreign, f"is of document {other.document_id}, not {document.document_id}"),
        (theirs, f"has no revision {theirs}"),
        (10**9, "has no revision 1000000000"),
    ):
        with pytest.raises(UsageError, match=message) as refused:
            current.restore(connection, document.document_id, revision_id, restored_by="ann")
        assert refused.value.hint == f"see: batchproc documents history {document.document_id}"
    assert document.row()[0] == done


def test_completing_waits_for_a_restore_and_sees_it(
    database_url: str, connection: Conn, tenant: int, document: Revising, current: CurrentRevision
) -> None:
    typed = add_text(connection, tenant, document.document_id, ["typed"], source="person")
    read, _ = document.read(page("text"))
    current.restore(connection, document.document_id, read, restored_by="ann")
    opened = document.begin(1)
    document.write(opened, 1, page("newer"))
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    verdicts: list[Verdict] = []

    def complete() -> None:
        with connect(database_url) as other:
            verdicts.append(Revising(other, tenant, document.document_id).complete(opened))

    with connect(database_url) as watcher:
        with connection.transaction():
            current.restore(connection, document.document_id, typed, restored_by="ann")
            thread = in_thread(complete)
            wait_until(lambda: watcher.execute(waiting).fetchone() == (1,), what="the completion to wait")
        thread()
    assert verdicts == [Verdict.PERSON]
    assert document.row()[0] == typed


def test_pages_are_taken_over_once_and_count_in_no_usage(connection: Conn, document: Revising) -> None:
    old, _ = document.read(page("one two"), FAILED, page("three"))
    counted = usage(connection)
    opened = document.begin(3)
    store = document.store
    assert store.keep_pages(connection, opened, old) == 2
    assert store.keep_pages(connection, opened, old) == 0, "what is there stays"
    assert store.pages(connection, opened) == {
        1: PageProgress("ocr", 1, 2, 0.0, None, old),
        3: PageProgress("ocr", 1, 1, 0.0, None, old),
    }
    assert usage(connection) == counted
    document.write(opened, 2, page("and", seconds=0.5))
    assert document.complete(opened, BEST) == "fewer_failed"
    [kept] = [one for one in history(document) if one.revision_id == opened]
    assert (kept.words, kept.seconds, kept.failed_pages) == (4, 0.5, 0)
    third = document.begin(3)
    assert store.keep_pages(connection, third, opened) == 3
    assert [one.kept_from for one in store.pages(connection, third).values()] == [old, opened, old]


def test_no_page_is_taken_from_elsewhere_or_into_what_is_done(
    connection: Conn, tenant: int, document: Revising
) -> None:
    other = Revising(connection, tenant, add_document(connection, tenant, content=b"other"))
    foreign, _ = other.read(page("text"))
    old, _ = document.read(page("one"))
    done, _ = document.read(page("two"))
    opened = document.begin(1)
    assert document.store.keep_pages(connection, opened, foreign) == 0
    assert document.store.keep_pages(connection, done, old) == 0
    stranger = RevisionStore("batchproc", tenant_id=add_tenant(connection, "stranger"))
    assert stranger.keep_pages(connection, opened, old) == 0


def test_pruning_reads_and_deletes_by_index(
    database_url: str, connection: Conn, tenant: int, document: Revising
) -> None:
    """Of 20,000 documents with 60,000 revisions and their pages, those of one document."""
    connection.execute(
        """
        insert into batchproc.documents (tenant_id, root, path, sha256, bytes)
        select %s, '', '', sha256(int8send(n)), 0 from generate_series(1, 20000) n
        """,
        [tenant],
    )
    connection.execute(
        """
        insert into batchproc.ocr_revisions (tenant_id, document_id, state, engine, engine_version, data_hash, profile,
                                             languages, source_sha256, page_count, completed_at)
        select tenant_id, document_id, 'complete', '', '', '', '{}', '{}', '', 1, clock_timestamp()
        from batchproc.documents, generate_series(1, 3)
        """
    )
    connection.execute(
        """
        update batchproc.documents d set current_revision = (
            select max(revision_id) from batchproc.ocr_revisions r
            where r.tenant_id = d.tenant_id and r.document_id = d.document_id)
        """
    )
    connection.execute(
        """
        insert into batchproc.ocr_pages (revision_id, tenant_id, page, state, job_id, attempt)
        select revision_id, tenant_id, 1, 'ocr', 1, 1 from batchproc.ocr_revisions
        """
    )
    values = {
        "tenant_id": tenant,
        "document_id": document.document_id + 7,
        "revision_id": 10**9,
        "fresh": [],
        "was_current": ["first"],
        "retained": 1,
        "limit": 20,
    }
    explain = b"explain (analyze, costs off, timing off, format json) "
    sql = SqlFolder("batchproc.documents")
    for prepare in ("analyze batchproc.documents", "analyze batchproc.ocr_revisions", "analyze batchproc.ocr_pages"):
        connection.execute(prepare.encode())
    [[plan]] = connection.execute(explain + sql["prune_revisions"], {**values, "limit": 0}).fetchall()
    assert "Seq Scan" not in json.dumps(plan)
    # What the foreign keys look for is in no plan; what they read is counted, for a session of its own.
    scanned = "select relname, seq_tup_read from pg_stat_xact_user_tables where seq_tup_read > 0"
    with connect(database_url) as fresh, fresh.transaction():
        assert fresh.execute(sql["prune_revisions"], values).rowcount == 1
        assert fresh.execute(scanned).fetchall() == []


def history(document: Revising) -> list[Any]:
    store = document.store
    return RevisionHistory("batchproc", tenant_id=store._tenant_id).revisions(document.connection, document.document_id)


def in_thread(call: Callable[[], None]) -> Callable[[], None]:
    """Runs it beside this one; what is returned waits for its end."""
    thread = Thread(target=call)
    thread.start()
    return lambda: thread.join(30)
