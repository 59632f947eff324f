from __future__ import annotations

from batchproc.ops.bench.parent import bench_parent
from tests.ops.bench_command import by_command


def test_each_side_is_measured_with_a_few_slots(database_url: str) -> None:
    told: list[str] = []

    options = ("--slots", "3", "--seconds", "0.5", "--runs", "1")
    done = by_command(bench_parent, database_url, "parent", *options, tell=told.append)

    plain = done.plain()
    [row] = plain["runs"]
    assert (plain["slots"], plain["node_cores"]) == (3, row["node_cores"])
    assert 0 < row["jobs_per_second"] <= 30 * 1.05, "three slots, ten jobs a second each"
    assert 0 < row["pools_jobs_per_second"] <= 30 * 1.05
    assert 0 < row["dispatcher_cores"] < row["node_cores"]
    assert row["idle_cores"] >= 0
    assert plain["microseconds_per_job"] > 0
    assert [line for line in told if "cores for" in line]
