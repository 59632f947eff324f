"""Compares what the screens, pages and files of batchproc say with what the tables say."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from batchproc.ops.summary import SHOWN_GROUPS
from tests.engine.running import Bench
from tests.night.desk import Desk
from tests.night.summary_text import Summary, read_summary
from tests.night.tables import RunFacts, states, summed

_ROUNDED = 0.001
_CLOCKS = 0.5
"""Seconds between the node's look at its clock and the database's at its own, on a busy machine."""

_PAGES = "batchproc_pages_total"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def assert_summary_agrees(text: str, facts: RunFacts, left: Counter[str], accepted: Collection[str]) -> Summary:
    """The text of a run that its window has cut off, of which somebody has to look at something.

    Args:
        left: the jobs that waited when it had ended, by kind.
        accepted: codes that nobody wants to hear of.
    """
    said = read_summary(text)
    told = Counter({key: jobs for key, jobs in facts.discarded.items() if key[1] not in accepted})
    assert said.groups.total() + said.partial.total() > 0, text
    assert said.groups <= told, (said.groups, told)
    assert said.partial <= facts.partial, (said.partial, facts.partial)
    assert all(told[key] == jobs for key, jobs in said.groups.items())
    assert all(facts.partial[key] == documents for key, documents in said.partial.items())
    groups = len(told) + len(facts.partial)
    found = len(said.groups) + len(said.partial)
    assert min(3, groups) <= found <= SHOWN_GROUPS, text  # as many as there is room for on one screen
    assert said.more == groups - found
    assert said.codes == facts.codes
    assert (said.left, said.all_left) == (left, left.total())
    assert said.nights in facts.nights_for(left), (said.nights, facts.nights_for(left))
    assert (said.pages, said.failed_pages) == (facts.pages, facts.failed_pages)
    assert said.ended == sum(facts.counts[name] for name in ("completed", "discarded", "cancelled"))
    assert said.busy == pytest.approx(facts.slot_use(said.workers), abs=0.015)  # told in whole per cent
    shown = {name: jobs for name, jobs in facts.counts.items() if jobs or name in ("claimed", "completed")}
    assert said.counts == shown
    assert (said.run_id, said.exit_code) == (facts.run_id, facts.exit_code)
    return said


def assert_json_agrees(found: Mapping[str, Any], facts: RunFacts, left: Counter[str], slots: int) -> None:
    """Of ``run --json``."""
    assert {name: found[name] for name in facts.counts} == facts.counts
    assert found["codes"] == dict(facts.codes)
    assert (found["run_id"], found["exit_code"], found["slots"]) == (facts.run_id, facts.exit_code, slots)
    assert (found["left"], found["left_by_kind"]) == (left.total(), dict(left))
    assert (found["pages"], found["failed_pages"]) == (facts.pages, facts.failed_pages)
    assert found["worker_seconds"] == pytest.approx(facts.worker_seconds, abs=_ROUNDED)
    assert found["seconds"] == pytest.approx(facts.seconds, abs=_CLOCKS)
    assert found["slot_use"] == pytest.approx(facts.slot_use(slots), abs=0.02)
    assert (found["storages"], found["braked"], found["stopped"]) == ({}, {}, False)


def assert_report_agrees(desk: Desk, facts: RunFacts, page: Path) -> None:
    """The report of a run as JSON and as a page."""
    found = desk.does("report", str(facts.run_id), "--json").json
    _assert_report_json(found, facts)
    drawn = desk.does("report", str(facts.run_id), "--html", str(page))
    assert (drawn.out, drawn.err) == (f"run {facts.run_id}: {page}\n", "")
    shown = page.read_text("utf-8")
    assert f"<h1>Run {facts.run_id}</h1>" in shown
    assert f"ended with exit code {facts.exit_code}." in shown
    figures = _figures(facts) | {"left": f"{found['subject']['left']:,}"}
    on_page = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", shown))
    assert {what: on_page.get(what) for what in figures} == figures
    rows = {cells[0]: cells[1:5] for cells in _rows(shown) if len(cells) == 7}
    for kind, of in facts.attempts.items():
        pages = f"{facts.pages:,}" if kind == "ocr" and facts.pages else "–"
        discarded = facts.discarded_kinds[kind]
        assert rows[kind] == [f"{of.jobs:,}", f"{of.outcomes['completed']:,}", f"{discarded:,}", pages]
    titles = {html.unescape(re.sub("<[^>]*>", "", title)) for title in re.findall(r"<h3>(.*?)</h3>", shown)}
    assert titles == {f"{slug}: {code}, {_many(jobs, 'job')}" for (slug, code), jobs in facts.discarded.items()} | {
        f"{group['tenant']}: {group['failure_code']}, {_many(group['jobs'], 'partial document')},"
        f" {_many(group['failed_pages'], 'page')} failed"
        for group in found["failures"]
        if group["partial"]
    }


def assert_report_text_agrees(desk: Desk, facts: RunFacts) -> None:
    """The figures at the head of the report of a run."""
    text = desk.does("report", str(facts.run_id)).out
    for what, figure in _figures(facts).items():
        assert re.search(rf"^{what} +{figure}$", text, re.MULTILINE), (what, figure, text)


def assert_usage_agrees(desk: Desk, bench: Bench) -> None:
    """All days together, by tenant and kind."""
    rows = desk.does("usage", "--by", "tenant", "--by", "kind", "--limit", "1000", "--json").json["usage"]
    attempts = bench.rows(
        "select t.slug, j.kind, count(*), count(*) filter (where a.outcome = 'completed'), sum(a.seconds)::float8"
        " from batchproc.job_attempts a join batchproc.processing_jobs j using (job_id, tenant_id)"
        " join batchproc.tenants t using (tenant_id) group by 1, 2"
    )
    discarded = summed(
        ((slug, kind), jobs)
        for slug, kind, jobs in bench.rows(
            "select t.slug, j.kind, count(*) from batchproc.processing_jobs j join batchproc.tenants t"
            " using (tenant_id) where j.state = 'discarded' group by 1, 2"
        )
    )
    assert {(row["tenant"], row["kind"]): (row["attempts"], row["completed"], row["discarded"]) for row in rows} == {
        (slug, kind): (number, completed, discarded[slug, kind]) for slug, kind, number, completed, _ in attempts
    }
    seconds = {(slug, kind): pytest.approx(spent, abs=_ROUNDED) for slug, kind, _, _, spent in attempts}
    assert {(row["tenant"], row["kind"]): row["worker_seconds"] for row in rows} == seconds
    pages = {
        (slug, state): count
        for slug, state, count in bench.rows(
            "select t.slug, p.state, count(*) from batchproc.ocr_pages p join batchproc.tenants t using (tenant_id)"
            " group by 1, 2"
        )
    }
    assert {
        (row["tenant"], state): row[f"pages_{state}"]
        for row in rows
        for state in ("text", "ocr", "blank", "failed")
        if row[f"pages_{state}"]
    } == pages
    days = bench.rows("select sum(attempts), sum(completed), sum(discarded) from batchproc.usage_daily")
    assert days == [tuple(sum(row[name] for row in rows) for name in ("attempts", "completed", "discarded"))]


def assert_textfile_agrees(path: Path, bench: Bench, runs: Iterable[RunFacts]) -> None:
    """Counters go on from run to run, so that they are those of all runs together."""
    samples = _samples(path)
    all_runs = list(runs)
    attempts = summed(
        ((kind, outcome), number)
        for facts in all_runs
        for kind, of in facts.attempts.items()
        for outcome, number in of.outcomes.items()
    )
    assert _labelled(samples, "batchproc_attempts_total", "kind", "outcome") == attempts
    ended = Counter(
        {
            (kind, state): jobs
            for kind, state, jobs in bench.rows(
                "select kind, state, count(*) from batchproc.processing_jobs"
                " where finished_at is not null group by 1, 2"
            )
        }
    )
    assert _labelled(samples, "batchproc_jobs_total", "kind", "outcome") == ended
    for name, statement in _BY_CODE.items():
        table = Counter({(kind, code): number for kind, code, number in bench.rows(statement)})
        assert _labelled(samples, name, "kind", "code") == table, name
    partial = sum(facts.partial.total() for facts in all_runs)
    assert samples["batchproc_jobs_partial_total", (("kind", "ocr"),)] == partial
    [(stalled,)] = bench.rows("select count(*) from batchproc.job_attempts where error_class = 'stalled'")
    assert samples["batchproc_worker_deaths_total", (("cause", "stalled"),)] == stalled > 0
    kinds = bench.rows(
        "select kind, count(*), sum(seconds)::float8 from batchproc.job_attempts"
        " join batchproc.processing_jobs using (job_id, tenant_id) group by 1"
    )
    for kind, number, seconds in kinds:
        name, labels = "batchproc_attempt_duration_seconds", (("kind", kind),)
        assert samples[f"{name}_count", labels] == number
        assert samples[f"{name}_sum", labels] == pytest.approx(seconds, abs=_ROUNDED * number)
    assert _of_pages(samples) == dict(bench.rows("select state, count(*)::float8 from batchproc.ocr_pages group by 1"))
    spent = sum(facts.worker_seconds for facts in all_runs)
    assert samples["batchproc_slot_seconds_total", ()] >= spent
    assert samples["batchproc_database_up", ()] == 1
    assert not any(jobs for (name, _), jobs in samples.items() if name == "batchproc_queue_jobs")
    [last] = bench.rows(
        "select exit_code, extract(epoch from finished_at)::float8 from batchproc.runs order by run_id desc limit 1"
    )
    whole = (("scope", "all"),)
    assert samples["batchproc_last_run_exit_code", whole] == last[0]
    assert samples["batchproc_last_run_timestamp_seconds", whole] == pytest.approx(last[1], abs=_ROUNDED)
    assert samples["batchproc_last_success_timestamp_seconds", whole] == pytest.approx(last[1], abs=_ROUNDED)


def assert_log_agrees(log: str, bench: Bench) -> None:
    """One line for each attempt, whose it was."""
    lines = re.findall(r" info +(\w+)\b.* \[job_id=(\d+) tenant=(\S+) kind=(\w+) attempt=\d+\]$", log, re.MULTILINE)
    attempts = bench.rows(
        "select a.outcome, a.job_id::text, t.slug, j.kind from batchproc.job_attempts a"
        " join batchproc.processing_jobs j using (job_id, tenant_id) join batchproc.tenants t using (tenant_id)"
    )
    assert Counter(lines) == Counter(attempts)


def assert_status_agrees(desk: Desk, bench: Bench) -> None:
    """The jobs by state."""
    [first, *_] = desk.does("status").out.splitlines()
    found = {state: int(number.replace(",", "")) for state, number in re.findall(r"\b([a-z]+) ([\d,]+)", first)}
    assert {state: jobs for state, jobs in found.items() if jobs} == states(bench)


def assert_check_agrees(desk: Desk, bench: Bench, *, code: int) -> None:
    """What a monitoring system is told of the last run."""
    verdict = desk.does("status", "--check", "--json", code=code).json
    [(run_id, exit_code)] = bench.rows("select run_id, exit_code from batchproc.runs order by run_id desc limit 1")
    [(waiting,)] = bench.rows("select count(*) from batchproc.processing_jobs where state = 'available'")
    found = (verdict["last_run"], verdict["last_exit_code"], verdict["code"], verdict["waiting"])
    assert found == (run_id, exit_code, code, waiting)


_BY_CODE = {
    "batchproc_jobs_discarded_total": (
        "select kind, failure_code, count(*) from batchproc.processing_jobs where state = 'discarded' group by 1, 2"
    ),
    "batchproc_attempt_failures_total": (
        "select j.kind, a.failure_code, count(*) from batchproc.job_attempts a"
        " join batchproc.processing_jobs j using (job_id, tenant_id) where a.outcome = 'failed' group by 1, 2"
    ),
}


def _assert_report_json(found: Mapping[str, Any], facts: RunFacts) -> None:
    subject = found["subject"]
    assert (subject["id"], subject["exit_code"], subject["goes_on"]) == (facts.run_id, facts.exit_code, False)
    assert (subject["counts"], subject["pruned"]) == (facts.counts, 0)
    assert {kind["kind"]: (kind["jobs"], kind["attempts"]) for kind in found["kinds"]} == {
        kind: (of.jobs, of.outcomes.total()) for kind, of in facts.attempts.items()
    }
    assert {kind["kind"]: (kind["completed"], kind["discarded"]) for kind in found["kinds"]} == {
        kind: (of.outcomes["completed"], facts.discarded_kinds[kind]) for kind, of in facts.attempts.items()
    }
    seconds = {kind: pytest.approx(of.seconds) for kind, of in facts.attempts.items()}
    assert {kind["kind"]: kind["seconds"] for kind in found["kinds"]} == seconds
    assert (found["pages"], found["failed_pages"]) == (facts.pages, facts.failed_pages)
    assert found["worker_seconds"] == pytest.approx(facts.worker_seconds)
    assert (subject["seconds"], found["slot_use"]) == pytest.approx((facts.seconds, facts.slot_use(subject["slots"])))
    for parts in (found["tenants"], found["stretches"]):
        assert sum(part["pages"] for part in parts) == facts.pages
        assert sum(part["discarded"] for part in parts) == facts.discarded.total()
    completed = facts.counts["completed"]
    assert sum(sum(stretch["completed"].values()) for stretch in found["stretches"]) == completed
    assert sum(tenant["completed"] for tenant in found["tenants"]) == completed
    groups = {(group["tenant"], group["failure_code"], group["partial"]): group["jobs"] for group in found["failures"]}
    assert groups == {(*key, False): jobs for key, jobs in facts.discarded.items()} | {
        (*key, True): documents for key, documents in facts.partial.items()
    }
    assert found["failure_groups"] == len(groups)
    retried = {(row["kind"], row["failure_code"]): row["attempts"] for row in found["retried"]}
    assert retried == dict(facts.retried)


def _figures(facts: RunFacts) -> dict[str, str]:
    """At the head of the report."""
    figures = {
        "jobs completed": facts.counts["completed"],
        "given up on": facts.counts["discarded"],
        "documents partial": facts.counts["partial"],
        "pages": facts.pages,
        "pages failed": facts.failed_pages,
    }
    always = ("jobs completed", "given up on")
    return {what: f"{number:,}" for what, number in figures.items() if number or what in always}


def _rows(page: str) -> list[list[str]]:
    """The cells of every row of every table, but for headings; those of kinds have seven."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
    return [[html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in rows]


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _samples(path: Path) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(path.read_text("utf-8"))
        for sample in family.samples
    }


def _labelled(samples: Samples, name: str, *labels: str) -> Counter[tuple[str, ...]]:
    """The counters of that name that have counted something, by these labels."""
    return Counter(
        {
            tuple(dict(found)[label] for label in labels): int(value)
            for (of, found), value in samples.items()
            if of == name and value
        }
    )


def _of_pages(samples: Samples) -> dict[str, float]:
    found = {dict(labels)["state"]: value for (name, labels), value in samples.items() if name == _PAGES}
    return {state: value for state, value in found.items() if value}
