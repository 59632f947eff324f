"""EXPLAIN pins of what is asked and done of a campaign: by its own index, whatever else the table holds.

60,000 jobs of forty campaigns and of none, interleaved, after 20,000 that are over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg import Cursor

from batchproc.core.job import JobState
from batchproc.queue.choosing import ChosenJobs, JobFilter
from batchproc.queue.inspection import Inspection
from batchproc.testing.databases import Databases
from tests.queue.helpers import Conn
from tests.queue.plans import STATEMENTS, buffers, crowded_database, explained, indexes_of_jobs, nodes, touched

CAMPAIGN = 2
_CAMPAIGNS = "insert into batchproc.campaigns (command, documents) select 'import', 0 from generate_series(1, 40)"
_JOBS = """
    insert into batchproc.processing_jobs
        (tenant_id, kind, state, max_attempts, campaign_id, claim_id, node_id, claimed_at, finished_at)
    select 1, 'work', s.state, 5, nullif(mod(n, 41), 0),
           case when s.state = 'running' then gen_random_uuid() end,
           case when s.state = 'running' then gen_random_uuid() end,
           case when s.state = 'running' then now() end,
           case when s.state in ('completed', 'discarded', 'cancelled') then now() end
    from generate_series(1, 60000) n
    cross join lateral (
        select case when mod(n, 9973) < 5 then 'running' when mod(n, 501) < 5 then 'discarded'
                    when mod(n, 1003) < 5 then 'cancelled' when n < 20000 then 'completed' else 'available' end as state
    ) s
"""


def fill(connection: Conn) -> None:
    connection.execute("insert into batchproc.tenants (slug) values ('acme')")
    for statement in (_CAMPAIGNS, _JOBS):
        connection.execute(statement.encode())


@pytest.fixture(scope="module")
def crowded(template_databases: Databases) -> Iterator[Conn]:
    with crowded_database(template_databases, fill) as connection:
        yield connection


@pytest.fixture(scope="module", params=["without statistics", "analysed"])
def connection(crowded: Conn, request: pytest.FixtureRequest) -> Conn:
    """The crowded database; pytest runs all tests without statistics before those with."""
    if request.param == "analysed":
        crowded.execute("analyze")
    return crowded


WAITING, HELD, RUNNING = "processing_jobs_campaign", "processing_jobs_held", "processing_jobs_running_(node|kind)"
DONE, FAILED = "processing_jobs_campaign_done", "processing_jobs_campaign_failed"
ONE = {"campaign_id": CAMPAIGN}
NEXT = ONE | {"after": 0, "limit": 500}
FAILURES = {"states": ["discarded", "cancelled"], "failure_codes": None}
PINS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "campaign_unfinished": (NEXT, {WAITING, HELD, RUNNING}),
    "campaign_waiting": (NEXT, {WAITING}),
    "campaign_held": (ONE | {"before": 2**40, "limit": 500}, {HELD}),
    "campaign_failed": (NEXT | FAILURES, {FAILED}),
    "campaign_failures": (ONE, {FAILED}),
    "campaign_left": (ONE, {WAITING, HELD, RUNNING}),
    "finish_cancel": ({"campaign_ids": [CAMPAIGN]}, {WAITING, HELD, RUNNING, FAILED}),
    "take_back_cancel": ({"campaign_ids": [CAMPAIGN]}, {FAILED}),
    "list_campaigns": (ONE | {"tenant": None, "before": None, "limit": 1}, {WAITING, HELD, RUNNING, DONE, FAILED}),
    "report_campaign": (ONE, {WAITING, HELD, RUNNING, DONE, FAILED}),
}


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("name", PINS)
def test_the_jobs_of_a_campaign_are_read_by_its_indexes(connection: Conn, name: str, generic: bool) -> None:
    values, expected = PINS[name]
    plan = explained(connection, name, values, generic=generic)
    used = indexes_of_jobs(plan)
    # Not by the primary key: in the order of the ids it meets the jobs of all others.
    assert all(re.fullmatch("|".join(expected), index) for index in used), used
    assert len(used) >= len(expected)


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
def test_what_a_broken_off_cancel_left_is_found_by_the_indexes(connection: Conn, generic: bool) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute("update batchproc.campaigns set cancelling = true where campaign_id = %s", [CAMPAIGN])
        plan = explained(connection, "strays", {"limit": 500, "skip": []}, generic=generic)
    used = indexes_of_jobs(plan)
    assert not used & {DONE, FAILED, "processing_jobs_finished"}, used


def asked(connection: Conn, look: Callable[[], object]) -> list[tuple[Any, Any]]:
    """The statements on jobs that ``look`` sends, and with what."""
    sent: list[tuple[Any, Any]] = []

    class Recording(Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            if b"processing_jobs j" in query:
                assert options["prepare"] is False, "a generic plan knows neither the campaign nor the states"
                sent.append((query, params))
            return super().execute(query, params, **options)

    before, connection.cursor_factory = connection.cursor_factory, Recording
    try:
        look()
    finally:
        connection.cursor_factory = before
    return sent


LOOKS: dict[str, Callable[[Conn, tuple[JobState, ...]], object]] = {
    "listed": lambda connection, states: Inspection("batchproc").jobs(
        connection, states=states, campaign_id=CAMPAIGN, after=30_000
    ),
    "chosen": lambda connection, states: next(
        ChosenJobs("batchproc", connection, JobFilter(states, campaign_id=CAMPAIGN)).slices(), None
    ),
    "counted": lambda connection, states: ChosenJobs(
        "batchproc", connection, JobFilter(states, campaign_id=CAMPAIGN)
    ).groups(),
}


@pytest.mark.parametrize(
    "states", [tuple(JobState), (JobState.HELD, JobState.RUNNING, JobState.AVAILABLE), (JobState.CANCELLED,)]
)
@pytest.mark.parametrize("look", LOOKS)
def test_jobs_are_found_by_their_campaign_without_going_through_those_of_others(
    connection: Conn, look: str, states: tuple[JobState, ...]
) -> None:
    statements = asked(connection, lambda: LOOKS[look](connection, states))
    assert statements
    for statement, values in statements:
        row = connection.execute(b"explain (format json) " + statement, values).fetchone()
        assert row is not None
        plan = row[0][0]["Plan"]
        used = indexes_of_jobs(plan)
        if any(node["Node Type"] == "BitmapAnd" for node in nodes(plan)):
            used -= {"processing_jobs_pkey"}  # without statistics of the ids, beside the few that run
        assert used
        assert all(re.fullmatch("|".join([WAITING, HELD, RUNNING, DONE, FAILED]), index) for index in used), used


def test_a_campaign_is_listed_by_ids_whatever_the_states(connection: Conn) -> None:
    query = "select job_id, state from batchproc.processing_jobs where campaign_id = %s order by job_id"
    expected: list[tuple[int, str]] = connection.execute(query, [CAMPAIGN]).fetchall()
    listed: list[tuple[int, str]] = []
    while page := Inspection("batchproc").jobs(
        connection, campaign_id=CAMPAIGN, after=listed[-1][0] if listed else 0, limit=700
    ):
        listed += [(row["job_id"], row["state"]) for row in page]
    assert listed == expected
    assert len({state for _, state in listed}) >= 4
    wanted = JobFilter(tuple(JobState), campaign_id=CAMPAIGN)
    chosen = ChosenJobs("batchproc", connection, wanted)
    assert [job_id for some in chosen.slices() for job_id in some] == [job_id for job_id, _ in expected]
    assert sum(group["jobs"] for group in chosen.groups()) == len(expected)


@pytest.mark.parametrize("campaign_id", [CAMPAIGN, None])
def test_of_no_state_nothing_is_chosen_and_a_listing_without_states_shows_all(
    connection: Conn, campaign_id: int | None
) -> None:
    chosen = ChosenJobs("batchproc", connection, JobFilter((), tenant_id=1, campaign_id=campaign_id))
    assert (list(chosen.slices()), chosen.groups()) == ([], [])
    listed = Inspection("batchproc").jobs(connection, states=(), campaign_id=campaign_id, limit=1500)
    assert {"running", "completed", "discarded"} <= {row["state"] for row in listed}


def test_the_look_at_the_nights_looks_a_campaign_up_once_and_not_for_each_of_its_jobs(connection: Conn) -> None:
    values: dict[str, Any] = {"asked": "{}", "tenant_ids": [], "kinds": [], "lanes": [], "of_late": 3600.0}
    row = connection.execute(b"explain (analyze, buffers, format json) " + STATEMENTS["night"], values).fetchone()
    assert row is not None
    looks = [node for node in nodes(row[0][0]["Plan"]) if node.get("Relation Name") == "campaigns"]
    assert looks
    assert sum(touched(node) for node in looks) < 500
    assert sum(node["Actual Loops"] for node in looks) <= 41, "those of the campaigns, and of no campaign"


@pytest.mark.parametrize("after", [0, 40_000])
def test_a_batch_of_what_is_left_costs_what_it_holds(connection: Conn, after: int) -> None:
    assert buffers(connection, "campaign_unfinished", NEXT | {"after": after, "limit": 100}) < 300


def test_a_claim_writes_nothing_for_the_campaign_of_its_job(connection: Conn) -> None:
    """An index enters a row anew each time it is claimed or settled, unless it leaves out the state that it gets."""
    lists = """
        select c.relname, c.oid::regclass from pg_index i join pg_class c on c.oid = i.indexrelid
        where indrelid = 'batchproc.processing_jobs'::regclass and pg_get_indexdef(c.oid) like '%campaign_id%'
    """
    entered = """
        select count(*) from pg_index
        where indexrelid = %s::regclass and pg_get_expr(indpred, indrelid) not like '%%running%%'
          and pg_get_expr(indpred, indrelid) like '%%state%%'
    """
    found: dict[str, str] = dict(connection.execute(lists).fetchall())
    assert set(found) == {WAITING, HELD, DONE, FAILED}
    for index in found.values():
        assert connection.execute(entered, [index]).fetchone() == (1,), index
