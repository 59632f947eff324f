"""The queue against its model: every step, in any order, from several nodes and with stale claims, on real PostgreSQL.

After each step the tables say what the model says and the database's invariants hold; a step with a stale claim
leaves every row of every table as it was, down to its version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from batchproc.core.fairness import Turn
from batchproc.core.job import Claim, JobState, KindSpec, NewJob
from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Failed, Interrupted, Outcome, Snoozed
from batchproc.core.settle import settle
from batchproc.database import connect
from batchproc.queue.claims import ClaimFence
from batchproc.queue.node_store import Ended, NodeFacts, NodeStore
from batchproc.queue.store import JobStore
from tests.faults.invariants import violations
from tests.faults.job_model import ENDED, MAX_CRASHES, MAX_NODE_LOSSES, MAX_TIMEOUTS, JobModel, ModelJob
from tests.queue.helpers import prune, queue_of, retry

HOUR = timedelta(hours=1)
LATER = datetime(2100, 1, 1, tzinfo=UTC)
# So long a backoff that nothing becomes due unless a step makes it.
SPECS = {
    name: KindSpec(
        name,
        base=3600,
        cap=3600,
        max_timeouts=MAX_TIMEOUTS,
        max_crashes=MAX_CRASHES,
        unique_while_running=name == "once",
    )
    for name in ("work", "once")
}
FAILURES = [
    Failed(error_class, "own_code") for error_class in ErrorClass if error_class is not ErrorClass.LEASE_EXPIRED
]
OUTCOMES: list[Outcome] = [*FAILURES, Completed('{"a": 1}'), Cancelled(), Interrupted("shutdown"), Snoozed(3600.0)]
USAGE = "usage that does not add up"

EMPTY = b"""
    truncate batchproc.tenants, batchproc.kinds, batchproc.nodes, batchproc.campaigns, batchproc.runs,
             batchproc.documents, batchproc.processing_jobs, batchproc.job_signals, batchproc.job_attempts,
             batchproc.usage_daily
    restart identity cascade
"""
ROWS = b"""
    select j.job_id, j.state, j.attempt, j.crashes, j.timeouts, j.node_losses, j.claim_id, j.node_id, j.failure_code,
           j.run_at <= clock_timestamp(),
           (select count(*) from batchproc.job_attempts a where a.job_id = j.job_id),
           exists (select from batchproc.job_signals s where s.job_id = j.job_id and s.cancel_requested_at is not null)
    from batchproc.processing_jobs j
    order by j.job_id
"""
USAGE_ROWS = b"""
    select coalesce(sum(attempts), 0), coalesce(sum(completed), 0), coalesce(sum(discarded), 0)
    from batchproc.usage_daily
"""
# xmin: a version of its own for whoever wrote the row, were it with the same values.
EVERYTHING = b"""
    select 'job', job_id::text, xmin::text, j::text from batchproc.processing_jobs j
    union all select 'attempt', claim_id::text, xmin::text, a::text from batchproc.job_attempts a
    union all select 'signal', job_id::text, xmin::text, s::text from batchproc.job_signals s
    union all select 'usage', tenant_id || kind, xmin::text, u::text from batchproc.usage_daily u
    order by 1, 2
"""

places = st.integers(0, 50)
campaigns = st.sampled_from([1, 2])
several = st.lists(places, min_size=1, max_size=4)
# Few tenants, kinds and keys, so that jobs meet.
jobs = st.builds(
    NewJob,
    st.sampled_from([1, 1, 1, 2]),
    st.sampled_from(["work", "work", "once"]),
    priority=st.sampled_from([1, 5]),
    run_at=st.sampled_from([None, LATER]),
    unique_key=st.sampled_from([None, "a", "a"]),
    max_attempts=st.integers(1, 4),
    campaign_id=st.sampled_from([None, 1, 2]),
)


STEPS: dict[str, st.SearchStrategy[tuple[str, dict[str, Any]]]] = {}
CHOICES: list[str] = []
Step = TypeVar("Step", bound=Callable[..., None])


def step(weight: int, **arguments: st.SearchStrategy[Any]) -> Callable[[Step], Step]:
    """A step of the machine below, so many times as likely as others, with what it is called with."""

    def register(method: Step) -> Step:
        STEPS[method.__name__] = st.tuples(st.just(method.__name__), st.fixed_dictionaries(arguments))
        CHOICES.extend([method.__name__] * weight)
        return method

    return register


class QueueMachine(RuleBasedStateMachine):
    """Steps name jobs, claims and nodes by their place among all there ever were, so that most of them mean one."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__()
        self.connection = connection
        self.store = JobStore("batchproc")
        self.fence = ClaimFence("batchproc")
        self.model = JobModel()
        self.nodes: list[NodeStore] = []
        self.claims: list[Claim] = []
        self.job_ids: list[int] = []

    @initialize(first=st.lists(jobs, min_size=4, max_size=8))
    def begin(self, first: list[NewJob]) -> None:
        self.connection.execute(EMPTY)
        for slug in ("acme", "beta"):
            self.store.add_tenant(self.connection, slug)
        self.connection.execute(b"insert into batchproc.campaigns (command) values ('one'), ('two')")
        for _ in range(2):
            self.join()
        for new in first:
            self.enqueue(new)

    @rule(chosen=st.deferred(lambda: st.sampled_from(CHOICES).flatmap(lambda name: STEPS[name])))
    def next(self, chosen: tuple[str, dict[str, Any]]) -> None:
        """One rule for all steps: as rules of their own, most would be switched off in each of a few examples."""
        name, arguments = chosen
        getattr(self, name)(**arguments)

    # -- nodes

    @step(1)
    def join(self) -> None:
        if len(self.nodes) >= 4:
            return
        node = NodeStore("batchproc", UUID(int=len(self.nodes) + 1), SPECS)
        facts = NodeFacts(node.node_id, "host", 1, 2, tuple(sorted(SPECS)), ("eng",), "5.5", "0.1")
        node.join(self.connection, facts, 3600.0)
        self.nodes.append(node)
        self.model.living.add(node.node_id)

    @step(1, place=places, change=st.sampled_from(["renew", "renew", "lose", "leave"]))
    def lease(self, place: int, change: str) -> None:
        node = self.node(place)
        if change == "renew":
            assert node.renew(self.connection, 3600.0) is (node.node_id in self.model.living)
            return
        if change == "leave":
            node.leave(self.connection)
        else:
            statement = (
                b"update batchproc.nodes set lease_until = clock_timestamp() - interval '1 s' where node_id = %s"
            )
            self.connection.execute(statement, [node.node_id])
        self.model.living.discard(node.node_id)

    # -- waiting

    @step(4, new=jobs)
    def enqueue(self, new: NewJob) -> None:
        enqueued = self.store.enqueue(self.connection, new, SPECS[new.kind])
        known = self.model.enqueue(ModelJob.of(enqueued.job_id, new))
        assert (enqueued.job_id if enqueued.duplicate else None) == known
        if known is None:
            self.job_ids.append(enqueued.job_id)

    @step(1, new=st.lists(jobs, min_size=1, max_size=3))
    def enqueue_many(self, new: list[NewJob]) -> None:
        plain = [replace(job, unique_key=None) for job in new]
        before = max(self.job_ids, default=0)
        assert self.store.enqueue_many(self.connection, plain, SPECS) == len(new)
        statement = b"select job_id from batchproc.processing_jobs where job_id > %s order by job_id"
        for (job_id,), job in zip(self.connection.execute(statement, [before]).fetchall(), plain, strict=True):
            self.model.enqueue(ModelJob.of(job_id, job))
            self.job_ids.append(job_id)

    @step(3, place=places)
    def make_due_and_promote(self, place: int) -> None:
        job = self.model.jobs.get(self.job_id(place))
        if job is not None and job.state not in ENDED:
            statement = b"update batchproc.processing_jobs set run_at = now() - interval '1 s' where job_id = %s"
            self.connection.execute(statement, [job.job_id])
            self.model.make_due(job.job_id)
        if place % 2:
            self.node(place).promote(self.connection)
            self.model.promote()

    @step(2, campaign=campaigns, pause=st.booleans())
    def hold_or_release(self, campaign: int, pause: bool) -> None:
        if pause:
            assert self.store.hold(self.connection, campaign) == self.model.hold(campaign)
        else:
            assert self.store.release(self.connection, campaign) == self.model.release(campaign)

    # -- claiming

    @step(5, place=places, count=st.integers(1, 3), limited=st.booleans())
    def claim(self, place: int, count: int, limited: bool) -> None:
        queues = [(tenant, kind) for tenant in (1, 2) for kind in SPECS]
        expected = sorted(job_id for queue in queues for job_id in self.model.claimable(*queue, count))
        node = self.node(place)
        turns = [Turn(queue_of(*queue), count) for queue in queues]
        _, claims = node.tick(self.connection, [], turns, limited=limited, run_id=None)
        assert sorted(claim.job_id for claim in claims) == expected
        for claim in claims:
            self.claimed(claim, node)

    @step(2, place=places, which=places)
    def claim_one(self, place: int, which: int) -> None:
        node, job_id = self.node(place), self.job_id(which)
        job = self.model.jobs.get(job_id)
        claim = node.claim_one(self.connection, job_id, None)
        assert (claim is not None) is (job is not None and job.state in ("scheduled", "available"))
        if claim is not None:
            self.claimed(claim, node)

    @step(2, place=places)
    def checkpoint(self, place: int) -> None:
        if not self.claims:
            return
        claim = self.any_claim(place)
        held = self.model.holder(claim.claim_id) is not None
        assert self.fence.is_claimed(self.connection, claim.job_id, claim.claim_id) is held

        def writes() -> None:
            self.fence.reset_budgets(self.connection, claim.job_id, claim.claim_id)
            self.fence.publish(self.connection, claim.job_id, claim.claim_id, '{"partial": 1}')
            self.nodes[0].write_progress(self.connection, [(claim.job_id, claim.claim_id, 1, 2)])

        self.unless_stale(claim, writes)
        self.model.checkpoint(claim.claim_id)

    # -- ending

    @step(7, place=places, which=places, outcome=st.sampled_from(OUTCOMES), apart=st.booleans())
    def settle(self, place: int, which: int, outcome: Outcome, apart: bool) -> None:
        if not self.claims:
            return
        node, claim = self.node(place), self.any_claim(which)
        ending = self.decided(claim, outcome)

        def write() -> dict[UUID, JobState]:
            if apart:
                return node.settle_one_by_one(self.connection, [ending]).states
            return node.tick(self.connection, [ending], [], limited=False, run_id=None)[0].states

        states = self.unless_stale(claim, write)
        self.agrees([claim], [self.model.settle(claim.claim_id, outcome)], states)

    @step(3, place=places, batch=st.lists(st.tuples(places, st.sampled_from(OUTCOMES)), min_size=2, max_size=5))
    def settle_a_batch(self, place: int, batch: list[tuple[int, Outcome]]) -> None:
        """Stale and held claims together; a claim is named once, as a node does."""
        if not self.claims:
            return
        by_claim = {self.any_claim(which).claim_id: (self.any_claim(which), outcome) for which, outcome in batch}
        chosen = sorted(by_claim.values(), key=lambda item: item[0].job_id)
        endings = [self.decided(claim, outcome) for claim, outcome in chosen]
        node = self.node(place)
        try:
            settled = node.settle(self.connection, endings)
        except psycopg.errors.UniqueViolation:  # two of one key come back together
            settled = node.settle_one_by_one(self.connection, endings)
        expected = [self.model.settle(claim.claim_id, outcome) for claim, outcome in chosen]
        self.agrees([claim for claim, _ in chosen], expected, settled.states)

    @step(2, place=places, which=places, outcomes=st.tuples(*[st.sampled_from(OUTCOMES)] * 2))
    def settle_a_stale_claim_beside_the_held_one_of_its_job(
        self, place: int, which: int, outcomes: tuple[Outcome, Outcome]
    ) -> None:
        """What a node writes that was told of a claim of its own after it had settled that and made another."""
        held = {claim.job_id: claim for claim in self.claims if self.model.holder(claim.claim_id) is not None}
        stale = [claim for claim in self.claims if claim.job_id in held and claim != held[claim.job_id]]
        if not stale:
            return
        old = stale[which % len(stale)]
        chosen = list(zip((old, held[old.job_id]), outcomes, strict=True))[:: 1 if which % 2 else -1]
        settled = self.node(place).settle(self.connection, [self.decided(*item) for item in chosen])
        expected = [self.model.settle(claim.claim_id, outcome) for claim, outcome in chosen]
        self.agrees([claim for claim, _ in chosen], expected, settled.states)

    @step(2, place=places)
    def rescue(self, place: int) -> None:
        claims = self.node(place).expired_claims(self.connection)
        assert [claim.job_id for claim in claims] == sorted(self.model.claims_of_the_dead())
        self.write_rescue(self.node(place), claims)

    @step(1, place=places, which=several)
    def rescue_what_was_found_long_ago(self, place: int, which: list[int]) -> None:
        if not self.claims:
            return
        claims = {claim.job_id: claim for claim in map(self.any_claim, which)}
        self.write_rescue(self.node(place), [claims[job_id] for job_id in sorted(claims)])

    @step(3, which=several, unknown=st.booleans())
    def cancel(self, which: list[int], unknown: bool) -> None:
        ids = [self.job_id(place) for place in which] + [2**62] * unknown
        assert self.store.cancel(self.connection, ids) == self.model.cancel(ids)

    @step(3, which=several)
    def retry(self, which: list[int]) -> None:
        ids = [self.job_id(place) for place in which]
        assert retry(self.connection, ids) == self.model.retry(ids)

    @step(1, place=places)
    def make_old_and_prune(self, place: int) -> None:
        job = self.model.jobs.get(self.job_id(place))
        if job is not None and job.state in ENDED:
            statement = b"update batchproc.processing_jobs set finished_at = now() - interval '2 h' where job_id = %s"
            self.connection.execute(statement, [job.job_id])
            self.model.make_old(job.job_id)
        if place % 2:
            assert prune(self.connection, HOUR) == self.model.prune()

    # -- what holds after each step

    @invariant()
    def tables_say_what_the_model_says(self) -> None:
        if not self.nodes:
            return
        expected = [self.model.jobs[job_id].row() for job_id in sorted(self.model.jobs)]
        assert self.connection.execute(ROWS).fetchall() == expected
        [usage] = self.connection.execute(USAGE_ROWS).fetchall()
        assert usage == (self.model.usage, self.model.ends["completed"], self.model.ends["discarded"])

    @invariant()
    def nothing_is_left_to_put_right(self) -> None:
        """What that mends comes of transactions that overlap; one step after another leaves it nothing to do."""
        for node in self.nodes[:1]:
            assert node.put_right(self.connection) == []

    @invariant()
    def the_database_is_sound(self) -> None:
        found = violations(self.connection)
        if self.model.usage != sum(job.attempts for job in self.model.jobs.values()):
            # The usage of pruned jobs is kept.
            found = [violation for violation in found if not violation.startswith(USAGE)]
        assert found == []

    @invariant()
    def nodes_know_what_they_hold(self) -> None:
        for node in self.nodes:
            mine = [job for job in self.model.jobs.values() if job.node_id == node.node_id]
            held = {claim.claim_id for claim in node.held(self.connection)}
            assert held == {job.claim_id for job in mine}
            asked = {claim.claim_id for claim in node.cancel_requested(self.connection)}
            assert asked == {job.claim_id for job in mine if job.cancel_requested}

    # -- helpers

    def node(self, place: int) -> NodeStore:
        return self.nodes[place % len(self.nodes)]

    def job_id(self, place: int) -> int:
        return self.job_ids[place % len(self.job_ids)]

    def any_claim(self, place: int) -> Claim:
        """Half of the places name a claim that is held, the others any claim, and some one that nobody ever made."""
        if place % 10 == 9:
            return Claim(self.job_ids[0], UUID(int=place), 1, "work", 1, 5, 1, 5, 0, 0, 0)
        held = [claim for claim in self.claims if self.model.holder(claim.claim_id) is not None]
        among = held if held and place % 2 == 0 else self.claims
        return among[place // 2 % len(among)]

    def claimed(self, claim: Claim, node: NodeStore) -> None:
        assert claim.claim_id not in {known.claim_id for known in self.claims}
        self.model.claim(claim.job_id, claim.claim_id, node.node_id)
        job = self.model.jobs[claim.job_id]
        assert (claim.attempt, claim.crashes, claim.timeouts, claim.node_losses, claim.max_attempts) == (
            job.attempt,
            job.crashes,
            job.timeouts,
            job.node_losses,
            job.max_attempts,
        )
        self.claims.append(claim)

    def decided(self, claim: Claim, outcome: Outcome) -> Ended:
        """As a node decides: with the counters as they are now."""
        fresh = self.nodes[0].refreshed(self.connection, [claim]).get(claim.claim_id, claim)
        moved = settle(fresh, outcome, SPECS[claim.kind], max_node_losses=MAX_NODE_LOSSES, jitter=0.0)
        return Ended(moved, worker_pid=1, seconds=0.5)

    def write_rescue(self, node: NodeStore, claims: list[Claim]) -> None:
        lost = Failed(ErrorClass.LEASE_EXPIRED, "lease_expired")
        endings = [self.decided(claim, lost) for claim in claims]
        try:
            settled = node.settle(self.connection, endings, rescue=True)
        except psycopg.errors.UniqueViolation:
            settled = node.settle_one_by_one(self.connection, endings, rescue=True)
        self.agrees(claims, [self.model.rescue(claim.claim_id) for claim in claims], settled.states)

    def agrees(self, claims: list[Claim], expected: list[str | None], states: dict[UUID, JobState]) -> None:
        written = {claim.claim_id: state for claim, state in zip(claims, expected, strict=True) if state is not None}
        assert states == written

    def unless_stale(self, claim: Claim, write: Callable[[], Any]) -> Any:
        """Writes; with a claim that holds nothing, no row of any table may have another version afterwards."""
        if self.model.holder(claim.claim_id) is not None:
            return write()
        before = self.everything()
        told = write()
        assert self.everything() == before, "a stale claim has changed a row"
        return told

    def everything(self) -> list[tuple[Any, ...]]:
        return self.connection.execute(EVERYTHING).fetchall()


QUICK = settings(
    max_examples=30,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    # An example of forty steps is read sooner than a shorter one is found.
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
LONG = settings(
    QUICK,
    max_examples=300,
    stateful_step_count=60,
    derandomize=False,
    print_blob=True,
    phases=(Phase.generate, Phase.shrink),
)


def run_machine(database_url: str, profile: settings) -> None:
    with connect(database_url) as connection:
        run_state_machine_as_test(lambda: QueueMachine(connection), settings=profile)  # type: ignore[arg-type]


def test_the_queue_does_what_its_model_does(database_url: str) -> None:
    run_machine(database_url, QUICK)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_queue_does_what_its_model_does_for_long(database_url: str) -> None:
    run_machine(database_url, LONG)
