"""The dispatcher, stepped by hand: what is said of a claim that the job has left behind is not said of its next one."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import Claim, JobState
from batchproc.core.outcome import Completed, ErrorClass, Failed, Interrupted, Outcome
from batchproc.engine.decision import decide
from batchproc.engine.news import Held
from batchproc.queue.endings import Recorded, recognised
from batchproc.queue.kind_store import KindStore
from batchproc.queue.node_store import Ended, NodeStore
from tests.engine.running import Bench
from tests.engine.stepped import SPECS, Step


def test_a_claim_that_was_settled_is_no_second_ending_of_the_jobs_next_one(bench: Bench, stepped: Step) -> None:
    """The list of what the node held was read before a settle, and arrives when the job has been claimed again."""
    job = bench.enqueue(bench.tenant("acme"), "t_quick")
    told: list[Claim] = []

    class ToldLate(NodeStore):
        def tick(self, connection: Connection[TupleRow], *arguments: Any, **options: Any) -> Any:
            settled, claims = super().tick(connection, *arguments, **options)
            told.extend(claims)
            if claims and len(told) == 2:
                node.news.put(Held([told[0]]))
                del node.pool.outcomes[job]
            return settled, claims

    node = stepped(slots=1, store_class=ToldLate)
    node.pool.outcomes[job] = Interrupted("for a test")

    node.dispatcher.run()

    counts = node.dispatcher.counts
    assert [claim.job_id for claim in told] == [job, job]
    assert (counts.claimed, counts.interrupted, counts.completed) == (2, 1, 1)


class RescuedMeanwhile(NodeStore):
    """A store whose third tick is lost with its connection; before that is back, another node rescues the job."""

    ticks = 0

    def tick(self, connection: Connection[TupleRow], endings: Any, *arguments: Any, **options: Any) -> Any:
        self.ticks += 1
        if self.ticks != 3:
            return super().tick(connection, endings, *arguments, **options)
        lease = b"update batchproc.nodes set lease_until = clock_timestamp() + %s::interval where node_id = %s"
        connection.execute(lease, ["-1 s", self.node_id])
        lost = Failed(ErrorClass.LEASE_EXPIRED, "lease_expired")
        rescuer = NodeStore("batchproc", uuid4(), SPECS)
        rescued = [Ended(decide(claim, lost, SPECS, 10)) for claim in rescuer.expired_claims(connection)]
        assert len(rescuer.settle(connection, rescued, rescue=True).states) == len(endings) == 1
        connection.execute(lease, ["1 min", self.node_id])
        connection.close()
        raise psycopg.OperationalError("the connection was lost")


@pytest.mark.parametrize(
    "outcome", [Completed(), Failed(ErrorClass.PERMANENT, "internal_error")], ids=["completed", "discarded"]
)
def test_an_ending_that_a_rescue_has_forestalled_is_not_counted(bench: Bench, stepped: Step, outcome: Outcome) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_quick") for _ in range(4)]
    node = stepped(slots=1, store_class=RescuedMeanwhile, brake=5)
    node.pool.outcomes = dict.fromkeys(jobs, outcome)

    node.dispatcher.run()

    counts = node.dispatcher.counts
    [[losses]] = bench.rows("select count(*) from batchproc.job_attempts where error_class = 'lease_expired'")
    assert (losses, counts.claimed) == (1, 5)
    assert counts.completed + counts.discarded == 4
    assert bench.states(jobs) == {"completed" if counts.completed else "discarded": 4}
    assert not KindStore("batchproc").kinds(bench.connection, "t_quick")[0]["paused"], "it saw four, not five"


def test_an_ending_that_was_written_without_its_content_is_counted_as_that() -> None:
    """The answer to the write of a result that the database refuses may be lost, too."""
    claim = Claim(1, uuid4(), 1, "t_quick", 1, 5, 1, 5, 0, 0, 0)
    ending = Ended(decide(claim, Completed("{}"), SPECS, 10), 4711, 0.5)

    assert recognised(ending, Recorded("completed", None, None, 4711)) == ending.transition
    bare = recognised(ending, Recorded("failed", "permanent", "internal_error", 4711))
    assert bare is not None
    assert bare.state is JobState.DISCARDED
    assert recognised(ending, Recorded("failed", "lease_expired", "lease_expired", None)) is None
