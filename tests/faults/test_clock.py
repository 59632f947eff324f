"""The wall clock is set while jobs run: no attempt is used up for it, and nothing runs on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from batchproc.engine.node import RunOptions
from tests.engine.running import HANDLERS, Bench
from tests.faults.meanwhile import meanwhile
from tests.faults.worker_handlers import KINDS
from tests.waiting import wait_until

MODULES = [HANDLERS, KINDS]
HOUR = 3600.0


@pytest.mark.parametrize(
    "step", [pytest.param(HOUR, id="forward"), pytest.param(-HOUR, id="back", marks=pytest.mark.long)]
)
def test_a_clock_that_is_set_costs_no_attempt_and_lets_nothing_run_on(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    tenant = bench.tenant("acme")
    long = bench.enqueue(tenant, "w_until", {"how": "", "folder": str(tmp_path)})
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    hung = [bench.enqueue(tenant, "w_hang", {"how": "in C", "folder": str(before)})]
    real = time.time

    def act() -> None:
        try:
            wait_until(lambda: (before / "pids").exists() and (tmp_path / "pids").exists(), 30, "both have begun")
            monkeypatch.setattr(time, "time", lambda: real() + step)
            hung.append(bench.enqueue(tenant, "w_hang", {"how": "in C", "folder": str(after)}))
            wait_until(lambda: bench.states(hung) == {"discarded": 2}, 20)
        finally:
            (tmp_path / "end").touch()

    with meanwhile(act):
        bench.run(RunOptions(workers=3), handlers=MODULES)

    for job_id in hung:
        *interrupted, timeout = bench.job(job_id)["attempts"]
        assert timeout["failure_code"] == "timeout"
        assert 1.0 <= (timeout["ended_at"] - timeout["started_at"]).total_seconds() < 2.5
        assert timeout["number"] == 1, "what the clock has interrupted was given back"
        assert {attempt["outcome"] for attempt in interrupted} <= {"interrupted"}
        assert {attempt["detail"] for attempt in interrupted} <= {"clock"}
    job = bench.job(long)
    assert (job["state"], job["attempt"], job["timeouts"], job["crashes"]) == ("completed", 1, 0, 0)
    *interrupted, completed = job["attempts"]
    assert {attempt["outcome"] for attempt in interrupted} <= {"interrupted"}
    assert completed["number"] == 1
