"""``bench prune`` and ``bench promotion``: that they measure what they say. How fast it is, is not asserted."""

from __future__ import annotations

import pytest

from batchproc.database import connect
from batchproc.ops.bench import promotion
from batchproc.ops.bench.promotion import PromotionBench, PromotionRun, Ticks, bench_promotion
from batchproc.ops.bench.prune import PruneBench, PruneRun, RunFigures, bench_prune
from batchproc.ops.bench.schema import Urls
from batchproc.settings import Settings
from tests.ops.bench_command import by_command


def schemas(database_url: str) -> set[str]:
    with connect(database_url) as connection:
        rows = connection.execute("select nspname from pg_namespace where nspname like 'batchproc%'")
        return {row[0] for row in rows.fetchall()}


def test_jobs_are_promoted_beside_ticks(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "_LEAST_SECONDS", 0.1)
    told: list[str] = []
    options = ("--jobs", "2500", "--tenants", "20", "--runs", "1")
    plain = by_command(bench_promotion, database_url, "promotion", *options, tell=told.append).plain()
    (run,) = plain["runs"]
    assert (plain["jobs"], plain["tenants"], len(told)) == (2500, 20, 2)
    assert run["jobs_per_second"] > 0
    assert 0 < run["first_worst_s"] <= run["seconds"]
    assert 0 < run["tick_p50_ms"] <= run["tick_p99_ms"] <= run["tick_longest_ms"] + 0.1
    assert schemas(database_url) == {"batchproc"}


def test_a_prune_goes_on_beside_a_run(database_url: str) -> None:
    told: list[str] = []
    options = ("--finished", "3000", "--jobs", "30", "--workers", "2", "--runs", "1")
    done = by_command(bench_prune, database_url, "prune", *options, tell=told.append)
    plain = done.plain()
    (run,) = plain["runs"]
    assert run["alone_per_second"] > 0
    assert run["beside_per_second"] > 0
    assert 0 < run["pruned"] <= 3000
    assert run["pruned_per_second"] > 0
    assert run["unpaced_per_second"] > 0
    assert 0 < run["p99_gap_ms"] <= run["longest_gap_ms"] + 0.1
    assert schemas(database_url) == {"batchproc"}


def test_a_prune_that_took_all_is_held_against_one_that_had_something_to_take(database_url: str) -> None:
    urls = Urls(database_url, database_url)
    done = bench_prune(Settings(), urls, finished=200, jobs=100, workers=1, runs=1, tell=lambda _: None)
    (run,) = done.runs
    assert (run.pruned, run.pruned_throughout) == (200, False)
    assert run.unpaced_per_second > 1


def test_the_figures_are_medians() -> None:
    runs = tuple(
        PruneRun(RunFigures(1000, 0.1, 0.01), RunFigures(rate, gap, 0.01), 10 * rate, 9e4, 5, True)
        for rate, gap in ((900.0, 0.3), (500.0, 0.2), (800.0, 0.9))
    )
    plain = PruneBench(10, 2, 2, runs).plain()
    assert plain["ratio_of_run"] == {"median": 0.8, "least": 0.5, "most": 0.9}
    assert plain["longest_gap_ms"]["median"] == 300
    ticks = Ticks(1.0, 2.0, 9.0)
    promoted = PromotionBench(100, 3, (PromotionRun(10.0, 1.0, 0.1, ticks, Ticks(1.0, 3.0, 8.0), 20.0),)).plain()
    assert (promoted["jobs_per_second"]["median"], promoted["p99_ratio"]["median"]) == (10, 1.5)
    assert (promoted["ratio_to_bare_update"]["median"], promoted["longest_tick_ms"]["median"]) == (0.5, 8.0)
