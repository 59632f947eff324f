from __future__ import annotations

from batchproc.ops.bench.parent import bench_parent
from batchproc.ops.bench.schema import Urls
from batchproc.settings import Settings


def test_each_side_is_measured_with_a_few_slots(database_url: str) -> None:
    told: list[str] = []

    done = bench_parent(Settings(), Urls(database_url, database_url), slots=3, seconds=0.5, runs=1, tell=told.append)

    plain = done.plain()
    [row] = plain["runs"]
    assert (plain["slots"], plain["node_cores"]) == (3, row["node_cores"])
    assert 0 < row["jobs_per_second"] <= 30 * 1.05, "three slots, ten jobs a second each"
    assert 0 < row["pools_jobs_per_second"] <= 30 * 1.05
    assert 0 < row["dispatcher_cores"] < row["node_cores"]
    assert row["idle_cores"] >= 0
    assert plain["microseconds_per_job"] > 0
    assert [line for line in told if "cores for" in line]
