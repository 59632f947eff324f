"""The dispatcher, stepped by hand: what it claims, settles, and does when the database fails."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, cast

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import EnvironmentFault
from batchproc.core.job import Claim
from batchproc.core.outcome import Completed, ErrorClass, Failed, FollowUp
from batchproc.database import connect
from batchproc.engine.news import Faulted, Held
from batchproc.engine.pool.worker_pool import Work
from batchproc.handlers.context import APPLICATION
from batchproc.queue.node_store import NodeStore
from tests.engine.running import Bench
from tests.engine.stepped import LostAnswer, Step
from tests.waiting import wait_until


def test_no_more_is_claimed_than_there_are_free_slots(bench: Bench, stepped: Step) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_quick") for _ in range(10)]
    node = stepped(slots=3)

    node.dispatcher.run()

    assert bench.states(jobs) == {"completed": 10}
    assert node.pool.submitted == jobs


def test_a_job_whose_worker_died_before_it_began_goes_back_and_is_run(bench: Bench, stepped: Step) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_quick")
    node = stepped()
    node.pool.refusals = 1

    node.dispatcher.run()

    shown = bench.job(job)
    assert (shown["state"], shown["attempt"]) == ("completed", 1)
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["interrupted", "completed"]


def test_an_ending_that_cannot_be_written_stops_no_other(bench: Bench, stepped: Step) -> None:
    tenant, other = bench.tenant("acme"), bench.tenant("other")
    good, bad = bench.enqueue(tenant, "t_quick"), bench.enqueue(other, "t_quick")
    node = stepped()
    # A follow-up on a document that is not that tenant's: the database refuses it.
    node.pool.outcomes[bad] = Completed(None, (FollowUp("t_quick", {}, document_id=12345),))

    node.dispatcher.run()

    assert bench.job(good)["state"] == "completed"
    shown = bench.job(bad)
    assert (shown["state"], shown["failure_code"]) == ("discarded", "internal_error")
    assert len(shown["attempts"]) == 1


class LostQuestion(NodeStore):
    """A store whose third tick never reaches the database."""

    ticks = 0

    def tick(self, connection: Connection[TupleRow], *arguments: Any, **options: Any) -> Any:
        self.ticks += 1
        if self.ticks == 3:
            connection.close()
            raise psycopg.OperationalError("the connection was lost")
        return super().tick(connection, *arguments, **options)


@pytest.mark.parametrize("store_class", [LostAnswer, LostQuestion])
def test_a_commit_of_unknown_fate_loses_nothing_and_settles_nothing_twice(
    bench: Bench, stepped: Step, store_class: type[NodeStore]
) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_quick") for _ in range(8)]
    node = stepped(slots=2, store_class=store_class)

    node.dispatcher.run()

    assert bench.states(jobs) == {"completed": 8}
    [[completed]] = bench.rows("select count(*) from batchproc.job_attempts where outcome = 'completed'")
    assert completed == 8, "every job was completed once"
    assert node.dispatcher.counts.completed == 8


def test_a_tick_settles_and_claims_in_one_transaction(bench: Bench, stepped: Step) -> None:
    """When the claim fails, the settle has not happened either."""

    class FailsAfterSettle(NodeStore):
        def tick(self, connection: Connection[TupleRow], endings: Any, turns: Any, **options: Any) -> Any:
            if self.broken:
                turns = [turn._replace(queue=turn.queue._replace(lane="not a number")) for turn in turns]
            return super().tick(connection, endings, turns, **options)

        broken = False

    tenant = bench.tenant("acme")
    first, second = bench.enqueue(tenant, "t_quick"), bench.enqueue(tenant, "t_quick")
    node = stepped(slots=1, store_class=FailsAfterSettle)
    store = cast(FailsAfterSettle, node.store)
    states: list[str] = []
    submit = node.pool.submit

    def submit_and_break(*works: Work, **options: float) -> int:
        [work] = works
        store.broken = work.job_id == first
        return submit(*works)

    node.pool.submit = submit_and_break  # type: ignore[method-assign]
    mend = node.dispatcher._database.mend

    def noted(error: psycopg.Error) -> None:
        states.append(bench.job(first)["state"])
        store.broken = False
        mend(error)

    node.dispatcher._database.mend = noted  # type: ignore[method-assign]

    node.dispatcher.run()

    assert states == ["running"]
    assert bench.states([first, second]) == {"completed": 2}


def test_the_claims_of_a_claim_are_known_to_the_node(bench: Bench, stepped: Step) -> None:
    node = stepped()
    job = bench.enqueue(bench.tenant("acme"), "t_quick")

    claim = node.store.claim_one(bench.connection, job, None)

    assert isinstance(claim, Claim)
    assert node.store.held(bench.connection) == [claim]
    assert not stepped().dispatcher.claim(job), "it does not wait any more"


def test_a_database_that_only_reads_ends_the_run_after_its_limit(bench: Bench, stepped: Step) -> None:
    class ReadOnly(NodeStore):
        ticks = 0

        def tick(self, *_: Any, **__: Any) -> Any:
            self.ticks += 1
            raise psycopg.errors.ReadOnlySqlTransaction("cannot execute UPDATE in a read-only transaction")

    bench.enqueue(bench.tenant("acme"), "t_quick")
    node = stepped(store_class=ReadOnly, outage_limit=0.6)

    with pytest.raises(EnvironmentFault, match=r"the database failed for 0.6 s \(ReadOnlySqlTransaction"):
        node.dispatcher.run()

    assert cast(ReadOnly, node.store).ticks < 10, "it pauses between tries"


def test_claims_that_come_after_the_lease_was_lost_are_not_run(bench: Bench, stepped: Step) -> None:
    class LosesLease(NodeStore):
        lost: Callable[[], None] | None = None

        def tick(self, *arguments: Any, **options: Any) -> Any:
            answer = super().tick(*arguments, **options)
            if self.lost is not None and answer[1]:
                self.lost()
                self.lost = None
            return answer

    job = bench.enqueue(bench.tenant("acme"), "t_quick")
    node = stepped(store_class=LosesLease)
    joined: list[bool] = []
    node.pool.may_interrupt = True
    cast(LosesLease, node.store).lost = node.dispatcher.lease_lost
    node.dispatcher.join_again = lambda _: joined.append(True)

    node.dispatcher.run()

    shown = bench.job(job)
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["interrupted", "completed"]
    assert joined == [True]


def test_a_job_that_is_submitted_while_the_lease_is_being_lost_is_stopped(bench: Bench, stepped: Step) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_quick")
    node = stepped()
    node.pool.may_interrupt = True
    node.pool.lasting[job] = 1_000_000
    submit = node.pool.submit

    def submit_too_late(*works: Work, **options: float) -> int:
        [work] = works
        if not node.pool.submitted:
            node.dispatcher.lease_lost()  # which stops what runs by now
            return submit(*works)
        node.pool.lasting[job] = 0
        return submit(work)

    node.pool.submit = submit_too_late  # type: ignore[method-assign]

    node.dispatcher.run()

    assert [attempt["outcome"] for attempt in bench.job(job)["attempts"]] == ["interrupted", "completed"]


def test_a_database_that_is_away_when_the_dispatcher_first_connects_is_waited_for(bench: Bench, stepped: Step) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_quick")
    node = stepped(refusals=3)

    assert node.dispatcher.claim(job)
    node.dispatcher.run()

    assert bench.job(job)["state"] == "completed"


class FailsAfterClaim(NodeStore):
    """A store whose first tick is the last that its connection does."""

    failed = False

    def tick(self, connection: Connection[TupleRow], *arguments: Any, **options: Any) -> Any:
        answer = super().tick(connection, *arguments, **options)
        if not self.failed:
            self.failed = True
            connection.close()
        return answer


class FailsToEnd(FailsAfterClaim):
    """A store that loses its connection when it is to end a backend, for the first time."""

    failed = True
    ended = 0

    def end_backends(self, connection: Connection[TupleRow], *arguments: Any, **options: Any) -> None:
        self.ended += 1
        if self.ended == 1:
            connection.close()
        super().end_backends(connection, *arguments, **options)


@pytest.mark.parametrize("store_class", [FailsAfterClaim, FailsToEnd])
def test_what_a_killed_worker_left_in_the_database_is_ended_after_an_outage(
    bench: Bench, stepped: Step, store_class: type[NodeStore]
) -> None:
    """Also when the worker was killed during it."""
    job = bench.enqueue(bench.tenant("acme"), "t_quick")
    node = stepped(store_class=store_class)
    with connect(bench.url, application_name=APPLICATION) as left:
        node.pool.killed[job] = left.info.backend_pid
        node.pool.lasting[job] = 1
        open_, opened = node.connect, []

        def refused_in_between() -> Connection[TupleRow]:
            opened.append(True)
            if len(opened) in (2, 3, 4):
                raise EnvironmentFault("cannot connect")
            return open_()

        node.connect = refused_in_between

        node.dispatcher.run()

        assert len(opened) == 5
        there = "select count(*) from pg_stat_activity where pid = %s"
        wait_until(lambda: bench.rows(there, left.info.backend_pid) == [(0,)], 5, "it is ended")


def test_what_a_thread_of_the_node_cannot_go_on_after_ends_the_run(stepped: Step) -> None:
    node = stepped()
    node.news.tell(Faulted(EnvironmentFault("housekeeping cannot go on")))

    with pytest.raises(EnvironmentFault, match="housekeeping cannot go on"):
        node.dispatcher.run()


def test_a_claim_that_the_node_does_not_know_is_given_back(bench: Bench, stepped: Step) -> None:
    """As when a commit took effect after the node had asked what became of it."""
    job = bench.enqueue(bench.tenant("acme"), "t_quick")
    node = stepped()
    claim = node.store.claim_one(bench.connection, job, None)
    assert claim is not None

    node.news.tell(Held([claim]))
    node.dispatcher.run()

    shown = bench.job(job)
    assert (shown["state"], shown["attempt"]) == ("completed", 1)
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["interrupted", "completed"]


def test_a_job_that_was_run_before_its_time_and_interrupted_waits_for_it_again(bench: Bench, stepped: Step) -> None:
    run_at = datetime.now().astimezone() + timedelta(days=1)
    job = bench.enqueue(bench.tenant("acme"), "t_quick", run_at=run_at)
    node = stepped()
    node.pool.refusals = 1

    assert node.dispatcher.claim(job)
    node.dispatcher.run()

    shown = bench.job(job)
    assert (shown["state"], shown["attempt"], shown["run_at"]) == ("scheduled", 0, run_at)


def test_a_retry_that_is_promoted_while_the_run_looks_around_is_still_run(bench: Bench, stepped: Step) -> None:
    class PromotedBehindIts(NodeStore):
        def ready(self, connection: Connection[TupleRow]) -> Any:
            found = super().ready(connection)
            # As housekeeping may, on its own connection, right after this node has looked.
            scheduled = "select 1 from batchproc.processing_jobs where state = 'scheduled'"
            if bench.rows(scheduled):
                wait_until(lambda: self.promote(bench.connection), 5)
            return found

    job = bench.enqueue(bench.tenant("acme"), "t_quick", max_attempts=3)
    node = stepped(slots=1, store_class=PromotedBehindIts)
    node.pool.outcomes[job] = Failed(ErrorClass.TRANSIENT, "internal_error")

    node.dispatcher.run()

    shown = bench.job(job)
    assert (shown["state"], len(shown["attempts"])) == ("discarded", 3)
