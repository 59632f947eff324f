"""How often a job may fail in which way, and what a checkpoint gives back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from batchproc.engine.node import RunOptions, RunReport
from tests.engine.running import Bench
from tests.faults.command import started_run

HANDLERS = ["tests.engine.job_handlers", "tests.faults.budget_handlers"]


def run(bench: Bench, options: RunOptions | None = None, **sections: Any) -> RunReport:
    return bench.run(options, handlers=HANDLERS, **sections)


def endings(bench: Bench, job: int) -> list[tuple[Any, ...]]:
    keys = ("outcome", "error_class", "failure_code")
    return [tuple(attempt[key] for key in keys) for attempt in bench.job(job)["attempts"]]


def test_each_way_to_fail_has_its_budget_and_its_code(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    kinds = ("b_stalls", "b_slow", "b_crashes", "b_lively", "b_storage_gone")
    jobs = {kind: bench.enqueue(tenant, kind) for kind in kinds}

    report = run(bench, RunOptions(workers=3))

    ended = {kind: bench.job(job) for kind, job in jobs.items()}
    assert {kind: (job["state"], job["failure_code"]) for kind, job in ended.items()} == {
        "b_stalls": ("discarded", "stalled"),
        "b_slow": ("discarded", "timeout"),
        "b_crashes": ("discarded", "poison"),
        "b_lively": ("completed", None),
        "b_storage_gone": ("scheduled", "storage_unavailable"),
    }
    assert endings(bench, jobs["b_stalls"]) == [("failed", "stalled", "stalled")] * 2
    assert endings(bench, jobs["b_slow"]) == [("failed", "timeout", "timeout")] * 2
    assert endings(bench, jobs["b_crashes"]) == [("failed", "crashed", "poison")] * 3
    assert ended["b_storage_gone"]["attempt"] == 0
    assert report.exit_code == 3
    for attempt in ended["b_stalls"]["attempts"]:
        assert (attempt["ended_at"] - attempt["started_at"]).total_seconds() < 2.5, "its limit alone allows 60 s"


def test_a_job_that_crashes_after_each_checkpoint_still_gets_on(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    saved = bench.enqueue(tenant, "b_page_then_crash", {"file": str(tmp_path / "a"), "pages": 5}, max_attempts=3)
    unsaved = bench.enqueue(tenant, "b_page_unsaved", {"file": str(tmp_path / "b"), "pages": 5})
    hung = bench.enqueue(tenant, "b_page_then_hang", {"file": str(tmp_path / "c"), "pages": 4}, max_attempts=3)

    run(bench, RunOptions(workers=3))

    assert bench.job(saved)["state"] == "completed"
    assert endings(bench, saved) == [("failed", "crashed", "poison")] * 5 + [("completed", None, None)]
    assert (bench.job(unsaved)["state"], bench.job(unsaved)["failure_code"]) == ("discarded", "poison")
    assert len(endings(bench, unsaved)) == 3, "without a checkpoint three crashes are the end"
    assert bench.job(hung)["state"] == "completed"
    assert endings(bench, hung)[:-1] == [("failed", "timeout", "timeout")] * 4


@pytest.mark.long
def test_a_job_that_kills_the_forkserver_is_found_and_its_neighbours_are_cleared(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    guilty = bench.enqueue(tenant, "b_kills_forkserver", priority=1)
    innocent = [bench.enqueue(tenant, "b_short") for _ in range(4)]

    report = run(bench, RunOptions(workers=3), retry={"max_node_losses": 3})

    shown = bench.job(guilty)
    assert (shown["state"], shown["failure_code"], shown["attempt"]) == ("discarded", "poison", 0)
    losses = [attempt for attempt in shown["attempts"] if attempt["outcome"] == "failed"]
    assert [loss["failure_code"] for loss in losses] == ["forkserver_died", "forkserver_died", "poison"]
    assert {(loss["error_class"], loss["error_type"]) for loss in losses} == {
        ("lease_expired", "the forkserver died, and every worker with it")
    }
    assert bench.states(innocent) == {"completed": 4}
    assert_was_alone(bench, guilty, from_loss=2)
    assert report.exit_code == 1


@pytest.mark.long
def test_a_job_that_kills_its_node_is_found_and_its_neighbours_are_cleared(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    guilty = bench.enqueue(tenant, "b_kills_node", priority=1)
    innocent = [bench.enqueue(tenant, "b_short") for _ in range(4)]
    runs = 0

    while bench.job(guilty)["state"] != "discarded":
        runs += 1
        # One that starts before the lease of the dead has ended may find nothing to do.
        assert runs <= 20, "four losses are the end of it"
        with started_run(
            bench, "--workers", "3", handlers=HANDLERS, retry={"max_node_losses": 4}, dispatch={"lease": 1.0}
        ) as started:
            started.wait(60)

    assert bench.job(guilty)["failure_code"] == "poison"
    losses = [attempt for attempt in bench.job(guilty)["attempts"] if attempt["outcome"] == "failed"]
    assert [loss["error_class"] for loss in losses] == ["lease_expired"] * 4
    assert len({loss["node_id"] for loss in losses}) == 4
    assert bench.states(innocent) == {"completed": 4}
    assert_was_alone(bench, guilty, from_loss=3)


def assert_was_alone(bench: Bench, job: int, from_loss: int) -> None:
    """From that loss on, no other attempt in the node was running at any moment of the job's own."""
    together = bench.rows(
        """
        with own as (select *, row_number() over (order by started_at) as loss from batchproc.job_attempts
                     where job_id = %s and outcome = 'failed')
        select own.loss, other.job_id from own
        join batchproc.job_attempts other on other.job_id <> own.job_id and other.outcome <> 'interrupted'
                                          and other.node_id = own.node_id
                                          and other.started_at < own.ended_at and own.started_at < other.ended_at
        where own.loss >= %s
        """,
        job,
        from_loss,
    )
    assert together == []
