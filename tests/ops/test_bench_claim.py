"""``bench claim`` and ``bench ready``: that they measure what they say, and leave nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from batchproc.core.job import KindSpec
from batchproc.ops.bench.claim import (
    ClaimBench,
    Sides,
    bench_claim,
    bench_claim_at_limit,
    bench_claim_under_snapshot,
)
from batchproc.ops.bench.claiming import KIND, LIMITED_KIND, Claimer, table
from batchproc.ops.bench.ready import ReadyBench, ReadyRun, bench_ready
from batchproc.ops.bench.schema import Urls, bench_schema
from batchproc.ops.stopped import Stopped
from batchproc.settings import Settings
from tests.ops.bench_command import by_command
from tests.ops.test_bench import schemas

SMALL: dict[str, Any] = {"tenants": 130, "turns": 4, "claims": 2, "runs": 2, "tell": lambda _: None}


@pytest.fixture
def urls(database_url: str) -> Urls:
    return Urls(database_url, database_url)


def test_claims_on_a_large_table_are_measured_beside_claims_on_a_small_one(urls: Urls) -> None:
    options = ("--tenants", "130", "--turns", "4", "--claims", "2", "--runs", "2", "--finished", "500")
    plain = by_command(bench_claim, urls.database, "claim", "--jobs", "1000", *options).plain()
    assert plain["ratio_of"] == ["large", "small"]
    assert plain["finished"] == 500
    assert [set(run) for run in plain["runs"]] == [{"small_ms", "large_ms", "ratio", "commit_ms"}] * 2
    assert plain["ratio"]["median"] > 0
    assert schemas(urls.database) == {"batchproc"}


def test_claims_under_an_old_snapshot_are_measured_with_floors_and_without(urls: Urls) -> None:
    plain = bench_claim_under_snapshot(Settings(), urls, jobs=2000, claimed=1500, **SMALL).plain()
    assert list(plain["ms"]) == ["before", "floors", "no_floors"]
    assert plain["ratio_of"] == ["floors", "before"]
    assert schemas(urls.database) == {"batchproc"}


def test_claims_behind_a_kind_at_its_limit_are_measured_beside_others(urls: Urls) -> None:
    plain = bench_claim_at_limit(Settings(), urls, jobs=1000, limited=260, **SMALL).plain()
    assert plain["ratio_of"] == ["at_limit", "without"]
    assert schemas(urls.database) == {"batchproc"}


def test_too_few_jobs_are_told(urls: Urls) -> None:
    with pytest.raises(Stopped, match="too few jobs"):
        bench_claim(Settings(), urls, jobs=8, finished=0, **SMALL)


def test_a_kind_at_its_limit_is_out_of_the_choice_of_what_is_measured(urls: Urls) -> None:
    """Else it would be measured how fast nothing is claimed."""
    kinds = (KindSpec(KIND), KindSpec(LIMITED_KIND, limit=1))
    with bench_schema(Settings(), urls) as schema, table(schema, *kinds) as filled:
        filled.add_tenants(10)
        filled.add_jobs(20, (LIMITED_KIND,), priority=1)
        filled.add_jobs(20)
        claimer = Claimer(filled, filled.node.ready(filled.connection), filled.node.rooms(filled.connection))
        with pytest.raises(Stopped):
            claimer.claim_often(20, 4)
        assert claimer.claimed == 21


def test_the_ratio_is_the_median_of_the_runs_ratios() -> None:
    runs = tuple(Sides({"small": small, "large": large}, 1.0) for small, large in ((1.0, 1.5), (2.0, 8.0), (4.0, 4.0)))
    plain = ClaimBench("table", {}, "small", "large", runs).plain()
    assert plain["ratio"] == {"median": 1.5, "least": 1.0, "most": 4.0}
    assert plain["ms"]["large"]["median"] == 4.0


def test_looks_for_ready_queues_are_measured_with_their_memory(urls: Urls) -> None:
    options = ("--tenants", "100", "--jobs", "10000", "--claims", "2", "--runs", "1")
    plain = by_command(bench_ready, urls.database, "ready", *options).plain()
    assert plain["queues"] == 300
    assert plain["memory_mb"] >= 0
    assert plain["claim_ratio_beside"]["median"] > 0
    assert schemas(urls.database) == {"batchproc"}


def test_the_time_of_a_queue_is_that_of_the_median_look() -> None:
    runs = tuple(ReadyRun(look, 1.0, 10.0, 2.0, 3.0) for look in (30.0, 20.0, 90.0))
    plain = ReadyBench(1000, 1, 7.0, runs).plain()
    assert plain["microseconds_per_queue"] == 30.0
    assert plain["ratio_to_look_ups"]["median"] == 3.0
    assert plain["claim_ratio_beside"]["median"] == 1.5
