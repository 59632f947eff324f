"""Reprocessing: the right documents get one job each, whatever was queued before and whenever it is cut short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest

from batchproc.core.errors import UsageError
from batchproc.core.job import Lane, NewJob
from batchproc.database import connect
from batchproc.documents.selection import DocumentSelection, Filter, Selected
from batchproc.handlers import registry
from batchproc.ops import reprocessing
from batchproc.ops.reprocessing import Reprocessing, Wish
from batchproc.ops.selecting import versions_before
from batchproc.queue.document_jobs import document_key
from batchproc.queue.store import JobStore
from tests.handlers.running_job import Conn, add_tenant, add_text

JOBS = JobStore("batchproc")
KINDS = registry.load()
EVERYTHING = Filter()


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def tenant(connection: Conn) -> int:
    return add_tenant(connection)


def document(connection: Conn, tenant: int, status: str = "completed", code: str | None = None, **revision: Any) -> int:
    """A document; ``revision`` gives it a current one, with these columns."""
    row = connection.execute(
        """
        insert into batchproc.documents (tenant_id, root, path, sha256, bytes)
        values (%s, '/nowhere', 'file', %s, 1) returning document_id
        """,
        [tenant, uuid4().bytes * 2],
    ).fetchone()
    assert row is not None
    made = int(row[0])
    if revision:
        revision_id = add_text(connection, tenant, made, ["text"], revision.get("source", "engine"))
        connection.execute(
            "update batchproc.ocr_revisions set engine_version = %s, confidence = %s where revision_id = %s",
            [revision.get("engine_version", "1"), revision.get("confidence"), revision_id],
        )
    connection.execute(
        "update batchproc.documents set status = %s, failure_code = %s where document_id = %s", [status, code, made]
    )
    return made


def work(kind: str = "ocr", *, args: dict[str, Any] | None = None, **wish: Any) -> Reprocessing:
    made = Wish(kind, args or {}, wish.pop("lane", Lane.BULK), **wish)  # type: ignore[arg-type]
    return Reprocessing(JOBS, KINDS[kind], made, "reprocess --for-a-test")


def queued(connection: Conn) -> list[tuple[int, str, dict[str, Any]]]:
    """(document, kind, args) of all jobs."""
    rows = connection.execute("select document_id, kind, args from batchproc.processing_jobs order by job_id")
    return [(row[0], row[1], row[2]) for row in rows]


def documents_of(connection: Conn) -> list[int]:
    return [found for found, _, _ in queued(connection)]


@pytest.fixture
def archive(connection: Conn, tenant: int) -> dict[str, int]:
    """A document of each sort, and those of another tenant, which is paused."""
    other = add_tenant(connection, "beta")
    connection.execute("update batchproc.tenants set paused = true where tenant_id = %s", [other])
    return {
        "pending": document(connection, tenant, "pending"),
        "old": document(connection, tenant, engine_version="5.9.1", confidence=95),
        "new": document(connection, tenant, engine_version="5.10.0", confidence=60),
        "layer": document(connection, tenant, engine_version="5.10.0"),
        "partial": document(connection, tenant, "partial", engine_version="5.10.0", confidence=90),
        "crashed": document(connection, tenant, "failed", "poison"),
        "encrypted": document(connection, tenant, "failed", "encrypted"),
        "person": document(connection, tenant, source="person"),
        "beta": document(connection, other, engine_version="5.10.0", confidence=50),
    }


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, ["pending", "old", "new", "layer", "partial", "crashed", "beta"]),
        ({"statuses": ["partial"]}, ["partial"]),
        ({"statuses": ["pending", "failed"]}, ["pending", "crashed"]),
        ({"below_confidence": 60.5}, ["new", "beta"]),
        ({"engine_versions": ["5.9.1"]}, ["old"]),
        ({"engine_versions": []}, []),
        ({"failure_codes": ["poison", "no_space"]}, ["crashed"]),
        ({"failure_codes": ["poison"], "statuses": ["completed"]}, []),
        ({"statuses": ["completed"], "below_confidence": 95}, ["new", "beta"]),
    ],
    ids=str,
)
def test_what_fits_all_filters_is_enqueued(
    connection: Conn, archive: dict[str, int], chosen: dict[str, Any], expected: list[str]
) -> None:
    done = work().run(connection, Filter(**chosen))
    assert documents_of(connection) == [archive[name] for name in expected]
    assert done.enqueued == len(expected)
    assert done.selected == done.enqueued + done.already_queued + done.left_alone.total()


def test_a_recognised_page_without_words_is_below_any_confidence(connection: Conn, tenant: int) -> None:
    """It has none itself, so the mean of the others, or none at all, does not tell."""
    good = document(connection, tenant, confidence=95)
    wordless, mixed, layer = (document(connection, tenant, confidence=value) for value in (None, 95, None))
    add_pages = """
        update batchproc.ocr_pages p set words = %s, state = %s, text = '' from batchproc.documents d
        where d.document_id = %s and p.revision_id = d.current_revision
    """
    for chosen, state in ((wordless, "ocr"), (mixed, "ocr"), (layer, "blank")):
        connection.execute(add_pages, [0, state, chosen])
    work().run(connection, Filter(below_confidence=70))
    assert documents_of(connection) == [wordless, mixed]
    assert good not in documents_of(connection)


def test_a_tenants_documents_are_its_own(connection: Conn, tenant: int, archive: dict[str, int]) -> None:
    work().run(connection, Filter(tenant_id=tenant))
    assert documents_of(connection) == [
        archive[name] for name in ("pending", "old", "new", "layer", "partial", "crashed")
    ]
    [[tenants]] = connection.execute("select count(distinct tenant_id) from batchproc.processing_jobs").fetchall()
    assert tenants == 1


def test_known_bad_content_and_a_persons_text_are_left_alone(connection: Conn, archive: dict[str, int]) -> None:
    done = work().run(connection, EVERYTHING)
    assert done.left_alone == Counter(encrypted=1, person=1)
    assert done.selected == 9

    asked_for = work(with_bad_content=True).run(connection, Filter(statuses=["failed"]))
    assert (asked_for.enqueued, asked_for.already_queued) == (1, 1)
    assert documents_of(connection)[-1] == archive["encrypted"]


def test_versions_are_compared_by_their_numbers(connection: Conn, archive: dict[str, int]) -> None:
    assert versions_before(connection, "batchproc", "5.10") == ["5.9.1"]
    assert versions_before(connection, "batchproc", "5.9.1") == []
    assert sorted(versions_before(connection, "batchproc", "6")) == ["5.10.0", "5.9.1"]
    with pytest.raises(UsageError, match="no version"):
        versions_before(connection, "batchproc", "newest")


def test_failed_pages_only_concerns_partial_documents(connection: Conn, archive: dict[str, int]) -> None:
    chosen = Filter(statuses=["partial", "pending"])
    work(failed_pages_only=True, args={"mode": "skip"}).run(connection, chosen)
    assert queued(connection) == [
        (archive["pending"], "ocr", {"mode": "skip"}),
        (archive["partial"], "ocr", {"mode": "skip", "pages": "failed"}),
    ]


def test_classify_needs_text_and_takes_a_persons(connection: Conn, archive: dict[str, int]) -> None:
    done = work("classify").run(connection, EVERYTHING)
    assert documents_of(connection) == [archive[name] for name in ("old", "new", "layer", "partial", "person", "beta")]
    assert done.left_alone == Counter(no_text=3)


def test_jobs_are_as_asked_for_and_of_one_campaign(connection: Conn, archive: dict[str, int]) -> None:
    done = work(lane=Lane.INTERACTIVE, priority=2, args={"languages": ["deu"]}).run(connection, EVERYTHING)
    rows = connection.execute(
        "select distinct lane, priority, args, languages, max_attempts, campaign_id from batchproc.processing_jobs"
    ).fetchall()
    assert rows == [(0, 2, {"languages": ["deu"]}, ["deu"], KINDS["ocr"].spec.max_attempts, done.campaign_id)]
    [[command]] = connection.execute("select command from batchproc.campaigns").fetchall()
    assert command == "reprocess --for-a-test"


def test_a_document_whose_job_waits_gets_no_second_one(connection: Conn, archive: dict[str, int]) -> None:
    first = work().run(connection, EVERYTHING)
    connection.execute("update batchproc.processing_jobs set state = 'held' where document_id = %s", [archive["old"]])
    connection.execute(
        """
        update batchproc.processing_jobs
        set state = 'running', claim_id = gen_random_uuid(), node_id = gen_random_uuid()
        where document_id = %s
        """,
        [archive["new"]],
    )
    again = work().run(connection, EVERYTHING)
    assert (again.enqueued, again.already_queued) == (1, first.enqueued - 1)
    assert documents_of(connection).count(archive["new"]) == 2, "one that runs may have begun too early"
    [[campaigns]] = connection.execute("select count(*) from batchproc.campaigns").fetchall()
    assert campaigns == 2


@pytest.mark.parametrize("key", [None, "by-hand"])
@pytest.mark.parametrize("state", ["available", "scheduled", "held"])
def test_a_job_that_was_enqueued_by_hand_counts_too(connection: Conn, tenant: int, key: str | None, state: str) -> None:
    found = document(connection, tenant, "pending")
    other = document(connection, tenant, "pending")
    JOBS.enqueue(connection, NewJob(tenant, "ocr", document_id=found, unique_key=key))
    JOBS.enqueue(connection, NewJob(tenant, "classify", document_id=other))
    connection.execute("update batchproc.processing_jobs set state = %s where document_id = %s", [state, found])
    done = work().run(connection, EVERYTHING)
    assert (done.enqueued, done.already_queued, done.queued_otherwise) == (1, 1, 0)
    assert documents_of(connection) == [found, other, other]


SPLIT_IN = ["eng", "deu"]


def split(connection: Conn, tenant: int, args: dict[str, Any], revision_state: str = "open") -> int:
    """A document of which two ranges wait."""
    found = document(connection, tenant, "pending")
    revision = connection.execute(
        """
        insert into batchproc.ocr_revisions
            (tenant_id, document_id, engine, engine_version, data_hash, profile, languages, source_sha256, page_count,
             state, ranges_left)
        values (%s, %s, 'tesseract', '5.5', '', '{}', '{eng}', '', 20, %s, 2) returning revision_id
        """,
        [tenant, found, revision_state],
    ).fetchall()[0][0]
    for range_ in ([1, 10], [11, 20]):
        JOBS.enqueue(connection, NewJob(tenant, "ocr", args | {"range": range_}, document_id=found))
    connection.execute("update batchproc.processing_jobs set range_of = %s where document_id = %s", [revision, found])
    return found


@pytest.mark.parametrize(
    ("asked_first", "asked", "differs_in"),
    [
        ({}, {}, {}),
        ({}, {"languages": SPLIT_IN}, {}),
        ({}, {"languages": ["fra"]}, {"languages": 1}),
        ({"languages": ["auto", *SPLIT_IN]}, {"languages": ["auto"]}, {}),
        ({"mode": "force"}, {"mode": "force"}, {}),
        ({}, {"mode": "redo"}, {"mode": 1}),
        ({"pages": "failed"}, {}, {"pages": 1}),
    ],
    ids=str,
)
def test_the_ranges_that_wait_are_one_reading_of_their_document(
    connection: Conn, tenant: int, asked_first: dict[str, Any], asked: dict[str, Any], differs_in: dict[str, int]
) -> None:
    split(connection, tenant, {"languages": SPLIT_IN} | asked_first)
    done = work(args=asked).run(connection, EVERYTHING)
    assert (done.enqueued, done.already_queued, done.queued_otherwise) == (0, 1, bool(differs_in))
    assert done.differs_in == differs_in


@pytest.mark.parametrize("revision_state", ["complete", "abandoned"])
def test_ranges_of_a_reading_that_is_over_are_none(connection: Conn, tenant: int, revision_state: str) -> None:
    split(connection, tenant, {}, revision_state)
    assert work().run(connection, EVERYTHING).enqueued == 1


@pytest.mark.parametrize(
    ("waiting", "asked", "differs_in"),
    [
        ([{}], {}, {}),
        ([{"trigger": "upload", "keep": "best"}], {}, {}),
        ([{"pages": "all"}], {}, {}),
        ([{"mode": "force"}], {}, {"mode": 1}),
        ([{}], {"mode": "force"}, {"mode": 1}),
        ([{"languages": ["eng", "deu"]}], {"languages": ["deu", "eng"]}, {"languages": 1}),
        ([{"languages": ["deu"], "mode": "redo"}], {"mode": "redo", "languages": ["deu"]}, {}),
        ([{"pages": "failed", "languages": ["deu"]}], {"mode": "redo"}, {"pages": 1, "languages": 1, "mode": 1}),
        ([{"mode": "force", "pages": "failed"}, {"mode": "force"}], {}, {"mode": 1}),
        ([{"mode": "force"}, {}], {}, {}),
    ],
    ids=str,
)
def test_what_waits_and_what_is_asked_for_are_compared(
    connection: Conn, tenant: int, waiting: list[dict[str, Any]], asked: dict[str, Any], differs_in: dict[str, int]
) -> None:
    """Of several jobs that wait the nearest counts."""
    found = document(connection, tenant, "pending")
    for args in waiting:
        JOBS.enqueue(connection, NewJob(tenant, "ocr", args, document_id=found))
    done = work(args=asked).run(connection, EVERYTHING)
    assert (done.already_queued, done.queued_otherwise) == (1, bool(differs_in))
    assert done.differs_in == differs_in


def test_nothing_to_enqueue_makes_no_campaign(connection: Conn, archive: dict[str, int]) -> None:
    assert work().run(connection, Filter(statuses=["failed"], tenant_id=None)).enqueued == 1
    assert work().run(connection, Filter(statuses=["failed"])).campaign_id is None
    [[campaigns]] = connection.execute("select count(*) from batchproc.campaigns").fetchall()
    assert campaigns == 1


def test_an_import_and_a_reprocess_know_of_each_other(connection: Conn, tenant: int) -> None:
    found = document(connection, tenant, "pending")
    JOBS.enqueue(connection, NewJob(tenant, "ocr", document_id=found, unique_key=document_key(found)))
    assert work().run(connection, EVERYTHING).already_queued == 1


def test_a_dry_run_says_what_would_be_and_writes_nothing(connection: Conn, archive: dict[str, int]) -> None:
    JOBS.enqueue(
        connection,
        NewJob(add_tenant(connection), "ocr", document_id=archive["old"], unique_key=document_key(archive["old"])),
    )
    told = work().run(connection, EVERYTHING, limit=3, dry=True)
    assert len(queued(connection)) == 1
    done = work().run(connection, EVERYTHING, limit=3)
    assert done.campaign_id is not None
    done.campaign_id = None
    assert told == done
    assert (done.enqueued, done.already_queued) == (3, 1)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reprocessing, "_BATCH", 3)


@pytest.mark.usefixtures("small_batches")
def test_a_limit_goes_on_where_the_last_one_ended(connection: Conn, tenant: int) -> None:
    found = [document(connection, tenant, "pending") for _ in range(11)]
    for expected in (4, 8, 11):
        done = work().run(connection, EVERYTHING, limit=4)
        assert documents_of(connection) == found[:expected]
    assert (done.enqueued, done.already_queued) == (3, 8)


@pytest.mark.usefixtures("small_batches")
def test_a_small_limit_does_not_make_the_batches_small(
    connection: Conn, tenant: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        document(connection, tenant, "failed", "too_large")
    found = [document(connection, tenant, "pending") for _ in range(5)]
    real = DocumentSelection.slice
    asked: list[int] = []

    def slice_of(selection: DocumentSelection, *given: Any, limit: int, **more: Any) -> list[Selected]:
        asked.append(limit)
        return real(selection, *given, limit=limit, **more)

    monkeypatch.setattr(DocumentSelection, "slice", slice_of)
    done = work().run(connection, EVERYTHING, limit=2)
    assert asked == [3, 3, 3], "and not one for every two documents"
    assert documents_of(connection) == found[:2]
    assert (done.selected, done.enqueued, done.already_queued) == (7, 2, 0)
    assert done.left_alone == {"too_large": 5}


@pytest.mark.usefixtures("small_batches")
def test_what_was_killed_halfway_is_given_again(connection: Conn, tenant: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [document(connection, tenant, "pending") for _ in range(8)]
    real = JobStore.enqueue_new
    batches: list[int] = []

    def dies(store: JobStore, connection: Conn, jobs: Sequence[NewJob], *more: Any) -> int:
        batches.append(len(jobs))
        added = real(store, connection, jobs, *more)
        if len(batches) == 2:
            raise KeyboardInterrupt
        return added

    with monkeypatch.context() as killed:
        killed.setattr(JobStore, "enqueue_new", dies)
        with pytest.raises(KeyboardInterrupt):
            work().run(connection, EVERYTHING)
    assert documents_of(connection) == found[:3], "a batch is written whole or not at all"

    done = work().run(connection, EVERYTHING)
    assert (done.enqueued, done.already_queued) == (5, 3)
    assert documents_of(connection) == found


@pytest.mark.usefixtures("small_batches")
def test_a_job_that_comes_in_between_is_no_error(
    connection: Conn, tenant: int, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [document(connection, tenant, "pending") for _ in range(3)]
    real = JobStore.enqueue_new

    def beaten(store: JobStore, connection: Conn, jobs: Sequence[NewJob], *more: Any) -> int:
        with connect(database_url) as other:
            JOBS.enqueue(other, NewJob(tenant, "ocr", document_id=found[1], unique_key=document_key(found[1])))
        return real(store, connection, jobs, *more)

    monkeypatch.setattr(JobStore, "enqueue_new", beaten)
    done = work().run(connection, EVERYTHING)
    assert (done.selected, done.enqueued, done.already_queued, done.campaign_id) == (3, 2, 1, 1)
    assert sorted(documents_of(connection)) == found


def test_documents_that_are_not_there_are_named_before_anything_is_done(
    connection: Conn, tenant: int, archive: dict[str, int]
) -> None:
    with pytest.raises(UsageError, match="no document 998, 999"):
        work().run(connection, Filter(document_ids=[archive["old"], 999, 998]))
    with pytest.raises(UsageError, match=f"no document {archive['beta']} of that tenant"):
        work().run(connection, Filter(tenant_id=tenant, document_ids=[archive["beta"]]))
    assert queued(connection) == []


def test_args_that_the_kind_does_not_take_are_refused() -> None:
    with pytest.raises(UsageError, match="mode"):
        work(args={"mode": "sideways"})
