"""The page that ended two attempts is failed in the transaction of the second one's settle, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import uuid4

import pytest

from batchproc.core.job import Claim, JobState, KindSpec, NewJob
from batchproc.core.outcome import Completed, ErrorClass, Failed, Interrupted, Outcome
from batchproc.database import connect
from batchproc.documents.revisions import Attempt, PageRecord, RevisionSpec, RevisionStore
from batchproc.engine.bad_pages import PageBlame
from batchproc.engine.pool.worker_pool import Ended as WorkEnded
from batchproc.engine.pool.worker_pool import Work
from batchproc.engine.settling import Settling
from batchproc.queue.node_store import NodeStore
from tests.queue.helpers import STORE, Conn, add_document, add_tenant, expire

READS = KindSpec("reads", max_attempts=5, max_crashes=4, max_timeouts=4, fails_page=True)
SPECS = {"reads": READS, "other": KindSpec("other")}
SPEC = RevisionSpec("given", "1", "", {}, ("eng",), b"0" * 32, 3)
CRASH = Failed(ErrorClass.CRASHED, "crashed")
FAILURES = {
    "stalled": Failed(ErrorClass.STALLED, "stalled"),
    "timeout": Failed(ErrorClass.TIMEOUT, "timeout"),
    "poison": CRASH,
    "out_of_memory": Failed(ErrorClass.OUT_OF_MEMORY, "out_of_memory"),
}


@dataclass
class Node:
    """A node with one document whose pages its claims begin."""

    connection: Conn
    specs: dict[str, KindSpec]

    def __post_init__(self) -> None:
        self.store = self.joined()
        self.settling = self.fresh_settling()
        self.tenant = add_tenant(self.connection)
        self.document = add_document(self.connection, self.tenant)
        job = NewJob(self.tenant, "reads", document_id=self.document)
        self.job = STORE.enqueue(self.connection, job, self.specs["reads"]).job_id
        self.revisions = RevisionStore("batchproc", tenant_id=self.tenant)

    def joined(self) -> NodeStore:
        store = NodeStore("batchproc", uuid4(), self.specs)
        self.connection.execute(
            """
            insert into batchproc.nodes (node_id, lease_until, host, pid, slots, kinds, languages, code_version)
            values (%s, clock_timestamp() + interval '1 hour', 'test', 1, 1, '{}', '{}', '1')
            """,
            [store.node_id],
        )
        return store

    def fresh_settling(self) -> Settling:
        blame = PageBlame("batchproc", self.specs, max_node_losses=3)
        return Settling(self.store, self.specs, 3, lambda *_: None, blame=blame)

    def claim(self) -> Claim:
        self.connection.execute(
            "update batchproc.processing_jobs set state = 'available', run_at = now(), finished_at = null"
        )
        claimed = self.store.claim_one(self.connection, self.job, None)
        assert claimed is not None
        return claimed

    def begin(self, claimed: Claim, page: int = 2) -> int:
        """The claim takes the open revision over and begins a page; the revision."""
        attempt = Attempt(self.job, claimed.claim_id, claimed.attempt)
        found = self.revisions.open_revision(self.connection, self.document)
        if found is None:
            begun = self.revisions.begin(self.connection, self.document, SPEC, attempt)
            assert begun is not None
        else:
            assert self.revisions.take_over(self.connection, found, attempt)
            begun = found.revision_id
        self.revisions.start_page(self.connection, begun, page, attempt)
        return begun

    def end(self, claimed: Claim, outcome: Outcome, settling: Settling | None = None) -> None:
        settling = settling or self.settling
        settling.hold([claimed])
        work = Work(claimed.job_id, claimed.claim_id, 1.0)
        settling.ended([WorkEnded(0, work, outcome, 4711, None, 0.5, killed=True)])

    def second_attempt(self, page: int = 2) -> Claim:
        """A claim that is at a page which one attempt has ended on already."""
        first = self.claim()
        self.begin(first, page)
        self.end(first, CRASH)
        assert self.settling.write_blamed(self.connection) is not None
        second = self.claim()
        self.begin(second, page)
        return second

    def pages(self) -> list[tuple[int, str, str | None]]:
        rows = self.connection.execute("select page, state, failure_code from batchproc.ocr_pages order by page")
        return [(row[0], row[1], row[2]) for row in rows]

    def counted(self) -> int:
        """Failed pages in the tenant's usage."""
        row = self.connection.execute(
            "select coalesce(sum(pages_failed), 0)::int from batchproc.usage_daily"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def counters(self) -> tuple[str, int, int, int]:
        row = self.connection.execute(
            "select state, attempt, crashes, timeouts from batchproc.processing_jobs where job_id = %s", [self.job]
        ).fetchone()
        assert row is not None
        return row[0], row[1], row[2], row[3]

    def details(self) -> list[str | None]:
        rows = self.connection.execute("select detail from batchproc.job_attempts order by ended_at")
        return [row[0] for row in rows]


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def node(connection: Conn) -> Node:
    return Node(connection, dict(SPECS))


@pytest.mark.parametrize("code", FAILURES)
def test_the_second_ending_on_a_page_fails_it_and_is_a_checkpoint(node: Node, code: str) -> None:
    second = node.second_attempt()
    assert node.pages() == [(2, "started", None)]
    assert node.counters()[1:] == (2, 1, 0)
    node.end(second, FAILURES[code])
    node.settling.write_blamed(node.connection)
    assert node.pages() == [(2, "failed", code)]
    assert node.counted() == 1
    assert node.counters() == ("scheduled", 1, 1, 1 if code in ("stalled", "timeout") else 0)
    assert node.details() == ["it was at page 2", "page 2 is given up: two attempts ended on it"]


def test_budgets_last_for_any_number_of_bad_pages(node: Node) -> None:
    for page in range(1, 4):
        node.end(node.second_attempt(page), CRASH)
        node.settling.write_blamed(node.connection)
    assert node.pages() == [(page, "failed", "poison") for page in (1, 2, 3)]
    assert node.counters() == ("scheduled", 1, 1, 0)


def test_it_is_failed_although_the_job_ends_there(connection: Conn) -> None:
    node = Node(connection, {"reads": replace(READS, max_crashes=1)})
    second = node.second_attempt()
    node.end(second, CRASH)
    node.settling.write_blamed(node.connection)
    assert node.pages() == [(2, "failed", "poison")]
    assert node.counters()[0] == "discarded"
    assert node.settling.counts.discarded == 2


@pytest.mark.parametrize(
    "outcome",
    [
        Interrupted("the node is shutting down"),
        Completed(),
        Failed(ErrorClass.TRANSIENT, "database_lost"),
        Failed(ErrorClass.STORAGE_UNAVAILABLE, "storage_unavailable"),
    ],
    ids=lambda outcome: getattr(outcome, "code", type(outcome).__name__),
)
def test_what_is_not_the_pages_fault_asks_the_database_nothing(node: Node, outcome: Outcome) -> None:
    node.end(node.second_attempt(), outcome)
    assert node.settling.write_blamed(cast(Any, None)) is None
    node.settling.write_apart(node.connection)
    assert node.pages() == [(2, "started", None)]
    assert node.counted() == 0


def test_a_kind_that_reads_no_pages_is_asked_nothing(node: Node) -> None:
    job = STORE.enqueue(node.connection, NewJob(node.tenant, "other"), SPECS["other"]).job_id
    claimed = node.store.claim_one(node.connection, job, None)
    assert claimed is not None
    node.end(claimed, CRASH)
    assert node.settling.write_blamed(cast(Any, None)) is None


def test_a_page_that_an_earlier_claim_began_is_not_blamed(node: Node) -> None:
    node.end(node.second_attempt(), Interrupted("a deploy"))
    node.settling.write_apart(node.connection)
    third = node.claim()
    found = node.revisions.open_revision(node.connection, node.document)
    assert found is not None
    node.revisions.take_over(node.connection, found, Attempt(node.job, third.claim_id, third.attempt))
    node.end(third, FAILURES["stalled"])  # before it came to the page
    node.settling.write_blamed(node.connection)
    assert node.pages() == [(2, "started", None)]


def test_a_page_whose_commit_was_still_on_its_way_stays_done(node: Node) -> None:
    second = node.second_attempt()
    node.end(second, CRASH)
    endings = node.settling.endings(node.connection)
    found = node.revisions.open_revision(node.connection, node.document)
    assert found is not None
    node.revisions.finish_page(node.connection, found.revision_id, 2, PageRecord("ocr", "text"))
    node.settling.written(endings, node.store.settle_one_by_one(node.connection, endings))
    assert node.pages() == [(2, "ocr", None)]
    assert node.counted() == 0


def test_a_lost_claim_fails_no_page(node: Node) -> None:
    second = node.second_attempt()
    node.end(second, CRASH)
    node.connection.execute("update batchproc.processing_jobs set claim_id = gen_random_uuid()")
    node.settling.write_blamed(node.connection)
    assert node.pages() == [(2, "started", None)]
    assert (node.counted(), node.settling.pending) == (0, 0)


def test_a_commit_whose_answer_was_lost_is_recognised_and_counts_once(node: Node) -> None:
    second = node.second_attempt()
    other = node.fresh_settling()
    for settling in (node.settling, other):
        node.end(second, CRASH, settling)
    other.endings(node.connection)  # it was to write this, and wrote it, for all that the database knows
    node.settling.write_blamed(node.connection)
    other.forget_written(node.connection)
    assert (other.pending, other.counts.retried) == (0, 1)
    assert other.write_blamed(node.connection) is None
    assert (node.pages(), node.counted()) == ([(2, "failed", "poison")], 1)


def test_the_ending_waits_with_its_page_while_somebody_holds_the_row(node: Node, database_url: str) -> None:
    second = node.second_attempt()
    node.end(second, CRASH)
    with connect(database_url) as other, other.transaction():
        other.execute("select from batchproc.ocr_pages for update")
        node.settling.write_blamed(node.connection)
        assert node.counters()[0] == "running"
    assert node.pages() == [(2, "started", None)]
    node.settling.stuck.try_all_now()
    node.settling.write_stuck(node.connection)
    assert node.pages() == [(2, "failed", "poison")]
    assert node.counters()[0] == "scheduled"


def test_a_page_that_takes_the_last_node_fails_with_its_job(node: Node) -> None:
    lost = Failed(ErrorClass.LEASE_EXPIRED, "lease_expired")
    blame = PageBlame("batchproc", node.specs, max_node_losses=3)
    for losses in (1, 2, 3):
        node.begin(node.claim())
        expire(node.connection, node.store)
        node.store = node.joined()
        claims = node.store.expired_claims(node.connection)
        endings = blame.after_losses(node.connection, claims, lost)
        assert [ending.also is not None for ending in endings] == [losses == 3]
        node.store.settle_one_by_one(node.connection, endings, rescue=True)
        assert node.pages() == [(2, "failed", "poison") if losses == 3 else (2, "started", None)]
    assert JobState(node.counters()[0]) is JobState.DISCARDED


def test_a_rescue_of_a_node_that_lives_fails_no_page(node: Node) -> None:
    blame = PageBlame("batchproc", node.specs, max_node_losses=1)
    claimed = node.claim()
    node.begin(claimed)
    endings = blame.after_losses(node.connection, [claimed], Failed(ErrorClass.LEASE_EXPIRED, "lease_expired"))
    assert endings[0].also is not None
    node.store.settle_one_by_one(node.connection, endings, rescue=True)
    assert node.pages() == [(2, "started", None)]


def test_a_page_of_a_range_is_failed_although_another_job_opened_its_revision(node: Node) -> None:
    claimed = node.claim()
    revision = node.begin(claimed)
    node.connection.execute("update batchproc.ocr_revisions set claim_id = %s, ranges_left = 1", [uuid4()])
    node.connection.execute(
        "update batchproc.processing_jobs set range_of = %s, args = '{\"range\": [1, 3]}'", [revision]
    )
    node.end(claimed, CRASH)
    assert node.settling.write_blamed(node.connection) is not None
    assert node.pages() == [(2, "started", None)]
    second = node.claim()
    node.revisions.start_page(node.connection, revision, 2, Attempt(node.job, second.claim_id, second.attempt))
    node.end(second, CRASH)
    assert node.settling.write_blamed(node.connection) is not None
    assert (node.pages(), node.counted()) == ([(2, "failed", "poison")], 1)
