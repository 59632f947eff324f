"""How tenants and lanes share the workers of a real node."""

from __future__ import annotations

from collections import Counter
from typing import Any

from batchproc.core.job import Lane
from batchproc.engine.node import RunOptions
from tests.engine.running import Bench

BUNDLED: dict[str, Any] = {"t_brief": {"bundle": 8}}


def served(bench: Bench, run_id: int) -> Counter[int]:
    rows = bench.rows("select tenant_id from batchproc.processing_jobs where run_id = %s", run_id)
    return Counter(row[0] for row in rows)


def longest_overlap(bench: Bench, kind: str) -> float:
    """For how many seconds two workers had jobs of the kind at the same time."""
    rows = bench.rows(
        "select a.worker_pid, extract(epoch from a.started_at)::float8, extract(epoch from a.ended_at)::float8"
        " from batchproc.job_attempts a join batchproc.processing_jobs j using (job_id) where j.kind = %s",
        kind,
    )
    pairs = [(one, other) for one in rows for other in rows if one[0] < other[0]]
    return max((min(one[2], other[2]) - max(one[1], other[1]) for one, other in pairs), default=0.0)


def test_by_worker_seconds_who_has_long_jobs_gets_fewer_of_them(bench: Bench) -> None:
    long, short = bench.tenant("long"), bench.tenant("short")
    for _ in range(30):
        bench.enqueue(long, "t_brief")
        bench.enqueue(short, "t_quick")
        bench.enqueue(short, "t_quick")

    in_turn = served(bench, bench.run(RunOptions(workers=1, max_jobs=20)).run_id)
    by_time = served(
        bench, bench.run(RunOptions(workers=1, max_jobs=30), dispatch={"fairness": "worker_seconds"}).run_id
    )

    assert in_turn == {long: 10, short: 10}
    assert by_time[short] >= 24, "each of the others takes a tenth of a second"
    assert by_time[long] >= 1


def test_bundles_leave_the_reserved_slots_free(bench: Bench) -> None:
    """Any slot may take bulk jobs, but no more than one of two at a time."""
    tenant = bench.tenant("acme")
    for _ in range(30):
        bench.enqueue(tenant, "t_brief")
    bench.enqueue(tenant, "t_quick", lane=Lane.INTERACTIVE)

    report = bench.run(RunOptions(workers=2), dispatch={"reserved": 1}, kinds=BUNDLED)

    assert report.counts.completed == 31
    assert longest_overlap(bench, "t_brief") < 0.05, "one after the other ended"


def test_bundles_do_no_more_jobs_than_the_run_may(bench: Bench) -> None:
    tenants = [bench.tenant("acme"), bench.tenant("beta")]
    for tenant in tenants * 10:
        bench.enqueue(tenant, "t_brief")

    report = bench.run(RunOptions(workers=2, max_jobs=6), kinds=BUNDLED)

    assert served(bench, report.run_id) == dict.fromkeys(tenants, 3)
