"""The dashboard and the alert rules in conf/ name only metrics and labels that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from prometheus_client.metrics_core import Metric

from batchproc.core.job import Claim, JobState, KindSpec
from batchproc.core.outcome import ErrorClass, Failed
from batchproc.core.settle import settle
from batchproc.engine.pool.types import Ended, Work
from batchproc.ops.metrics.exporting import connector
from batchproc.ops.metrics.node_metrics import NodeMetrics
from batchproc.ops.metrics.queue_metrics import QueueMetrics
from batchproc.packaged import packaged_conf
from tests.engine.running import bench_on

RULES = packaged_conf() / "prometheus" / "batchproc.rules.yml"
DASHBOARD = packaged_conf() / "grafana" / "batchproc.json"
_NAME = re.compile(r"\bbatchproc_[a-z_]+")
_MATCHERS = re.compile(r"(batchproc_[a-z_]+)\{([^}]*)\}")
_BY = re.compile(r"\bby \(([^)]*)\)")


@pytest.fixture(scope="module")
def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


@pytest.fixture
def labels(database_url: str) -> Iterator[dict[str, set[str]]]:
    """Every sample's name that there can be, with its labels: of a node that met a failure, and of a filled queue."""
    bench = bench_on(database_url)
    bench.tenant("acme")
    bench.connection.execute(b"insert into batchproc.kinds (kind, paused) values ('ocr', true)")
    bench.connection.execute(
        b"insert into batchproc.runs (node_id, finished_at, exit_code) values (gen_random_uuid(), now(), 0)"
    )
    node = NodeMetrics()
    claim = Claim(1, uuid4(), 1, "ocr", 1, 5, 1, 1, 0, 0, 0)
    failed = Failed(ErrorClass.TIMEOUT, "timeout")
    node.ended(claim, Ended(0, Work(1, claim.claim_id, 1.0), failed, 1, None, 1.0, killed=True))
    node.settled(claim, settle(claim, failed, KindSpec("ocr"), max_node_losses=3, jitter=0.0), JobState.DISCARDED)
    families: list[Metric] = [*node.registry.collect(), *QueueMetrics("batchproc", connector(database_url)).collect()]
    found: dict[str, set[str]] = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    found["batchproc_jobs_partial_total"] = {"kind"}  # of a completed job
    yield found
    bench.connection.close()


def expressions(rules: list[dict[str, Any]], panels: list[dict[str, Any]]) -> list[str]:
    return [rule["expr"] for rule in rules] + [target["expr"] for panel in panels for target in panel["targets"]]


def test_every_metric_that_is_named_is_exported_and_has_the_labels(
    rules: list[dict[str, Any]], panels: list[dict[str, Any]], labels: dict[str, set[str]]
) -> None:
    asked = expressions(rules, panels)
    names = {name for expression in asked for name in _NAME.findall(expression)}
    assert names - set(labels) == set()
    for expression in asked:
        for name, matchers in _MATCHERS.findall(expression):
            assert set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", matchers)) <= labels[name], expression
        inside = set().union(*(labels[name] for name in _NAME.findall(expression)))
        for by in _BY.findall(expression):
            assert {label.strip() for label in by.split(",")} <= inside, expression
        assert expression.count("(") == expression.count(")")


def test_every_metric_is_on_the_dashboard(panels: list[dict[str, Any]], labels: dict[str, set[str]]) -> None:
    shown = {name for expression in expressions([], panels) for name in _NAME.findall(expression)}
    parts = re.compile(r"_(bucket|count|sum)$")
    assert {parts.sub("", name) for name in labels} - {parts.sub("", name) for name in shown} == set()


def test_the_documentation_names_every_metric_with_its_labels(labels: dict[str, set[str]]) -> None:
    parts = re.compile(r"_(bucket|count|sum)$")
    exported = {parts.sub("", name): found - {"le"} for name, found in labels.items()}
    page = (Path(str(resources.files("batchproc"))) / "docs" / "monitoring.md").read_text()
    told = {
        name: {label for label in row.split("|")[2].replace(" ", "").split(",") if label}
        for row in page.splitlines()
        if row.startswith("| `batchproc_")
        for name in _NAME.findall(row.split("|")[1])
    }
    assert told == exported


def test_names_follow_the_conventions(labels: dict[str, set[str]]) -> None:
    """prometheus.io/docs/practices/naming: a prefix, base units, and _total for what only grows."""
    for name in labels:
        assert re.fullmatch(r"batchproc(_[a-z]+)+", name)
        assert not re.search(r"_(ms|minutes|hours|milliseconds|percent)(_|$)", name)
        assert not {"tenant", "document", "path", "title", "job_id"} & labels[name], "each value is a time series"


def test_every_rule_says_what_happened_and_what_to_do(rules: list[dict[str, Any]]) -> None:
    assert len({rule["alert"] for rule in rules}) == len(rules) > 5
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert len(rule["annotations"]["description"]) > 20


def test_panels_have_titles_and_do_not_overlap(panels: list[dict[str, Any]]) -> None:
    taken: set[tuple[int, int]] = set()
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert panel["title"]
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
