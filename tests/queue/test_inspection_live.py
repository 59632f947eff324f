"""What the nodes' slots are at, as written and as shown; how much was done; whether the nights go well."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from batchproc.core.job import Claim, JobState, Lane
from batchproc.core.outcome import Completed
from batchproc.queue.inspection import Inspection
from batchproc.queue.inspection_live import LiveInspection
from batchproc.queue.inspection_night import look_at_night
from batchproc.queue.inspection_waiting import MOST_AHEAD, look_at_waiting
from batchproc.queue.nights import MOST_KEPT, Kept
from batchproc.queue.node_store import NodeStore
from batchproc.queue.slot_store import SlotNote
from tests.queue.helpers import (
    Conn,
    add_document,
    add_tenant,
    claim_job,
    ended,
    enqueue,
    expire,
    join,
    one,
    rows_of,
    running,
)

LIVE = LiveInspection("batchproc")
_A_MINUTE_AGO = "update batchproc.nodes set started_at = started_at - interval '1 min'"
SLOT_KEYS = {
    "node_id", "host", "slot", "worker_pid", "job_id", "tenant", "kind", "document_id", "attempt", "seconds",
    "resident_bytes", "running", "progress",
}  # fmt: skip


def note(slot: int, claim: Claim, seconds: float = 7.0) -> SlotNote:
    return SlotNote(slot, claim.job_id, claim.claim_id, 4711, seconds, 64 << 20)


def write(connection: Conn, node: NodeStore, *notes: SlotNote, rate: float | None = 12.5, run_id: int = 1) -> None:
    node.slots.write(connection, node.node_id, notes, run_id=run_id, ended=3, jobs_per_minute=rate)


# -- slots


def test_a_slot_is_shown_with_what_its_job_is(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    document = add_document(connection, tenant)
    claim = running(connection, node, tenant, document_id=document)
    node.write_progress(connection, [(claim.job_id, claim.claim_id, 17, 40)])
    write(connection, node, note(1, claim))
    [slot] = LIVE.slots(connection)
    assert set(slot) == SLOT_KEYS
    assert 7 <= slot.pop("seconds") < 60
    assert slot == {
        "node_id": node.node_id,
        "host": "host",
        "slot": 1,
        "worker_pid": 4711,
        "job_id": claim.job_id,
        "tenant": "acme",
        "kind": "work",
        "document_id": document,
        "attempt": 1,
        "progress": {"done": 17, "total": 40},
        "resident_bytes": 64 << 20,
        "running": True,
    }


def test_a_slot_that_is_idle_is_written_once_and_not_shown(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    first, second = (running(connection, node, tenant) for _ in range(2))
    write(connection, node, note(0, first), note(1, second))
    write(connection, node, note(1, second))
    assert [slot["slot"] for slot in LIVE.slots(connection)] == [1]
    idle = "select written_at from batchproc.node_slots where slot = 0"
    written = one(connection, idle)
    write(connection, node, note(1, second))
    assert one(connection, idle) == written, "not again"
    write(connection, node)
    assert LIVE.slots(connection) == []


def test_a_job_that_has_ended_since_is_told_to_have(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    claim = running(connection, node, tenant)
    write(connection, node, note(0, claim))
    node.settle(connection, [ended(claim)])
    [slot] = LIVE.slots(connection)
    assert (slot["running"], slot["tenant"], slot["progress"]) == (False, "acme", None)
    connection.execute("delete from batchproc.processing_jobs")
    [slot] = LIVE.slots(connection)
    assert (slot["job_id"], slot["tenant"]) == (claim.job_id, None), "it may even be pruned"


def test_a_node_that_writes_no_notes_is_told_of_by_what_it_holds(connection: Conn) -> None:
    """As nodes of an older release, and those that have just begun. Of bundles no more than it has slots."""
    tenant, node = add_tenant(connection), join(connection)
    claims = [running(connection, node, tenant) for _ in range(3)]
    slots = LIVE.slots(connection)
    assert [slot["job_id"] for slot in slots] == [claim.job_id for claim in claims[:2]], "the node has two slots"
    assert {(slot["slot"], slot["resident_bytes"], slot["running"]) for slot in slots} == {(None, None, True)}


def test_only_live_nodes_are_shown_and_notes_go_with_their_node(connection: Conn) -> None:
    tenant, dead, left = add_tenant(connection), join(connection), join(connection)
    write(connection, dead, note(0, running(connection, dead, tenant)))
    write(connection, left, note(0, running(connection, left, tenant)))
    expire(connection, dead)
    assert [slot["node_id"] for slot in LIVE.slots(connection)] == [left.node_id]
    left.leave(connection)
    assert rows_of(connection, "select node_id from batchproc.node_slots") == [{"node_id": dead.node_id}]
    assert rows_of(connection, "select node_id from batchproc.node_activity") == [{"node_id": dead.node_id}]


def test_a_node_that_is_not_known_cannot_write(connection: Conn) -> None:
    node = join(connection)
    node.leave(connection)
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        write(connection, node)


def test_nodes_tell_how_fast_they_work(connection: Conn) -> None:
    node, silent = join(connection), join(connection)
    write(connection, node)
    for rate in (None, 12.5):
        told = {row["node_id"]: row for row in Inspection("batchproc").nodes(connection)}
        assert (told[node.node_id]["jobs_per_minute"], told[node.node_id]["ended"]) == (rate, 3)
        assert told[silent.node_id]["jobs_per_minute"] is None
        connection.execute(_A_MINUTE_AGO)  # before that a node of some releases told one, too


# -- how much was done


def test_done_counts_from_a_day_on(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    today = datetime.now(UTC).date()
    before = LIVE.done(connection, today - timedelta(days=1))
    assert (before.attempts, before.pages) == (0, 0)
    node.settle(connection, [ended(running(connection, node, tenant))])
    connection.execute("update batchproc.usage_daily set pages_ocr = 5, pages_blank = 2")
    connection.execute(
        "insert into batchproc.usage_daily (tenant_id, day, kind, attempts) values (%s, %s, 'work', 100)",
        [tenant, today - timedelta(days=9)],
    )
    after = LIVE.done(connection, today - timedelta(days=1))
    assert (after.attempts, after.completed, after.discarded, after.pages) == (1, 1, 0, 7)
    assert after.at > before.at


# -- nights


def start(connection: Conn, node: NodeStore, **scope: object) -> int:
    return node.runs.start(connection, node.node_id, scope)


def test_a_night_is_judged_by_runs_that_were_no_single_jobs(connection: Conn) -> None:
    node = join(connection)
    assert look_at_night(connection, "batchproc").good_age is None
    good = start(connection, node)
    node.runs.finish(connection, good, 1, {})
    single = start(connection, node, single=True)
    node.runs.finish(connection, single, 0, {})
    night = look_at_night(connection, "batchproc")
    assert (night.good_run, night.good_code, night.last_run, night.last_code) == (good, 1, good, 1)
    assert night.good_age is not None
    assert 0 <= night.good_age < 60


NO_NIGHTS: list[dict[str, object]] = [
    {"single": True},
    {"single": True, "in_process": True},
    {"in_process": True},  # as releases before wrote it
    {"tenant_ids": [1], "kinds": ["ocr"], "lanes": [1], "pilot": True},
]
PARTS: list[dict[str, object]] = [{"tenant_ids": [1]}, {"kinds": ["ocr"]}, {"lanes": [1]}]
WHOLE: dict[str, object] = {"tenant_ids": [], "kinds": [], "lanes": []}


@pytest.mark.parametrize("scope", [*NO_NIGHTS, *PARTS], ids=str)
@pytest.mark.parametrize("ends", [True, False], ids=["ended", "going"])
def test_what_was_not_for_everything_is_no_night(connection: Conn, scope: dict[str, object], ends: bool) -> None:
    node = join(connection)
    run = start(connection, node, **WHOLE | scope)
    if ends:
        node.runs.finish(connection, run, 0, {})
    night = look_at_night(connection, "batchproc")
    assert (night.good_run, night.last_run, night.going) == (None, None, 0)
    whole = start(connection, node, **WHOLE)
    assert look_at_night(connection, "batchproc").going == 1
    node.runs.finish(connection, whole, 0, {})
    assert look_at_night(connection, "batchproc").good_run == whole


@pytest.mark.parametrize(
    ("scope", "asked", "counts"),
    [
        ({}, {"kinds": ["ocr"]}, True),
        ({"kinds": ["ocr"]}, {"kinds": ["ocr"]}, True),
        ({"kinds": ["classify", "ocr"]}, {"kinds": ["ocr"]}, True),
        ({"kinds": ["classify"]}, {"kinds": ["ocr"]}, False),
        ({"kinds": ["ocr"]}, {"kinds": ["classify", "ocr"]}, False),
        ({"kinds": ["ocr"], "tenant_ids": [1]}, {"kinds": ["ocr"]}, False),
        ({"kinds": ["ocr"], "tenant_ids": [1]}, {"kinds": ["ocr"], "tenant_ids": [1]}, True),
        ({"lanes": [1]}, {"lanes": [1]}, True),
        ({"lanes": [1], "pilot": True}, {"lanes": [1]}, False),
    ],
    ids=str,
)
def test_a_night_is_one_that_was_for_all_that_is_asked_about(
    connection: Conn, scope: dict[str, object], asked: dict[str, Any], counts: bool
) -> None:
    node = join(connection)
    node.runs.finish(connection, start(connection, node, **scope), 0, {})
    assert (look_at_night(connection, "batchproc", **asked).good_run is not None) is counts


def test_what_waits_and_what_is_braked_is_of_what_is_asked_about(connection: Conn) -> None:
    acme, beta = add_tenant(connection), add_tenant(connection, "beta")
    enqueue(connection, acme)
    enqueue(connection, beta, lane=Lane.INTERACTIVE)
    connection.execute("insert into batchproc.kinds (kind, paused, paused_code) values ('ocr', true, 'poison')")
    for asked, waiting, braked in (
        ({}, 2, 1),
        ({"tenant_ids": [acme]}, 1, 1),
        ({"lanes": [Lane.INTERACTIVE]}, 1, 1),
        ({"kinds": ["work"]}, 2, 0),
        ({"kinds": ["ocr"]}, 0, 1),
    ):
        night = look_at_night(connection, "batchproc", **asked)
        assert (night.waiting, len(night.braked)) == (waiting, braked), asked


def test_a_bad_run_is_the_last_and_not_the_good_one(connection: Conn) -> None:
    node = join(connection)
    good, bad = start(connection, node), start(connection, node)
    node.runs.finish(connection, good, 0, {})
    node.runs.finish(connection, bad, 3, {})
    night = look_at_night(connection, "batchproc")
    assert (night.good_run, night.last_run, night.last_code) == (good, bad, 3)


def test_a_run_goes_on_as_long_as_its_node_lives(connection: Conn) -> None:
    node = join(connection)
    run = start(connection, node)
    night = look_at_night(connection, "batchproc")
    assert (night.going, night.last_run) == (1, None)
    expire(connection, node)
    lost = look_at_night(connection, "batchproc")
    assert (lost.going, lost.last_run, lost.last_at, lost.last_code) == (0, run, None, None)


def test_the_longest_wait_is_of_what_should_not_wait(connection: Conn) -> None:
    tenant, paused = add_tenant(connection), add_tenant(connection, "paused")
    connection.execute("update batchproc.tenants set paused = true where tenant_id = %s", [paused])
    begin = "insert into batchproc.campaigns (command) values (%s) returning campaign_id"
    ids = [enqueue(connection, tenant), enqueue(connection, paused)]
    for command in ("reprocess --all", "reprocess", "import /scans/reprocess --tenant acme"):
        ids.append(enqueue(connection, tenant, campaign_id=one(connection, begin, [command])))
    for hours, job_id in zip((1, 60, 50, 40, 2), ids, strict=True):
        connection.execute(
            "update batchproc.processing_jobs set run_at = clock_timestamp() - make_interval(hours => %s)"
            " where job_id = %s",
            [hours, job_id],
        )
    night = look_at_night(connection, "batchproc")
    assert night.waiting == 4
    assert 7200 <= night.longest_wait < 7300, "that of the import"


# -- what a job waits for


def test_who_goes_before_a_job(connection: Conn) -> None:
    mine, heavy, paused = (add_tenant(connection, slug) for slug in ("mine", "heavy", "paused"))
    connection.execute("update batchproc.tenants set weight = 3 where tenant_id = %s", [heavy])
    for tenant in (mine, heavy, paused):
        for _ in range(8):
            enqueue(connection, tenant)
    enqueue(connection, heavy, lane=Lane.INTERACTIVE)
    job_id = enqueue(connection, mine, priority=4)
    connection.execute("update batchproc.tenants set paused = true where tenant_id = %s", [paused])
    ahead = look_at_waiting(connection, "batchproc", job_id).ahead
    assert ahead is not None
    assert (ahead.own, ahead.tenants, ahead.of_others, ahead.interactive) == (0, 1, 3, 1)
    last = one(
        connection, "select max(job_id) from batchproc.processing_jobs where tenant_id = %s and priority = 5", [mine]
    )
    behind = look_at_waiting(connection, "batchproc", last).ahead
    assert behind is not None
    assert (behind.own, behind.of_others) == (8, 8), "no more than it has"


def test_nobody_counts_further_than_needed(connection: Conn) -> None:
    tenant = add_tenant(connection)
    connection.execute(
        "insert into batchproc.processing_jobs (tenant_id, kind, state, max_attempts)"
        " select %s, 'work', 'available', 5 from generate_series(1, %s)",
        [tenant, MOST_AHEAD + 5],
    )
    last = one(connection, "select max(job_id) from batchproc.processing_jobs")
    ahead = look_at_waiting(connection, "batchproc", last).ahead
    assert ahead is not None
    assert ahead.own == MOST_AHEAD


def test_the_facts_of_a_running_job_and_of_nodes(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    run = node.runs.start(connection, node.node_id, {"kinds": ["work"], "tenant_ids": [tenant], "lanes": []})
    claim = running(connection, node, tenant)
    write(connection, node, note(1, claim), run_id=run)
    found = look_at_waiting(connection, "batchproc", claim.job_id)
    assert (found.job.node_alive, found.job.slot, found.job.worker_pid) == (True, 1, 4711)
    assert found.ahead is None
    [facts] = found.nodes
    assert (facts.running, facts.slots, facts.jobs_per_minute) == (1, 2, None)
    connection.execute(_A_MINUTE_AGO)
    [facts] = look_at_waiting(connection, "batchproc", claim.job_id).nodes
    assert facts.jobs_per_minute == 12.5
    assert facts.serves(found.job)
    other = add_tenant(connection, "other")
    assert not facts.serves(look_at_waiting(connection, "batchproc", enqueue(connection, other)).job)
    node.settle(connection, [ended(claim, Completed())])
    over = look_at_waiting(connection, "batchproc", claim.job_id)
    assert over.job.state == JobState.COMPLETED
    assert over.seconds == pytest.approx(1.5), "what such an attempt took"


def test_the_facts_of_limits_and_tokens(connection: Conn) -> None:
    tenant, node = add_tenant(connection), join(connection)
    connection.execute("update batchproc.tenants set max_running = 1")
    connection.execute("update batchproc.kinds set max_running = 5, rate = 0.01, burst = 1 where kind = 'work'")
    claim_job(connection, node, enqueue(connection, tenant))
    connection.execute("update batchproc.kinds set tokens = 0, refilled_at = clock_timestamp() where kind = 'work'")
    found = look_at_waiting(connection, "batchproc", enqueue(connection, tenant))
    assert (found.job.tenant_limit, found.job.tenant_running) == (1, 1)
    assert (found.job.kind_limit, found.job.kind_running, found.job.kind_rate) == (5, 1, 0.01)
    assert found.token_seconds is not None
    assert 90 < found.token_seconds <= 100


def test_a_locked_row_is_noticed_without_a_wait(connection: Conn, opened: Callable[[], Conn]) -> None:
    job_id = enqueue(connection, add_tenant(connection))
    other = opened()
    with other.transaction():
        other.execute("select from batchproc.processing_jobs where job_id = %s for update", [job_id])
        assert look_at_waiting(connection, "batchproc", job_id).locked
    assert not look_at_waiting(connection, "batchproc", job_id).locked


def test_a_node_id_is_nobodys_business_twice(connection: Conn) -> None:
    """One that joined again under a new id writes under that, and its old notes are not shown."""
    tenant, node = add_tenant(connection), join(connection)
    claim = running(connection, node, tenant)
    write(connection, node, note(0, claim))
    expire(connection, node)
    again = join(connection, node_id=uuid4())
    write(connection, again)
    assert LIVE.slots(connection) == []


# -- what nobody takes


def unserved(connection: Conn, **asked: Any) -> dict[str, int]:
    return look_at_night(connection, "batchproc", **asked).without_handler


def with_handlers(connection: Conn, *kinds: str) -> NodeStore:
    node = join(connection)
    connection.execute("update batchproc.nodes set kinds = %s where node_id = %s", [list(kinds), node.node_id])
    return node


def ended_night(connection: Conn, *kinds: str, **scope: object) -> int:
    node = with_handlers(connection, *kinds)
    run = start(connection, node, **scope)
    node.runs.finish(connection, run, 0, {})
    node.leave(connection)
    return run


def test_a_kind_is_without_handler_once_a_night_has_passed_its_jobs_over(connection: Conn) -> None:
    tenant = add_tenant(connection)
    ended_night(connection, "ocr")
    enqueue(connection, tenant)
    assert unserved(connection) == {}, "the night is still to come"
    ended_night(connection, "ocr")
    enqueue(connection, tenant)
    assert unserved(connection) == {"work": 2}
    assert unserved(connection, kinds=["ocr"]) == {}
    ended_night(connection, "work", kinds=["work"])
    assert unserved(connection) == {}, "others take them"
    connection.execute("update batchproc.runs set finished_at = finished_at - interval '25 h'")
    ended_night(connection, "ocr")
    assert unserved(connection) == {}
    assert unserved(connection, of_late=24 * 3600.0) == {"work": 2}, "whoever had a handler has it no more"
    going = with_handlers(connection, "work")
    start(connection, going)
    assert unserved(connection, of_late=0.0) == {}, "a service has one"
    expire(connection, going)
    connection.execute("update batchproc.runs set scope = scope - 'handlers'")
    assert unserved(connection, of_late=0.0) == {}, "runs of older releases did not tell"


@pytest.mark.parametrize(
    ("served_by", "of_late"), [("the last night", 0.0), ("a service", 0.0), ("a run of its own", 3600.0)]
)
def test_however_many_runs_there_were_since_a_kind_has_its_handler(
    connection: Conn, served_by: str, of_late: float
) -> None:
    """Cron's line each minute, for a tenant of its own, makes a thousand of them between two nights."""
    tenant = add_tenant(connection)
    enqueue(connection, tenant)
    ended_night(connection, "work" if served_by == "the last night" else "ocr")
    if served_by == "a service":
        start(connection, with_handlers(connection, "work"), kinds=["work"])
    elif served_by == "a run of its own":
        ended_night(connection, "work", kinds=["work"])
    connection.execute(
        "insert into batchproc.runs (node_id, scope, finished_at, exit_code)"
        ' select gen_random_uuid(), \'{"tenant_ids": [7], "handlers": ["mail"]}\', clock_timestamp(), 0'
        " from generate_series(1, 1100)"
    )
    assert unserved(connection, of_late=of_late) == {}
    connection.execute("update batchproc.runs set scope = scope - 'kinds' || '{\"handlers\": [\"ocr\"]}'")
    assert unserved(connection, of_late=of_late) == {"work": 1}


@pytest.mark.parametrize("scope", NO_NIGHTS[:3], ids=str)
def test_a_job_alone_neither_passes_over_nor_serves(connection: Conn, scope: dict[str, object]) -> None:
    enqueue(connection, add_tenant(connection))
    ended_night(connection, "ocr", **scope)
    assert unserved(connection) == {}
    ended_night(connection, "ocr")
    ended_night(connection, "work", **scope)
    assert unserved(connection) == {"work": 1}


def test_what_a_person_keeps_back_is_told_apart_and_counted_once_in_total(connection: Conn) -> None:
    acme, beta = add_tenant(connection), add_tenant(connection, "beta")
    campaign = one(
        connection, "insert into batchproc.campaigns (command, paused) values ('x', true) returning campaign_id"
    )
    join(connection)
    connection.execute("insert into batchproc.kinds (kind) values ('ocr'), ('mail') on conflict do nothing")
    ids = [
        enqueue(connection, *which)
        for which in ((acme, "mail"), (acme, "ocr"), (beta, "ocr"), (beta, "work"), (acme, "work"))
    ]
    held = enqueue(connection, acme, campaign_id=campaign)
    connection.execute("update batchproc.processing_jobs set state = 'held' where job_id = %s", [held])
    connection.execute("update batchproc.tenants set max_running = 0 where tenant_id = %s", [beta])
    connection.execute("update batchproc.kinds set paused = true, paused_reason = 'moved' where kind = 'ocr'")
    connection.execute("update batchproc.kinds set declared_limit = 0 where kind = 'mail'")
    connection.execute("update batchproc.kinds set paused = true, paused_code = 'poison' where kind = 'braked'")
    night = look_at_night(connection, "batchproc")
    assert night.kept == (
        Kept("paused", None, "ocr", None, "moved", 2),
        Kept("limit", "beta", None, None, None, 2),
        Kept("limit", None, "mail", None, None, 1),
        Kept("paused", None, None, campaign, None, 1),
    )
    assert (night.kept_jobs, night.waiting) == (5, 1), ids
    of_acme = look_at_night(connection, "batchproc", tenant_ids=[acme])
    assert [kept.jobs for kept in of_acme.kept] == [1, 1, 1]
    connection.execute("update batchproc.kinds set max_running = 3 where kind = 'mail'")
    assert "mail" not in {kept.kind for kept in look_at_night(connection, "batchproc").kept}, (
        "a person's goes before it"
    )


def test_of_thousands_that_are_kept_back_those_with_most_jobs_are_told(connection: Conn) -> None:
    connection.execute(
        "insert into batchproc.tenants (slug, paused) select 't' || n, true from generate_series(1, 30) as n"
    )
    connection.execute(
        "insert into batchproc.processing_jobs (tenant_id, kind, state, max_attempts)"
        " select t.tenant_id, 'work', 'available', 5"
        " from batchproc.tenants t, generate_series(1, substr(t.slug, 2)::integer)"
    )
    night = look_at_night(connection, "batchproc")
    assert [kept.tenant for kept in night.kept] == [f"t{number}" for number in range(30, 30 - MOST_KEPT, -1)]
    assert (night.kept_more, night.kept_jobs) == (30 - MOST_KEPT, 465)
