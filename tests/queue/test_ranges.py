"""Jobs that read ranges of one revision: each final state counts once, and whoever is the last enqueues one join."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batchproc.core.job import Claim, JobState, KindSpec
from batchproc.core.outcome import Completed, ErrorClass, FollowUp, Interrupted, Outcome, Snoozed
from batchproc.core.ranges import PageRange
from batchproc.queue import hints
from batchproc.queue.endings import Ended
from batchproc.queue.node_store import NodeStore
from batchproc.queue.range_jobs import GivenUp, RangeJobs
from tests.queue.helpers import (
    CAMPAIGNS,
    PATIENCE,
    STORE,
    Conn,
    add_document,
    add_tenant,
    at_once,
    claim_job,
    ended,
    enqueue,
    expire,
    failed,
    job,
    join,
    one,
    queue_of,
    retry,
    rows_of,
    state,
    wait_for_blocked,
)

Opened = Callable[[], Conn]
SPEC = KindSpec("work", fails_document=True)
DISCARDED = failed(ErrorClass.PERMANENT, "unreadable_file")
OUTCOMES: list[Outcome] = [Completed(), DISCARDED]


class Document:
    """A document whose pages were left to so many jobs of ten pages each."""

    def __init__(self, connection: Conn, ranges: int, *, paused: bool = False, priority: int = 5) -> None:
        self.connection = connection
        self.tenant = add_tenant(connection, f"t{uuid4().hex[:8]}")
        self.document = add_document(connection, self.tenant)
        self.campaign = CAMPAIGNS.begin(connection, "import")
        self.node = join(connection)
        self.revision = int(
            one(
                connection,
                """
                insert into batchproc.ocr_revisions
                    (tenant_id, document_id, engine, engine_version, data_hash, profile, languages, source_sha256,
                     page_count, ranges_left)
                values (%s, %s, 'tesseract', '5.5', '', '{}', '{eng}', '', %s, %s) returning revision_id
                """,
                [self.tenant, self.document, ranges * 10, ranges],
            )
        )
        self.ranges = [PageRange(number * 10 + 1, number * 10 + 10) for number in range(ranges)]
        made_by = enqueue(
            connection, self.tenant, document_id=self.document, campaign_id=self.campaign, priority=priority
        )
        claimed = claim_job(connection, self.node, made_by)
        if paused:
            STORE.hold(connection, self.campaign)
        follow_ups = tuple(
            FollowUp(
                "work",
                {"range": list(pages), "languages": ["eng"], "keep": "best"},
                self.document,
                range_of=self.revision,
            )
            for pages in self.ranges
        )
        self.node.settle(connection, [ended(claimed, Completed(follow_ups=follow_ups))])

    @property
    def jobs(self) -> list[int]:
        query = """
            select job_id from batchproc.processing_jobs
            where range_of = %s and args ->> 'range' <> 'join' order by job_id
        """
        return [row["job_id"] for row in rows_of(self.connection, query, [self.revision])]

    @property
    def joins(self) -> list[int]:
        query = """
            select job_id from batchproc.processing_jobs
            where range_of = %s and args ->> 'range' = 'join' order by job_id
        """
        return [row["job_id"] for row in rows_of(self.connection, query, [self.revision])]

    @property
    def left(self) -> int | None:
        query = "select ranges_left from batchproc.ocr_revisions where revision_id = %s"
        found: int | None = one(self.connection, query, [self.revision])
        return found

    def claim(self, job_id: int) -> Claim:
        return claim_job(self.connection, self.node, job_id)

    def end(self, job_id: int, outcome: Outcome | None = None) -> None:
        self.node.settle(self.connection, [ended(self.claim(job_id), outcome, SPEC)])

    def status(self) -> str:
        return str(
            one(self.connection, "select status from batchproc.documents where document_id = %s", [self.document])
        )


def settle_in_the_end(node: NodeStore, connection: Conn, endings: list[Ended]) -> None:
    """Settles each for itself, again where others held the revision for longer than it waits, as a node does."""
    deadline = time.monotonic() + PATIENCE
    while endings:
        unwritten = node.settle_one_by_one(connection, endings).unwritten
        endings = [ending for ending in endings if ending.transition.claim_id in unwritten]
        assert time.monotonic() < deadline, f"{len(endings)} endings are still unwritten"


def test_ranges_are_jobs_like_the_one_that_asked_for_them(connection: Conn) -> None:
    document = Document(connection, 3, priority=3)
    assert document.left == 3
    first = job(connection, document.jobs[0])
    assert (first["priority"], first["campaign_id"], first["range_of"]) == (3, document.campaign, document.revision)
    assert (first["languages"], first["unique_key"]) == (["eng"], None)
    assert document.joins == []


@pytest.mark.parametrize("last", [Completed(), DISCARDED], ids=["completed", "discarded"])
def test_the_last_one_enqueues_one_join(connection: Conn, last: Outcome) -> None:
    document = Document(connection, 3)
    document.end(document.jobs[0])
    document.end(document.jobs[1], DISCARDED)
    assert (document.left, document.joins) == (1, [])
    document.end(document.jobs[2], last)
    assert document.left == 0
    [joining] = document.joins
    made = job(connection, joining)
    assert made["args"] == {"range": "join", "languages": ["eng"], "keep": "best"}
    assert (made["state"], made["priority"], made["campaign_id"]) == ("available", 1, document.campaign)
    assert (made["kind"], made["document_id"], made["languages"]) == ("work", document.document, ["eng"])


def test_a_join_counts_no_range(connection: Conn) -> None:
    document = Document(connection, 1)
    document.end(document.jobs[0])
    document.end(document.joins[0], DISCARDED)
    assert retry(connection, document.joins) == {document.joins[0]: "retried"}
    document.end(document.joins[0])
    assert (document.left, len(document.joins)) == (0, 1)


@pytest.mark.parametrize(
    "outcome",
    [Interrupted(""), Snoozed(60), failed(), failed(ErrorClass.STORAGE_UNAVAILABLE), failed(ErrorClass.LEASE_EXPIRED)],
    ids=lambda outcome: getattr(outcome, "error_class", type(outcome).__name__.lower()),
)
def test_a_range_that_waits_again_counts_nothing(connection: Conn, outcome: Outcome) -> None:
    document = Document(connection, 1)
    document.end(document.jobs[0], outcome)
    assert (document.left, document.joins) == (1, [])


def test_a_range_that_is_rescued_counts_when_it_ends(connection: Conn) -> None:
    document = Document(connection, 1)
    claimed = document.claim(document.jobs[0])
    expire(connection, document.node)
    rescuer = join(connection)
    rescuer.settle(connection, [ended(claimed, failed(ErrorClass.LEASE_EXPIRED))], rescue=True)
    assert document.left == 1
    # The dead node's settle comes late: its claim is gone.
    document.node.settle(connection, [ended(claimed)])
    assert document.left == 1
    document.node = rescuer
    document.end(document.jobs[0])
    assert (document.left, len(document.joins)) == (0, 1)


def test_a_range_without_a_node_that_has_its_languages_counts(connection: Conn) -> None:
    document = Document(connection, 2)
    document.end(document.jobs[0])
    connection.execute(
        """
        update batchproc.processing_jobs
        set state = 'discarded', failure_code = 'missing_language', finished_at = clock_timestamp() where job_id = %s
        """,
        [document.jobs[1]],
    )
    assert (document.left, len(document.joins)) == (0, 1)


def test_ranges_that_end_in_one_settle_count_each(connection: Conn) -> None:
    documents = [Document(connection, 3), Document(connection, 3)]
    node = documents[0].node
    claims = [claim_job(connection, node, job_id) for document in documents for job_id in document.jobs]
    node.settle(connection, [ended(claimed) for claimed in claims])
    assert [(document.left, len(document.joins)) for document in documents] == [(0, 1), (0, 1)]


def test_two_that_end_at_once_are_one_last(connection: Conn, opened: Opened) -> None:
    """The second settle waits for the first one's commit, and sees what it counted."""
    document = Document(connection, 2)
    first, second = (document.claim(job_id) for job_id in document.jobs)
    one_node, other_node = opened(), opened()
    with ThreadPoolExecutor(1) as pool:
        with one_node.transaction():
            document.node.settle(one_node, [ended(first)])
            waiting = pool.submit(document.node.settle, other_node, [ended(second)])
            wait_for_blocked(connection)
            assert not waiting.done()
        waiting.result(20)
    assert (document.left, len(document.joins)) == (0, 1)


def test_the_last_one_sees_that_another_was_cancelled_meanwhile(connection: Conn, opened: Opened) -> None:
    document = Document(connection, 2)
    claimed = document.claim(document.jobs[0])
    canceller, node = opened(), opened()
    with ThreadPoolExecutor(1) as pool:
        with canceller.transaction():
            canceller.execute(
                """
                update batchproc.processing_jobs set state = 'cancelled', finished_at = clock_timestamp()
                where job_id = %s
                """,
                [document.jobs[1]],
            )
            waiting = pool.submit(document.node.settle, node, [ended(claimed)])
            wait_for_blocked(connection)
        waiting.result(20)
    assert (document.left, document.joins) == (0, [])


@pytest.mark.parametrize("seed", range(5))
def test_many_that_end_at_once_have_one_last(connection: Conn, opened: Opened, seed: int) -> None:
    chance = random.Random(seed)
    document = Document(connection, 12)
    claims = [document.claim(job_id) for job_id in document.jobs]
    chance.shuffle(claims)
    connections = [opened() for _ in claims[::2]]
    batches = [claims[at : at + 2] for at in range(0, 12, 2)]
    at_once(
        [
            lambda batch=batch, own=own: settle_in_the_end(  # type: ignore[misc]
                document.node, own, [ended(claimed, chance.choice(OUTCOMES)) for claimed in batch]
            )
            for batch, own in zip(batches, connections, strict=True)
        ]
    )
    assert (document.left, len(document.joins)) == (0, 1)


def test_what_somebody_cancelled_is_not_joined(connection: Conn) -> None:
    """As with a document that was cancelled in one piece: it keeps the text that it has."""
    document = Document(connection, 3)
    document.end(document.jobs[0])
    assert STORE.cancel(connection, document.jobs[1:]) == [(job_id, "cancelled") for job_id in document.jobs[1:]]
    assert (document.left, document.joins) == (0, [])

    retry(connection, document.jobs[1:])
    assert document.left == 2
    for job_id in document.jobs[1:]:
        document.end(job_id)
    assert (document.left, len(document.joins)) == (0, 1)


def test_a_join_that_somebody_cancelled_is_made_again_when_a_range_was_read_again(connection: Conn) -> None:
    document = Document(connection, 2)
    document.end(document.jobs[0])
    document.end(document.jobs[1], DISCARDED)
    STORE.cancel(connection, document.joins)
    retry(connection, document.jobs[1:])
    document.end(document.jobs[1])
    assert [state(connection, job_id) for job_id in document.joins] == ["cancelled", "available"]


def test_no_other_job_s_unique_key_keeps_a_range_or_the_join_away(connection: Conn) -> None:
    first = Document(connection, 1)
    for key in (f"join:{first.revision + 1}", f"range:{first.revision + 1}:1-10"):
        enqueue(connection, first.tenant, unique_key=key)
    document = Document(connection, 1)
    document.end(document.jobs[0])
    assert len(document.joins) == 1


def test_a_range_that_is_retried_before_the_join_ran_is_waited_for(connection: Conn) -> None:
    document = Document(connection, 2)
    document.end(document.jobs[0], DISCARDED)
    document.end(document.jobs[1])
    retry(connection, [document.jobs[0]])
    assert document.left == 1
    document.end(document.jobs[0])
    assert (document.left, len(document.joins)) == (0, 1), "the join that waits is enough"


def test_a_range_that_ends_while_its_join_runs_is_joined_again(connection: Conn) -> None:
    document = Document(connection, 1)
    document.end(document.jobs[0], DISCARDED)
    joining = document.claim(document.joins[0])
    retry(connection, document.jobs)
    document.end(document.jobs[0])
    document.node.settle(connection, [ended(joining)])
    assert [state(connection, job_id) for job_id in document.joins] == [JobState.COMPLETED, JobState.AVAILABLE]


def test_the_ranges_of_a_paused_campaign_are_held_and_so_is_their_join(connection: Conn) -> None:
    document = Document(connection, 1, paused=True)
    assert state(connection, document.jobs[0]) is JobState.HELD
    STORE.release(connection, document.campaign)
    claimed = document.claim(document.jobs[0])
    STORE.hold(connection, document.campaign)
    document.node.settle(connection, [ended(claimed)])
    assert state(connection, document.joins[0]) is JobState.HELD


def test_a_document_does_not_fail_with_a_range_but_with_the_join(connection: Conn) -> None:
    document = Document(connection, 1)
    document.end(document.jobs[0], DISCARDED)
    assert document.status() == "pending"
    document.end(document.joins[0], DISCARDED)
    assert document.status() == "failed"


def test_what_follows_the_join_has_the_priority_of_the_ranges(connection: Conn) -> None:
    document = Document(connection, 1, priority=7)
    document.end(document.jobs[0])
    document.end(document.joins[0], Completed(follow_ups=(FollowUp("other"),)))
    assert one(connection, "select priority from batchproc.processing_jobs where kind = 'other'") == 7


def test_the_ranges_of_an_abandoned_revision_are_not_joined(connection: Conn) -> None:
    document = Document(connection, 2)
    connection.execute("update batchproc.ocr_revisions set state = 'abandoned'")
    for job_id in document.jobs:
        document.end(job_id)
    assert document.joins == []


def test_ranges_that_are_pruned_count_nothing(connection: Conn) -> None:
    document = Document(connection, 2)
    document.end(document.jobs[0])
    connection.execute("delete from batchproc.processing_jobs where job_id = %s", [document.jobs[0]])
    assert document.left == 1
    document.end(document.jobs[0])
    assert (document.left, len(document.joins)) == (0, 1)


def test_nodes_hear_of_the_join(connection: Conn, opened: Opened) -> None:
    document = Document(connection, 1)
    listening = opened()
    listening.execute(f'listen "{hints.channel("batchproc")}"'.encode())
    document.end(document.jobs[0])
    [heard] = [notify.payload for notify in listening.notifies(timeout=5, stop_after=1)]
    assert json.loads(heard) == json.loads(hints.hint(queue_of(document.tenant), 1))


def test_what_is_known_of_ranges(connection: Conn) -> None:
    document = Document(connection, 3)
    jobs = RangeJobs("batchproc", tenant_id=document.tenant)
    others = RangeJobs("batchproc", tenant_id=add_tenant(connection, "other"))
    claimed = document.claim(document.jobs[0])
    assert jobs.revision_of(connection, claimed.job_id, claimed.claim_id) == document.revision
    assert jobs.revision_of(connection, claimed.job_id, uuid4()) is None
    assert (jobs.are_living(connection, document.revision), jobs.are_known(connection, document.revision)) == (
        True,
        True,
    )
    assert not others.are_known(connection, document.revision)
    document.node.settle(connection, [ended(claimed)])
    document.end(document.jobs[1], DISCARDED)
    STORE.cancel(connection, [document.jobs[2]])
    assert jobs.given_up(connection, document.revision) == [
        GivenUp(document.jobs[1], document.ranges[1], "unreadable_file")
    ]
    assert (jobs.are_living(connection, document.revision), jobs.are_known(connection, document.revision)) == (
        False,
        True,
    )
    assert not jobs.are_known(connection, document.revision + 1)


def test_a_node_of_an_older_release_is_known_as_long_as_it_lives(connection: Conn) -> None:
    jobs = RangeJobs("batchproc", tenant_id=1)
    node = join(connection)
    assert jobs.can_be_read(connection, "work")
    connection.execute("update batchproc.nodes set reads_ranges = false")
    assert not jobs.can_be_read(connection, "work")
    assert jobs.can_be_read(connection, "unknown_there")
    expire(connection, node)
    assert jobs.can_be_read(connection, "work")


EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["complete", "discard", "cancel", "snooze", "retry"])), max_size=25
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS)
def test_the_count_is_that_of_the_ranges_that_are_left(connection: Conn, events: list[tuple[int, str]]) -> None:
    document = Document(connection, 4)
    jobs = document.jobs
    for number, event in events:
        job_id = jobs[number]
        if event == "retry":
            retry(connection, [job_id])
        elif event == "cancel":
            STORE.cancel(connection, [job_id])
        elif state(connection, job_id) in (JobState.AVAILABLE, JobState.SCHEDULED):
            outcomes: dict[str, Outcome] = {"complete": Completed(), "discard": DISCARDED, "snooze": Snoozed(5)}
            document.end(job_id, outcomes[event])
        states = [state(connection, known) for known in jobs]
        final = [known in (JobState.COMPLETED, JobState.DISCARDED, JobState.CANCELLED) for known in states]
        assert document.left == final.count(False)
        if all(final) and JobState.CANCELLED not in states:
            assert len(document.joins) == 1, "it waits, and one is enough"
