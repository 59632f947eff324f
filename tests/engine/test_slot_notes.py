"""What the slots of a run are at, as anybody reads it from the database meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from batchproc.engine.counts import Counts
from batchproc.engine.pool.progress import Progress
from batchproc.engine.pool.types import Running, Work
from batchproc.engine.progress_notes import ProgressNotes
from batchproc.queue.inspection_live import LiveInspection
from tests.cli import watched_handlers
from tests.engine.running import Bench
from tests.faults.command import started_run
from tests.queue.helpers import Conn, claim_job, enqueue, join
from tests.waiting import wait_until

LIVE = LiveInspection("batchproc")


def test_a_run_tells_what_its_slots_are_at(bench: Bench, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "w_pages", {"gate": str(gate)}) for _ in range(3)]
    with started_run(bench, "--workers", "2", handlers=[watched_handlers.MODULE]) as run:
        workers = run.worker_pids(2)

        def told() -> list[dict[str, Any]] | None:
            slots = LIVE.slots(bench.connection)
            full = len(slots) == 2 and all(slot["progress"] and slot["resident_bytes"] for slot in slots)
            return slots if full else None

        slots = wait_until(told, 60, "both slots are told of")
        assert {slot["job_id"] for slot in slots} == set(jobs[:2])
        assert [slot["slot"] for slot in slots] == [0, 1]
        assert {slot["worker_pid"] for slot in slots} == set(workers)
        for slot in slots:
            assert slot["progress"] == {"done": 17, "total": 40}
            assert slot["resident_bytes"] > 10 << 20
            assert 0 < slot["seconds"] < 60
        gate.touch()
        assert run.wait(60) == 0
    assert bench.rows("select slot from batchproc.node_slots") == [], "they went with the node"


class _Pool:
    """A pool with one running job, for what is written of it."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def running(self) -> list[Running]:
        return [self._running]


def test_the_rate_is_that_of_the_last_minute(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    connection: Conn = bench.connection
    node, tenant = join(connection), bench.tenant("acme")
    claim = claim_job(connection, node, enqueue(connection, tenant))
    now = [1000.0]
    monkeypatch.setattr("batchproc.engine.progress_notes.time.monotonic", lambda: now[0])
    counts = Counts()
    running = Running(0, Work(claim.job_id, claim.claim_id, 60.0), 4711, 990.0, Progress(claim.claim_id), 1 << 20)
    notes = ProgressNotes(node, _Pool(running), counts, 1)  # type: ignore[arg-type] # what it asks of a pool

    def told() -> dict[str, float | None]:
        [[rate, ended]] = bench.rows("select jobs_per_minute, ended from batchproc.node_activity")
        return {"rate": rate, "ended": ended}

    notes.write_if_due(connection)
    assert bench.rows("select 1 from batchproc.node_activity") == [], "not at once"
    for second in range(2, 202, 2):
        now[0] += 2.0
        counts.completed += 1
        notes.write_if_due(connection)
        assert (told()["rate"] is None) == (second < 60), "of a minute that was not seen whole nothing is told"
    assert told() == pytest.approx({"rate": 30.0, "ended": 100})
    for _ in range(31):
        now[0] += 2.0
        notes.write_if_due(connection)
    assert told() == {"rate": 0.0, "ended": 100}, "of what has stopped nothing is left after a minute"


def test_a_note_that_cannot_be_written_costs_nothing_else(bench: Bench) -> None:
    node, tenant = join(bench.connection), bench.tenant("acme")
    claim = claim_job(bench.connection, node, enqueue(bench.connection, tenant))
    node.leave(bench.connection)
    running = Running(0, Work(claim.job_id, claim.claim_id, 60.0), 4711, 990.0, Progress(claim.claim_id))
    notes = ProgressNotes(node, _Pool(running), Counts(), 1)  # type: ignore[arg-type]
    notes._next = 0.0
    notes.write_if_due(bench.connection)
    assert bench.rows("select 1") == [(1,)], "the connection is as good as before"
