"""``status``, once and as a check for monitoring systems."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from batchproc.queue.node_store import NodeStore
from batchproc.queue.slot_store import SlotNote
from tests.cli.test_commands import Command, batchproc
from tests.engine.running import Bench, bench_on
from tests.queue.helpers import claim_job, enqueue, join

__all__ = ["batchproc"]

UNREACHABLE = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    made = bench_on(database_url)
    yield made
    made.connection.close()


def working(bench: Bench, *, done: int = 17, total: int = 40) -> tuple[NodeStore, int]:
    """A node that is at a job of acme, in slot 1, as the database has it; and the job."""
    tenant, node = bench.tenant("acme"), join(bench.connection)
    job_id = enqueue(bench.connection, tenant)
    claim = claim_job(bench.connection, node, job_id)
    node.write_progress(bench.connection, [(job_id, claim.claim_id, done, total)])
    note = SlotNote(1, job_id, claim.claim_id, 4711, 65.0, 64 << 20)
    node.slots.write(bench.connection, node.node_id, [note], run_id=1, ended=3, jobs_per_minute=12.0)
    return node, job_id


# -- once


def test_status_shows_the_slots_and_the_rate(bench: Bench, batchproc: Command) -> None:
    node, job_id = working(bench)
    told = batchproc("status", "--json").json
    assert list(told) == ["queues", "slots", "nodes", "totals", "jobs_per_minute"]
    [slot] = told["slots"]
    assert (slot["node_id"], slot["slot"], slot["job_id"]) == (str(node.node_id), 1, job_id)
    assert (slot["progress"], slot["resident_bytes"]) == ({"done": 17, "total": 40}, 64 << 20)
    of_nodes = [node["jobs_per_minute"] for node in told["nodes"]]
    assert (told["jobs_per_minute"], of_nodes) == (None, [None]), "a node that has just begun has seen no minute"
    shown = batchproc("status").out
    assert re.search(r"^3 jobs ended in the \d+(\.\d)? m?s since the first node began$", shown, re.MULTILINE)
    assert re.search(r"\b(6[5-9]|[78]\d) s\b", shown), "it has been at it for 65 s when that was written"
    bench.connection.execute("update batchproc.nodes set started_at = started_at - interval '1 min'")
    told = batchproc("status", "--json").json
    assert [told["jobs_per_minute"], *(node["jobs_per_minute"] for node in told["nodes"])] == [12.0, 12.0]
    shown = batchproc("status").out
    for known in ("17 of 40", "64 MiB", "12 jobs a minute, of the last minute"):
        assert known in shown


def test_watch_needs_a_terminal_and_nothing_else(batchproc: Command) -> None:
    piped = batchproc("status", "--watch")
    assert piped.code == 2
    assert "batchproc status --json" in piped.err
    assert batchproc("status", "--watch", "--json").code == 2
    assert batchproc("status", "--watch", "--check").code == 2


# -- as a check


def test_a_check_notices_the_night_that_never_ran(bench: Bench, batchproc: Command) -> None:
    never = batchproc("status", "--check")
    assert never.code == 2
    assert never.out.startswith("CRITICAL - no run has ever ended well")
    assert batchproc("run").code == 0
    assert batchproc("status", "--check", "--max-age", "26h").code == 0
    bench.connection.execute("update batchproc.runs set finished_at = finished_at - interval '27 h'")
    late = batchproc("status", "--check", "--max-age", "26h")
    assert late.code == 2
    assert "no run has ended well for 27 h" in late.out
    assert batchproc("status", "--check", "--max-age", "2d").code == 0


def test_a_night_with_failures_is_a_warning_and_one_job_alone_is_no_night(bench: Bench, batchproc: Command) -> None:
    bench.enqueue(bench.tenant("acme"), "t_declared")
    assert batchproc("run").code == 1
    warned = batchproc("status", "--check")
    assert warned.code == 1
    assert warned.out.startswith("WARNING - run ")
    bench.connection.execute("update batchproc.runs set finished_at = finished_at - interval '27 h'")
    assert batchproc("run", "--once").code == 0
    assert batchproc("status", "--check").code == 2


def test_a_manual_run_silences_no_alarm(bench: Bench, batchproc: Command) -> None:
    bench.enqueue(bench.tenant("acme"), "t_quick")
    for by_hand in (("--once", "--in-process"), ("--kind", "t_quick", "--lane", "bulk")):
        assert batchproc("run", *by_hand).code == 0, by_hand
        assert batchproc("status", "--check").code == 2, by_hand
    assert batchproc("status", "--check", "--lane", "bulk", "--kind", "t_quick").code == 0
    assert batchproc("status", "--check", "--lane", "interactive", "--kind", "t_quick").code == 2
    assert batchproc("status", "--check", "--tenant", "acme").code == 2
    unknown = batchproc("status", "--check", "--tenant", "nobody")
    assert (unknown.code, unknown.out[:10]) == (3, "UNKNOWN - ")
    assert batchproc("status", "--lane", "bulk").code == 2


def test_jobs_that_wait_behind_a_silent_cron_are_heard_of(bench: Bench, batchproc: Command) -> None:
    acme = bench.tenant("acme")
    bench.enqueue(acme, "nobody_has_it")
    assert batchproc("run").code == 0
    unserved = batchproc("status", "--check")
    assert unserved.code == 1
    assert unserved.out.startswith("WARNING - no run of late had a handler for what waits: 1 nobody_has_it job: ")
    assert batchproc("status", "--check", "--json").json["without_handler"] == {"nobody_has_it": 1}

    bench.connection.execute("update batchproc.processing_jobs set kind = 't_quick'")
    batchproc("kinds", "set", "t_quick", "--pause")
    batchproc("kinds", "set", "t_echo", "--limit", "0")
    bench.enqueue(acme, "t_echo")
    assert batchproc("run").code == 0
    kept = batchproc("status", "--check")
    assert kept.code == 0
    assert "2 jobs wait for somebody: kind t_echo has a limit of 0 (1), kind t_quick is paused (1) | " in kept.out


def test_a_check_has_json_too(batchproc: Command) -> None:
    checked = batchproc("status", "--check", "--json")
    assert checked.code == 2
    assert checked.json["status"] == "critical"
    assert list(checked.json) == [
        "status", "code", "text", "last_success_run", "last_success_at", "success_age_seconds", "last_run",
        "last_exit_code", "going", "waiting", "longest_wait_seconds", "braked", "without_handler", "kept", "kept_by",
        "kept_by_more", "max_age_seconds",
    ]  # fmt: skip


def test_what_a_check_cannot_find_out_is_unknown(batchproc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = batchproc("status", "--check", "--max-age", "soon")
    assert (wrong.code, wrong.err) == (3, "")
    assert wrong.out.startswith("UNKNOWN - Invalid value for '--max-age'")
    assert batchproc("status", "--max-age", "soon").code == 2
    for arguments in (["--max-age", "soon"], ["--kind", "nope"], ["--tenant", "nobody"], ["--no-such-option"]):
        told = batchproc("status", "--json", "--check", *arguments)
        assert (told.code, told.err, told.out.count("\n")) == (3, "", 1)
        assert (told.json["status"], told.json["code"]) == ("unknown", 3), arguments
        assert arguments[-1] in told.json["text"]
    monkeypatch.setenv("BATCHPROC_DATABASE_URL", UNREACHABLE)
    away = batchproc("status", "--check")
    assert (away.code, away.err) == (3, "")
    assert away.out.startswith("UNKNOWN - cannot connect to the database")
    assert away.out.count("\n") == 1
