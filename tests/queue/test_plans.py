"""EXPLAIN pins: what runs all the time reads by index, with statistics of today and with those of an empty table,
however it is planned.

200,000 jobs of 200 tenants, 60,000 of them in one queue; without an index each of these statements would cost what the
table holds, a thousand times a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from batchproc.core.fairness import Queue, Turn
from batchproc.core.job import Claim
from batchproc.core.outcome import Completed, FollowUp
from batchproc.queue.endings import endings_json
from batchproc.testing.databases import Databases
from tests.queue.helpers import Conn, ended, join
from tests.queue.plans import STATEMENTS, buffers, crowded_database, explained, indexes_of_jobs, nodes, touched

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NODE = UUID(int=1)
DEAD = UUID(int=2)
ABLE = {"language_kinds": ["big"], "able": ["eng"], "has_defaults": True}
LATER = datetime.now(UTC) + timedelta(days=1)
LOOK = {
    "until": LATER,
    "after_time": datetime(1, 1, 1, tzinfo=UTC),
    "after_id": 0,
    "limit": 5000,
    "kinds": [],
}
SCOPE: dict[str, list[Any]] = {"tenant_ids": [], "kinds": [], "lanes": []}

_TENANTS = "insert into batchproc.tenants (slug) select 't' || n from generate_series(1, 200) n"
_DOCUMENTS = """
    insert into batchproc.documents (tenant_id, root, path, sha256, bytes)
    select tenant_id, '', '', sha256(int8send(n)), 0 from batchproc.tenants, generate_series(1, 5) n
"""
# Of 35 jobs of a tenant 20 are over, 8 available, 7 scheduled (most of them for later); here and there one runs.
_JOBS = """
    insert into batchproc.processing_jobs
        (tenant_id, document_id, kind, lane, priority, state, run_at, max_attempts, unique_key, claim_id, node_id,
         claimed_at, finished_at)
    select t.tenant_id, t.document_id, case when mod(k, 3) = 0 then 'other' else 'work' end, mod(k, 2), 5, s.state,
           case when s.state = 'scheduled' and mod(k, 7) > 0 then now() + interval '1 day' else now() end, 5,
           case when mod(n, 5) = 0 then 'key ' || n end,
           case when s.state = 'running' then gen_random_uuid() end,
           case when s.state = 'running' then case when mod(n, 2) = 0 then %(dead)s::uuid else %(node)s end end,
           case when s.state = 'running' then now() end,
           case when s.state = 'completed' then now() end
    from generate_series(0, 139999) n
    cross join lateral (select n / 200 as k) per_tenant
    join (select tenant_id, min(document_id) as document_id, row_number() over (order by tenant_id) - 1 as place
          from batchproc.documents group by tenant_id) t on t.place = mod(n, 200)
    cross join lateral (
        select case when mod(n, 997) = 0 then 'running' when mod(k, 35) < 20 then 'completed'
                    when mod(k, 35) < 28 then 'available' else 'scheduled' end as state) s
"""
_NODES = b"""
    insert into batchproc.nodes (node_id, lease_until, host, pid, slots, kinds, languages, code_version)
    select gen_random_uuid(), now() + interval '1 hour', 'host', n, 8, '{work,other,big}', '{eng}', ''
    from generate_series(1, 2000) n
"""
_ONE_BIG_QUEUE = """
    insert into batchproc.processing_jobs (tenant_id, kind, state, max_attempts)
    select (select min(tenant_id) from batchproc.tenants), 'big', 'available', 5 from generate_series(1, 60000)
"""


def fill(connection: Conn) -> None:
    connection.execute("analyze")
    for statement in (_TENANTS, _DOCUMENTS):
        connection.execute(statement.encode())
    connection.execute(_JOBS.encode(), {"node": NODE, "dead": DEAD})
    connection.execute(_ONE_BIG_QUEUE.encode())
    join(connection, node_id=NODE)


@pytest.fixture(scope="module")
def crowded(template_databases: Databases) -> Iterator[Conn]:
    with crowded_database(template_databases, fill) as connection:
        yield connection


@pytest.fixture(scope="module", params=["analysed when empty", "analysed"])
def connection(crowded: Conn, request: pytest.FixtureRequest) -> Conn:
    """The crowded database; pytest runs all tests with the old statistics before those with the new."""
    if request.param == "analysed":
        crowded.execute("analyze")
    return crowded


# -- what the node passes


def turns(connection: Conn) -> dict[str, Any]:
    """Eight slots: the big queue and seven others."""
    [tenants] = connection.execute(
        "select array_agg(tenant_id order by tenant_id) from batchproc.tenants"
    ).fetchone() or [[]]
    return {
        "lanes": [1, 0, 0, 0, 1, 1, 1, 1],
        "tenants": [tenants[0], *tenants[5:12]],
        "kinds": ["big", *["work"] * 7],
        "counts": [2, *[1] * 7],
        "after_priorities": [5, -1, 5, *[-1] * 5],
        "after_jobs": [150_000, 0, 300, *[0] * 5],
        "claim_ids": [uuid4() for _ in range(9)],
        "node_id": NODE,
        "run_id": None,
        **ABLE,
    }


def claims(connection: Conn) -> list[tuple[int, UUID]]:
    """As many as a bundle of quick jobs has."""
    query = "select job_id, claim_id from batchproc.processing_jobs where state = 'running' order by job_id limit 64"
    return connection.execute(query).fetchall()


def one_claim(connection: Conn) -> list[Any]:
    return list(claims(connection)[0])


def several(connection: Conn) -> dict[str, Any]:
    job_ids, claim_ids = zip(*claims(connection), strict=True)
    return {"job_ids": list(job_ids), "claim_ids": list(claim_ids)}


def endings(connection: Conn) -> dict[str, Any]:
    held = [Claim(job_id, claim_id, 1, "work", 1, 5, 1, 5, 0, 0, 0) for job_id, claim_id in claims(connection)]
    follow_up = Completed("{}", (FollowUp("other"),))
    return {"transitions": endings_json([ended(claim, follow_up) for claim in held], {}), "rescue": False}


def rescues(connection: Conn) -> dict[str, Any]:
    return endings(connection) | {"rescue": True}


def progress(connection: Conn) -> dict[str, Any]:
    return several(connection) | {"done": [1] * 8, "total": [2] * 8}


def waiting_key(connection: Conn) -> dict[str, Any]:
    query = """
        select tenant_id, kind, unique_key, document_id from batchproc.processing_jobs
        where unique_key is not null and state = 'available' limit 1
    """
    row = connection.execute(query).fetchone()
    assert row is not None
    return dict(zip(("tenant_id", "kind", "unique_key", "document_id"), row, strict=True))


def some_ids(_: Conn) -> dict[str, Any]:
    """A batch."""
    return {"job_ids": list(range(1000, 1500))}


Values = Callable[[Conn], Any]
PINS: dict[str, tuple[Values, set[str]]] = {
    "claim": (turns, {"processing_jobs_claim", "processing_jobs_pkey"}),
    "claim_limited": (turns, {"processing_jobs_claim", "processing_jobs_pkey", "processing_jobs_running_kind"}),
    "claim_one": (
        lambda _: {"job_id": 77, "claim_id": NODE, "node_id": NODE, "run_id": None, "kinds": ["work"], **ABLE},
        {"processing_jobs_pkey"},
    ),
    "claim_one_within_limits": (
        lambda _: {"job_id": 77, "claim_id": NODE, "node_id": NODE, "run_id": None, "kinds": ["work"], **ABLE},
        {"processing_jobs_pkey", "processing_jobs_running_kind"},
    ),
    "language_gaps": (
        lambda _: {**SCOPE, "language_kinds": ["big"], "skip": []},
        {"processing_jobs_languages", "processing_jobs_claim"},
    ),
    "gap_by_languages": (
        lambda _: {"kind": "big", "languages": ["fra"], "lane": 1, "tenant_id": 1, "skip": [], "limit": 500},
        {"processing_jobs_languages"},
    ),
    "gap_by_tenant": (
        lambda _: {"kind": "big", "lane": 1, "tenant_id": 1, "skip": [], "limit": 500},
        {"processing_jobs_claim"},
    ),
    "discard_jobs": (
        lambda _: {
            "job_ids": [1, 2],
            "tenant_ids": [1, 1],
            "results": ["{}", "{}"],
            "failure_code": "own_code",
            "run_id": None,
            "failing_kinds": ["big"],
        },
        {"processing_jobs_pkey"},
    ),
    "lock_waiting": (lambda _: some_ids(_) | {"failing_kinds": ["work"]}, {"processing_jobs_pkey"}),
    "hint_languages": (
        lambda _: {"document_ids": [1, 2, 3], "kinds": ["work"]},
        {"processing_jobs_(document|pkey)"},
    ),
    "of_one_root": (
        lambda _: {
            "job_ids": [1, 2],
            "lane": 1,
            "tenant_id": 1,
            "kind": "big",
            "priority": 5,
            "job_id": 7,
            "skip": [],
            "limit": 2000,
        },
        {"processing_jobs_claim", "processing_jobs_pkey"},
    ),
    "put_off_jobs": (
        lambda _: {"job_ids": list(range(1000, 1500)), "seconds": 9.0, "run_id": 1},
        {"processing_jobs_pkey"},
    ),
    "take_up_jobs": (some_ids, {"processing_jobs_pkey"}),
    "stored_jobs": (
        lambda _: {"after": 0, "per_tenant": 5, "limit": 1000, "skip": [], "run_id": 1, "pause": None},
        {"processing_jobs_storage"},
    ),
    "ready": (lambda _: None, {"processing_jobs_claim"}),
    "rooms": (lambda _: None, {"processing_jobs_running_(node|kind)"}),
    "undrained": (
        lambda _: {"run_id": 1, "drain_wait": 600.0, "skip": [], **ABLE},
        {"processing_jobs_(run|promote)", "processing_jobs_running_(node|kind)"},
    ),
    "retries_of_run": (lambda _: {"run_id": 1, "drain_wait": 600.0, **ABLE}, {"processing_jobs_(run|promote)"}),
    "running_work": (lambda _: SCOPE, {"processing_jobs_running_(node|kind)"}),
    "expired_claims": (lambda _: {"limit": 100, "skip": []}, {"processing_jobs_running_(node|kind)"}),
    "held_claims": (lambda _: [NODE], {"processing_jobs_running_node"}),
    "settle": (endings, {"processing_jobs_pkey"}),
    "settle, rescue": (rescues, {"processing_jobs_pkey"}),
    "lock_claim": (one_claim, {"processing_jobs_pkey"}),
    "job_for_worker": (one_claim, {"processing_jobs_pkey"}),
    "jobs_for_worker": (lambda connection: list(several(connection).values()), {"processing_jobs_pkey"}),
    "reset_budgets": (one_claim, {"processing_jobs_pkey"}),
    "claims_by_id": (several, {"processing_jobs_pkey"}),
    "write_progress": (progress, {"processing_jobs_pkey"}),
    "find_unique": (waiting_key, {"processing_jobs_unique.*"}),
    "latest_document_jobs": (
        lambda _: {"tenant_id": 1, "document_ids": [1, 7], "kind": "work"},
        {"processing_jobs_(document|pkey)"},
    ),
    "show_job": (lambda _: [77], {"processing_jobs_pkey"}),
    "cancel_waiting": (some_ids, {"processing_jobs_pkey"}),
    "cancel_stray": (some_ids, {"processing_jobs_pkey"}),
    "request_cancel": (some_ids, {"processing_jobs_(pkey|running_node|running_kind)"}),
    "forget_requests": (some_ids, {"processing_jobs_pkey"}),
    "job_states": (some_ids, {"processing_jobs_pkey"}),
    "cancel_requested": (lambda _: [NODE], {"processing_jobs_(running_node|pkey)"}),
    "campaign_waiting": (
        lambda _: {"campaign_id": 1, "after": 7, "limit": 500},
        {"processing_jobs_campaign"},
    ),
    "campaign_held": (lambda _: {"campaign_id": 1, "before": 2**40, "limit": 500}, {"processing_jobs_held"}),
    "hold_jobs": (some_ids, {"processing_jobs_pkey"}),
    "release_jobs": (some_ids, {"processing_jobs_pkey", "processing_jobs_unique.*"}),
    "strays": (
        lambda _: {"limit": 500, "skip": []},
        {"processing_jobs_campaign", "processing_jobs_held", "processing_jobs_pkey"},
    ),
    "prunable": (lambda _: LOOK | {"states": ["completed"], "tenant_id": None}, {"processing_jobs_finished"}),
    "prunable, of one tenant": (
        lambda _: LOOK | {"states": ["discarded"], "tenant_id": 7},
        {"processing_jobs_finished"},
    ),
    "prune_jobs": (lambda _: some_ids(_) | {"until": LATER}, {"processing_jobs_pkey"}),
    "due_jobs": (lambda _: {"skip": [], "limit": 1000}, {"processing_jobs_due"}),
    "due_by_tenant": (
        lambda _: {"after": 0, "per_tenant": 5, "limit": 1000, "skip": []},
        {"processing_jobs_promote"},
    ),
    "promote_jobs": (some_ids, {"processing_jobs_pkey"}),
}


_UNKNOWN_CLAIM = Claim(1, NODE, 1, "work", 1, 5, 1, 5, 0, 0, 0)
_UNKNOWN_ENDING = {"transitions": endings_json([ended(_UNKNOWN_CLAIM)], {}), "rescue": False}
_UNKNOWN_TURN = {
    "lanes": [1],
    "tenants": [1],
    "kinds": ["work"],
    "counts": [1],
    "after_priorities": [5],
    "after_jobs": [1],
    "claim_ids": [NODE],
    "node_id": NODE,
    "run_id": None,
    **ABLE,
}

# -- plans


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("name", PINS)
def test_the_job_table_is_read_by_index(connection: Conn, name: str, generic: bool) -> None:
    values_of, expected = PINS[name]
    plan = explained(connection, name, values_of(connection), generic=generic)
    used = indexes_of_jobs(plan)
    for pattern in expected:
        assert [index for index in used if re.fullmatch(pattern, index)], (pattern, used)


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("name", ["claim", "claim_limited"])
def test_a_claim_reads_no_more_of_a_queue_than_it_takes(connection: Conn, name: str, generic: bool) -> None:
    plan = explained(connection, name, turns(connection), generic=generic)
    locking = [node for node in nodes(plan) if node["Node Type"] == "LockRows"]
    [scan] = [scan for node in locking for scan in node["Plans"] if scan.get("Relation Name") == "processing_jobs"]
    assert scan["Node Type"] == "Index Scan", "in the order of the index, so that the limit ends it"
    for column in ("lane", "tenant_id", "kind"):
        assert f"({column} = w" in scan["Index Cond"]
    assert "ROW(priority, job_id) > ROW(w" in scan["Index Cond"], "what is not after the place is not read at all"


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("analysed", [False, True], ids=["analysed when empty", "analysed"])
def test_a_lease_is_renewed_by_its_key_and_looks_at_no_job(
    opened: Callable[[], Conn], analysed: bool, generic: bool
) -> None:
    """Every node does so all the time. Of few nodes PostgreSQL may read the one page that they fill."""
    connection = opened()
    with connection.transaction(force_rollback=True):
        connection.execute("analyze batchproc.nodes")
        connection.execute(_NODES)
        if analysed:
            connection.execute("analyze batchproc.nodes")
        plan = explained(connection, "renew_lease", {"node_id": NODE, "lease": 30.0}, generic=generic)
    read = [(node.get("Relation Name"), node.get("Index Name")) for node in nodes(plan) if "Scan" in node["Node Type"]]
    assert read == [("nodes", "nodes_pkey")], json.dumps(plan, indent=1)


_UPDATE_OF_JOBS = ("ModifyTable", "processing_jobs")
BUFFERS_PER_JOB = 40
"""Pages that are touched for each claimed job, hits included: of the index that it is found by, of the table, and of
each index that it enters. 22 on PostgreSQL 18, with both statistics."""


@pytest.mark.parametrize("name", ["claim", "claim_limited"])
@pytest.mark.parametrize("places", ["floors", "fronts"])
def test_what_a_claim_touches_grows_with_its_jobs_alone(connection: Conn, name: str, places: str) -> None:
    values = turns(connection)
    if places == "fronts":
        values |= {"after_priorities": [-1] * 8, "after_jobs": [0] * 8}
    explain = b"explain (format json, analyze, buffers, timing off) " + STATEMENTS[name]
    with connection.transaction(force_rollback=True):
        connection.execute(STATEMENTS["plan_tick"])
        row = connection.execute(explain, values).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    [updated] = [node for node in nodes(plan) if (node["Node Type"], node.get("Relation Name")) == _UPDATE_OF_JOBS]
    jobs = max(node["Actual Rows"] for node in updated["Plans"])
    assert jobs >= 8
    assert touched(plan) <= BUFFERS_PER_JOB * jobs


def of_a_braked_kind_without_jobs(connection: Conn) -> dict[str, Any]:
    connection.execute(
        "insert into batchproc.kinds (kind, paused, paused_code, paused_reason)"
        " values ('broken', true, 'poison', 'why') on conflict do nothing"
    )
    return {"known": ["broken", "work"], "tenant_ids": [], "kinds": [], "lanes": []}


@pytest.mark.parametrize(
    ("name", "values_of"), [("ready", lambda _: None), ("braked_kinds", of_a_braked_kind_without_jobs)]
)
def test_a_look_for_queues_reads_one_job_of_each(connection: Conn, name: str, values_of: Values) -> None:
    explain = b"explain (format json, analyze, timing off) " + STATEMENTS[name]
    row = connection.execute(explain, values_of(connection)).fetchone()
    assert row is not None
    found = list(nodes(row[0][0]["Plan"]))
    scans = [node for node in found if node.get("Relation Name") == "processing_jobs"]
    limited = [child for node in found if node["Node Type"] == "Limit" for child in node["Plans"]]
    # An index read from end to end for one kind tells of no row that it passes over.
    assert all(scan in limited for scan in scans)
    read = sum((scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0)) * scan["Actual Loops"] for scan in scans)
    queues = connection.execute(
        "select count(*) from (select distinct lane, tenant_id, kind from batchproc.processing_jobs"
        " where state = 'available') q"
    ).fetchone()
    assert queues is not None
    assert queues[0] > 200
    assert read <= queues[0] + 5  # rows a loop are rounded


def test_a_look_for_due_jobs_reads_what_it_may_take_and_no_more(connection: Conn) -> None:
    """4,000 jobs are due and 24,000 are scheduled for later: those cost nothing."""
    with connection.transaction(force_rollback=True):
        assert buffers(connection, "due_jobs", {"skip": [], "limit": 100}) < 200
        few = {"after": 0, "per_tenant": 1, "limit": 10, "skip": []}
        assert buffers(connection, "due_by_tenant", few) < 200, "the limit ends the walk over the tenants"
        connection.execute("delete from batchproc.processing_jobs where state = 'scheduled' and run_at <= now()")
        connection.execute("set local enable_seqscan = off")  # for the plan of the first look
        buffers(connection, "due_jobs", {"skip": [], "limit": 1000})
        assert buffers(connection, "due_jobs", {"skip": [], "limit": 1000}) < 300, "the deleted are not gone yet"


def test_a_look_for_old_jobs_of_a_small_tenant_ends_with_its_stretch(connection: Conn) -> None:
    one = LOOK | {"states": ["discarded"], "tenant_id": 7, "limit": 500}
    assert buffers(connection, "prunable", one) < 1500, "three pages a job at most"


@pytest.mark.parametrize("name", ["claim", "claim_limited", "settle"])
def test_a_tick_that_was_planned_on_empty_tables_reads_full_ones_by_index(
    opened: Callable[[], Conn], name: str
) -> None:
    empty = opened()
    values = _UNKNOWN_ENDING if name == "settle" else _UNKNOWN_TURN
    with empty.transaction():
        empty.execute(STATEMENTS["plan_tick"])
        plan = explained(empty, name, values, generic=True)
    assert "Seq Scan" not in {node["Node Type"] for node in nodes(plan)}, json.dumps(plan, indent=1)
    assert plan["Total Cost"] < 1e6, "nothing was forbidden in vain"


def test_what_a_tick_sets_ends_with_it(opened: Callable[[], Conn]) -> None:
    connection = opened()
    shown = "select current_setting('plan_cache_mode'), current_setting('enable_seqscan'), current_setting('jit')"
    before = connection.execute(shown).fetchone()
    node = join(connection)
    node.tick(connection, [], [Turn(Queue(1, 1, "work"), 1)], limited=True, run_id=None)
    assert connection.execute(shown).fetchone() == before
