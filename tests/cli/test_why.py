"""``why``: what it tells people and programs, and that what it advises helps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from batchproc.core.job import JobState
from tests.cli.test_commands import Command, batchproc
from tests.cli.test_status import bench
from tests.engine.running import Bench
from tests.queue.helpers import join

__all__ = ["batchproc", "bench"]


def test_why_tells_people_and_programs(bench: Bench, batchproc: Command) -> None:
    tenant = bench.tenant("acme")
    job_id = bench.enqueue(tenant, "t_quick")
    told = batchproc("why", str(job_id))
    assert told.out.splitlines() == [
        f"job {job_id}: t_quick of acme, bulk lane, available",
        "- no node runs",
        "  > batchproc run, or wait until cron starts one",
    ]
    assert [reason["code"] for reason in batchproc("why", str(job_id), "--json").json["reasons"]] == ["no_node"]
    missing = batchproc("why", "999999")
    assert missing.code == 2
    assert "there is no job 999999" in missing.err


def test_what_why_advises_makes_the_job_run(bench: Bench, batchproc: Command) -> None:
    """Of each reason that a command takes away: the command is there, and then the job is done."""
    batchproc("tenants", "add", "acme")
    batchproc("run")  # by which the kind is known
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    job_id = batchproc("enqueue", "t_quick", "--tenant", "acme", "--at", tomorrow, "--json").json["job_id"]
    batchproc("tenants", "set", "acme", "--paused", "--max-running", "0")
    paused = batchproc("kinds", "set", "t_quick", "--pause", "--limit", "0")
    assert paused.code == 0, paused.err
    reasons = batchproc("why", str(job_id), "--json").json["reasons"]
    assert [reason["code"] for reason in reasons] == [
        "not_due", "tenant_paused", "kind_paused", "tenant_limit", "kind_limit", "no_node",
    ]  # fmt: skip
    assert all(len(line) <= 80 for line in batchproc("why", str(job_id)).out.splitlines())
    remedies = {reason["code"]: reason["remedy"] for reason in reasons}
    for code in ("tenant_paused", "kind_paused"):
        assert batchproc(*remedies[code].split()[1:]).code == 0
    batchproc("tenants", "set", "acme", "--unlimited")
    batchproc(*remedies["kind_limit"].replace("N", "none").split()[1:])
    assert remedies["not_due"].endswith(f"batchproc run --once {job_id}")
    assert batchproc("run", "--once", str(job_id)).code == 0
    assert bench.job(job_id)["state"] == JobState.COMPLETED
    assert batchproc("why", str(job_id), "--json").json["reasons"][0]["code"] == "completed"


def test_a_job_whose_kind_has_no_handler_here_is_not_passed_over_in_silence(
    bench: Bench, batchproc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = bench.enqueue(bench.tenant("acme"), "letter_date")
    [reason] = batchproc("why", str(job_id), "--json").json["reasons"]
    assert (reason["code"], reason["blocks"]) == ("no_handler", True)
    assert all(len(line) <= 80 for line in batchproc("why", str(job_id)).out.splitlines())
    monkeypatch.setattr("batchproc.cli.run.run.sys.stdout.isatty", lambda: True, raising=False)
    ran = batchproc("run")
    assert (ran.code, "1 letter_date job left: no handler for it" in ran.out) == (0, True), ran.out + ran.err


def test_why_knows_what_a_kind_needs(bench: Bench, batchproc: Command) -> None:
    """Of a node without the language of an OCR job, and of a kind that nobody knows."""
    tenant, node = bench.tenant("acme"), join(bench.connection)
    bench.connection.execute("update batchproc.nodes set kinds = '{ocr}'")
    job_id = bench.enqueue(tenant, "ocr", {}, languages=("jpn",))
    bench.connection.execute("update batchproc.processing_jobs set languages = '{jpn}' where job_id = %s", [job_id])
    [reason] = batchproc("why", str(job_id), "--json").json["reasons"]
    assert reason["code"] == "language_missing"
    assert "jpn" in reason["text"]
    other = bench.enqueue(tenant, "t_quick")
    assert batchproc("why", str(other), "--json").json["reasons"][0]["code"] == "kind_unknown"
    node.leave(bench.connection)
