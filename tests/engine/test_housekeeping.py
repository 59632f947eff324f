"""Housekeeping tells the dispatcher what it finds, on real PostgreSQL and in its own thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection

from batchproc.core import transition
from batchproc.core.errors import EnvironmentFault
from batchproc.core.job import Claim, JobState
from batchproc.core.outcome import ErrorClass, Failed, Interrupted
from batchproc.database import connect
from batchproc.engine.calm import Calm
from batchproc.engine.gone_storages import IN_A_ROW, GoneStorages
from batchproc.engine.housekeeping import Housekeeping
from batchproc.engine.news import CancelRequested, Faulted, Hinted, News, NewsBox, ReadyNow, Rescued
from batchproc.engine.outage import Outage
from batchproc.queue import upkeep
from batchproc.queue.node_store import NodeStore
from tests.queue.helpers import (
    SPECS,
    STORE,
    add_tenant,
    claim_job,
    ended,
    enqueue,
    expire,
    failed,
    join,
    one,
    queue_of,
    running,
    state,
)
from tests.waiting import wait_until

Heard = list[News]
LOCK = "select from batchproc.processing_jobs where job_id = %s for no key update"


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection[Any]]:
    with connect(database_url) as made:
        yield made


@contextmanager
def kept(
    database_url: str,
    node: NodeStore,
    *,
    poll_interval: float = 0.05,
    lease: float = 1.0,
    outage_limit: float = 60.0,
    gone: GoneStorages | None = None,
) -> Iterator[Callable[[], Heard]]:
    """Housekeeping runs; yields what returns all news so far."""
    news = NewsBox()
    heard: Heard = []
    housekeeping = Housekeeping(
        node,
        lambda: connect(database_url),
        news,
        SPECS,
        schema="batchproc",
        poll_interval=poll_interval,
        lease=lease,
        max_node_losses=3,
        outage=Outage(outage_limit),
        calm=Calm(lease),
        gone=gone,
    )

    def so_far() -> Heard:
        heard.extend(news.drain())
        return heard

    with ExitStack() as stack:
        stack.callback(news.close)
        housekeeping.start()
        stack.callback(housekeeping.stop)
        yield so_far


def test_a_cancel_is_told_at_once_by_its_hint(database_url: str, connection: Connection[Any]) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    enqueue(connection, tenant)
    with kept(database_url, node, poll_interval=3600) as heard:
        wait_until(
            lambda: any(
                isinstance(news, ReadyNow) and [ready.queue for ready in news.queues] == [queue_of(tenant)]
                for news in heard()
            ),
            5,
            "its only look to be over",
        )
        STORE.cancel(connection, [claimed.job_id])
        wait_until(lambda: CancelRequested([claimed]) in heard(), 5, "the hint, not the poll")


def test_what_is_put_off_in_many_batches_keeps_nothing_else_waiting(
    database_url: str, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_PUT_OFF", 2)
    tenant, node = add_tenant(connection), join(connection)
    node.take_up(node.runs.start(connection, node.node_id, {}))
    gone = GoneStorages(node)
    for number in range(IN_A_ROW + 9):
        document = one(
            connection,
            "insert into batchproc.documents (tenant_id, root, path, sha256, bytes)"
            " values (%s, '/a', 'file', sha256(%s), 1) returning document_id",
            [tenant, bytes([number])],
        )
        job = enqueue(connection, tenant, document_id=document)
        if number < IN_A_ROW:
            claim = Claim(job, uuid4(), tenant, "work", 1, 5, 1, 5, 0, 0, 0)
            failure = Failed(ErrorClass.STORAGE_UNAVAILABLE, "storage_unavailable", "StorageGone at x.py:1", "/a")
            gone.note(claim, transition.postponed(claim, 60.0, failure))
    available = "select count(*) from batchproc.processing_jobs where state = 'available'"
    with kept(database_url, node, poll_interval=3600, gone=gone) as heard:
        wait_until(lambda: one(connection, available) == 0, 10, "the next looks, at once")
        left = [news.queues for news in heard() if isinstance(news, ReadyNow)]
    assert left, "it said what is ready before all was put off"


def test_a_cancel_without_a_hint_is_told_at_each_look_until_the_job_ends(
    database_url: str, connection: Connection[Any]
) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claimed = running(connection, node, tenant)
    connection.execute(
        "insert into batchproc.job_signals (job_id, tenant_id, cancel_requested_at) values (%s, %s, now())",
        [claimed.job_id, tenant],
    )
    with kept(database_url, node) as heard:
        wait_until(lambda: heard().count(CancelRequested([claimed])) >= 3)
        node.settle(connection, [ended(claimed, Interrupted(""))])
        assert state(connection, claimed.job_id) is JobState.CANCELLED


def test_what_a_settle_could_not_see_is_put_right(database_url: str, connection: Connection[Any]) -> None:
    tenant, node = add_tenant(connection), join(connection)
    campaign = one(
        connection, "insert into batchproc.campaigns (command, paused) values ('', true) returning campaign_id"
    )
    with connect(database_url) as other:
        wanted, held, released = running(connection, node, tenant), enqueue(connection, tenant), None
        with other.transaction():
            node.settle(other, [ended(wanted, Interrupted(""))])
            STORE.cancel(connection, [wanted.job_id])
        released = enqueue(connection, tenant, "other", campaign_id=campaign)
        connection.execute("update batchproc.campaigns set paused = false")
        connection.execute("insert into batchproc.campaigns (command, paused) values ('', true)")
        connection.execute(
            "update batchproc.processing_jobs set campaign_id = (select max(campaign_id) from batchproc.campaigns)"
            " where job_id = %s",
            [held],
        )
        with kept(database_url, node) as heard:
            wait_until(
                lambda: (
                    [state(connection, job_id) for job_id in (wanted.job_id, held, released)]
                    == ["cancelled", "held", "available"]
                )
            )
            wait_until(lambda: Hinted(queue_of(tenant, "other")) in heard())


def test_a_row_that_is_held_keeps_no_other_from_its_rescue(database_url: str, connection: Connection[Any]) -> None:
    tenant, node, dead = add_tenant(connection), join(connection), join(connection)
    blocked, free = running(connection, dead, tenant), running(connection, dead, tenant)
    expire(connection, dead)
    with connect(database_url) as handler:
        with handler.transaction():
            handler.execute(LOCK, [blocked.job_id])
            with kept(database_url, node) as heard:
                wait_until(lambda: Rescued(1, 0) in heard(), 20)
            assert state(connection, free.job_id) is JobState.AVAILABLE
            assert state(connection, blocked.job_id) is JobState.RUNNING
        with kept(database_url, node) as heard:
            wait_until(lambda: Rescued(1, 0) in heard(), 20)
        assert claim_job(connection, node, blocked.job_id).node_losses == 1


def test_a_row_that_cannot_be_written_keeps_none_from_rescue_or_promotion(
    database_url: str, connection: Connection[Any]
) -> None:
    tenant, node, dead = add_tenant(connection), join(connection), join(connection)
    bad, good = running(connection, dead, tenant), running(connection, dead, tenant)
    due = [enqueue(connection, tenant) for _ in range(2)]
    connection.execute("update batchproc.processing_jobs set state = 'scheduled' where job_id = any(%s)", [due])
    expire(connection, dead)
    connection.execute(
        """
        create function batchproc.refused() returns trigger language plpgsql as
        $$ begin raise exception 'not written'; end $$
        """
    )
    connection.execute(
        f"""
        create trigger refused before update on batchproc.processing_jobs
        for each row when (old.job_id in ({bad.job_id}, {due[0]})) execute function batchproc.refused()
        """.encode()
    )
    with kept(database_url, node) as heard:
        wait_until(lambda: Rescued(1, 0) in heard(), 20)
        wait_until(lambda: Hinted(queue_of(tenant)) in heard(), 5)
        states = [state(connection, job_id) for job_id in (bad.job_id, good.job_id, *due)]
        assert states == ["running", "available", "scheduled", "available"]
        later = failed(ErrorClass.LEASE_EXPIRED)
        assert node.settle(connection, [ended(good, later)]).states == {}, "the rescue was the only settle"


class Broken(NodeStore):
    """Of all that housekeeping asks, one statement fails: always, or so many times."""

    error: Exception = psycopg.errors.UndefinedColumn("no such column")
    times = 1_000_000

    def put_right(self, connection: Connection[Any]) -> Any:
        self.times -= 1
        if self.times >= 0:
            raise self.error
        return super().put_right(connection)


def test_housekeeping_that_fails_for_longer_than_the_limit_says_so(
    database_url: str, connection: Connection[Any]
) -> None:
    node = Broken("batchproc", join(connection).node_id, SPECS)
    with kept(database_url, node, outage_limit=0.3) as heard:
        [faulted] = wait_until(lambda: [news for news in heard() if isinstance(news, Faulted)], 10)
    assert isinstance(faulted.error, EnvironmentFault)
    assert str(faulted.error).startswith("the database failed for 0.3 s (UndefinedColumn 42703): ")


def test_housekeeping_that_meets_what_nobody_thought_of_says_so(database_url: str, connection: Connection[Any]) -> None:
    node = Broken("batchproc", join(connection).node_id, SPECS)
    node.error = KeyError("a kind")
    with kept(database_url, node) as heard:
        wait_until(lambda: Faulted(node.error) in heard(), 10)
