"""The dispatcher, stepped by hand: jobs that have to run alone, cancelled ones, kinds that are braked."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.brake import Braked
from batchproc.core.job import Claim
from batchproc.core.outcome import ErrorClass, Failed
from batchproc.engine.news import CancelRequested
from batchproc.engine.run_report import RunOptions
from batchproc.queue.kind_store import KindStore
from batchproc.queue.node_store import NodeStore
from tests.engine.running import Bench
from tests.engine.stepped import SPECS, LostAnswer, Step


def lost(bench: Bench, job: int, nodes: int = 8) -> int:
    bench.rows("update batchproc.processing_jobs set node_losses = %s where job_id = %s returning job_id", nodes, job)
    return job


def test_a_job_that_lost_many_nodes_runs_alone_and_the_others_go_on_after_it(bench: Bench, stepped: Step) -> None:
    tenant, other = bench.tenant("acme"), bench.tenant("other")
    before = [bench.enqueue(tenant, "t_quick") for _ in range(3)]
    suspects = [lost(bench, bench.enqueue(tenant, "t_quick"), nodes) for nodes in (8, 9)]
    after = [bench.enqueue(owner, "t_quick") for _ in range(5) for owner in (tenant, other)]
    node = stepped(slots=3)
    node.pool.lasting = dict.fromkeys([*before, *suspects, *after], 3)

    node.dispatcher.run()

    assert bench.states([*before, *suspects, *after]) == {"completed": 15}
    assert all(node.pool.beside[suspect] == set() for suspect in suspects)
    assert any(node.pool.beside[job] for job in after)
    for suspect in suspects:
        *given_back, _ = bench.job(suspect)["attempts"]
        assert {attempt["outcome"] for attempt in given_back} <= {"interrupted"}
    assert node.dispatcher.counts.claimed == 15, "a claim that is given back is none"


def test_two_nodes_with_suspects_hinder_neither_each_other_nor_themselves(bench: Bench, stepped: Step) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_quick") for _ in range(30)]
    suspects = [lost(bench, job) for job in jobs[::7]]
    nodes = [stepped(slots=3), stepped(slots=3)]
    for node in nodes:
        node.pool.lasting = dict.fromkeys(jobs, 2)
    threads = [threading.Thread(target=node.dispatcher.run) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert bench.states(jobs) == {"completed": 30}
    for node in nodes:
        assert not any(node.pool.beside.get(suspect) for suspect in suspects)


@pytest.mark.parametrize("change", ["pause the tenant", "pause the kind", "fill the limit", "take the job"])
def test_a_suspect_that_may_not_run_meanwhile_is_forgotten(bench: Bench, stepped: Step, change: str) -> None:
    class Changed(NodeStore):
        """Somebody changes something right before the job is claimed to run alone."""

        def claim_one(self, connection: Connection[TupleRow], *arguments: Any, **options: Any) -> Claim | None:
            if change == "pause the tenant":
                bench.jobs.set_tenant(bench.connection, "acme", paused=True)
            elif change == "pause the kind":
                KindStore("batchproc").set(bench.connection, "t_quick", paused=True)
            elif change == "fill the limit":
                bench.jobs.set_tenant(bench.connection, "acme", max_running=0)
            else:
                bench.rows("update batchproc.processing_jobs set state = 'held' where job_id = %s returning 1", suspect)
            return super().claim_one(connection, *arguments, **options)

    tenant, other = bench.tenant("acme"), bench.tenant("other")
    suspect = lost(bench, bench.enqueue(tenant, "t_quick"))
    others = [bench.enqueue(other, "t_quick") for _ in range(4)]
    node = stepped(slots=2, store_class=Changed)
    node.pool.lasting = dict.fromkeys(others, 2)

    node.dispatcher.run()

    assert suspect not in node.pool.submitted
    assert bench.job(suspect)["state"] == ("held" if change == "take the job" else "available")
    if change != "pause the kind":
        assert bench.states(others) == {"completed": 4}


def test_a_job_that_somebody_wants_cancelled_is_killed_and_one_that_has_ended_is_not(
    bench: Bench, stepped: Step
) -> None:
    tenant = bench.tenant("acme")
    wanted, ended = (bench.enqueue(tenant, "t_quick") for _ in range(2))

    class Asked(NodeStore):
        def tick(self, connection: Connection[TupleRow], *arguments: Any, **options: Any) -> Any:
            settled, claims = super().tick(connection, *arguments, **options)
            if claims:
                node.news.tell(CancelRequested(claims))
            return settled, claims

    node = stepped(store_class=Asked)
    node.pool.lasting[wanted] = 1000

    node.dispatcher.run()

    assert (bench.job(wanted)["state"], bench.job(ended)["state"]) == ("cancelled", "completed")
    assert (node.dispatcher.counts.cancelled, node.dispatcher.counts.completed) == (1, 1)


def test_a_brake_is_written_although_the_database_fails_at_first(
    bench: Bench, stepped: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_quick", max_attempts=2) for _ in range(20)]
    node = stepped(slots=2, brake=5)
    node.pool.outcomes = dict.fromkeys(jobs, Failed(ErrorClass.TRANSIENT, "internal_error"))
    brake, tries = KindStore.brake, []

    def fails_once(self: KindStore, connection: Connection[TupleRow], braked: Braked) -> None:
        tries.append(braked)
        if len(tries) == 1:
            raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")
        brake(self, connection, braked)

    monkeypatch.setattr(KindStore, "brake", fails_once)

    node.dispatcher.run()

    assert len(tries) == 2
    assert len(node.pool.submitted) <= 5 + 2 * 2
    [braked] = node.braking.standing(bench.connection, SPECS, RunOptions(workers=2))
    assert (braked.kind, braked.code) == ("t_quick", "internal_error")


def test_the_ranges_of_one_document_count_as_one_and_twenty_documents_as_twenty(bench: Bench, stepped: Step) -> None:
    tenant = bench.tenant("acme")
    poison = Failed(ErrorClass.PERMANENT, "internal_error")
    ranges = [bench.enqueue(tenant, "t_quick") for _ in range(60)]
    bench.rows("update batchproc.processing_jobs set range_of = 7 returning job_id")
    node = stepped(slots=2, brake=20)
    node.pool.outcomes = dict.fromkeys(ranges, poison)
    node.dispatcher.run()
    assert bench.states(ranges) == {"discarded": 60}
    assert node.braking.standing(bench.connection, SPECS, RunOptions(workers=2)) == ()

    documents = [bench.enqueue(tenant, "t_quick") for _ in range(60)]
    bench.rows("update batchproc.processing_jobs set range_of = job_id where state = 'available' returning job_id")
    node = stepped(slots=2, brake=20)
    node.pool.outcomes = dict.fromkeys(documents, poison)
    node.dispatcher.run()
    [braked] = KindStore("batchproc").kinds(bench.connection, "t_quick")
    assert braked["paused_code"] == "internal_error"
    assert bench.states(documents)["discarded"] < 30


def test_the_retries_of_a_kind_that_was_braked_are_not_waited_for(bench: Bench, stepped: Step) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_patient")
    node = stepped(brake=1)
    node.pool.outcomes[job] = Failed(ErrorClass.TRANSIENT, "internal_error")

    node.dispatcher.run()

    assert bench.job(job)["state"] == "scheduled"
    due = "select run_at < clock_timestamp() + interval '600 s' from batchproc.processing_jobs"
    assert bench.rows(due) == [(True,)], "it would be waited for otherwise"


def test_an_ending_that_a_lost_commit_wrote_is_counted_by_the_brake(bench: Bench, stepped: Step) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_quick", max_attempts=1) for _ in range(3)]
    node = stepped(slots=1, store_class=LostAnswer, brake=3)
    node.pool.outcomes = dict.fromkeys(jobs, Failed(ErrorClass.TRANSIENT, "internal_error"))

    node.dispatcher.run()

    assert KindStore("batchproc").kinds(bench.connection, "t_quick")[0]["paused_code"] == "internal_error"
