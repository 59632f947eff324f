"""The brake: an archive that is not mounted, or a broken release, stops its kind and discards next to nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from batchproc.cli import main
from batchproc.engine.node import RunOptions, RunReport
from batchproc.ops import summary
from batchproc.queue.kind_store import KindStore
from tests.engine.running import Bench
from tests.faults.command import started_run
from tests.faults.meanwhile import meanwhile
from tests.ocr import drawn
from tests.queue.helpers import retry
from tests.waiting import wait_until

HANDLERS = ["tests.engine.job_handlers", "tests.faults.budget_handlers"]
WORKERS = 2
KINDS = KindStore("batchproc")


def run(bench: Bench, brake: int | str = 20, options: RunOptions | None = None, **sections: Any) -> RunReport:
    sections.setdefault("handlers", HANDLERS)
    return bench.run(options or RunOptions(workers=WORKERS), dispatch={"brake": brake}, **sections)


def attempts(bench: Bench, kind: str) -> int:
    [[count]] = bench.rows(
        "select count(*) from batchproc.job_attempts join batchproc.processing_jobs j using (job_id) where j.kind = %s",
        kind,
    )
    return int(count)


def paused(bench: Bench, kind: str) -> tuple[bool, str | None, str | None]:
    [row] = KINDS.kinds(bench.connection, kind)
    assert (row["paused_at"] is not None) == row["paused"]
    return row["paused"], row["paused_code"], row["paused_reason"]


def test_a_broken_release_stops_its_kind_and_nothing_else(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    mended = tmp_path / "mended"
    broken = [bench.enqueue(tenant, "b_raises", {"file": str(mended)}) for _ in range(40)]
    good = [bench.enqueue(tenant, "t_quick") for _ in range(40)]

    report = run(bench)

    assert report.exit_code == 3
    assert bench.states(good) == {"completed": 40}, "the run goes on with other kinds"
    assert "discarded" not in bench.states(broken)
    assert attempts(bench, "b_raises") <= 20 + 2 * WORKERS
    assert paused(bench, "b_raises") == (True, "internal_error", "20 jobs in a row ended with internal_error")
    assert report.left == 40
    [told] = [line for line in summary.lines(report, [], ()) if "b_raises" in line]
    assert told.startswith("kind b_raises is paused by the brake: 20 jobs in a row ended with internal_error: ")
    assert "batchproc kinds set b_raises --resume" in told
    assert summary.plain(report)["braked"] == {"b_raises": "internal_error"}

    again = run(bench)
    assert (again.counts.claimed, again.exit_code) == (0, 3), "every run tells of it until somebody has looked"
    mended.touch()
    KINDS.set(bench.connection, "b_raises", paused=False)
    to_come = "select 1 from batchproc.processing_jobs where run_at > clock_timestamp()"
    wait_until(lambda: not bench.rows(to_come), 5, "the backoff of those that failed is over")
    assert (run(bench).exit_code, bench.states(broken)) == (0, {"completed": 40})
    assert paused(bench, "b_raises") == (False, None, None)


@pytest.mark.long
def test_an_archive_that_is_not_mounted_discards_twenty_jobs_and_not_a_million(bench: Bench, tmp_path: Path) -> None:
    """What an unmounted file system leaves is its empty mount point, which is where the root was."""
    archive, elsewhere = tmp_path / "archive", tmp_path / "elsewhere"
    archive.mkdir()
    elsewhere.mkdir()
    for number in range(40):
        letter = drawn.pdf(drawn.PdfPage(drawn.shown(f"Letter {number} of an archive that is mounted")))
        (archive / f"{number}.pdf").write_bytes(letter)
    bench.tenant("acme")
    assert main.run(["--database", bench.url, "import", str(archive), "--tenant", "acme"]) == 0
    jobs = [job for (job,) in bench.rows("select job_id from batchproc.processing_jobs where kind = 'ocr'")]
    assert len(jobs) == 40
    for file in list(archive.iterdir()):
        file.rename(elsewhere / file.name)

    report = run(bench)

    lost = bench.states(jobs)["discarded"]
    assert 20 <= lost <= 20 + 2 * WORKERS
    assert (report.exit_code, report.counts.codes) == (3, {"source_missing": lost})
    assert paused(bench, "ocr") == (True, "source_missing", "20 jobs in a row ended with source_missing")
    assert any("check that the archive is mounted" in line for line in summary.lines(report, [], ()))
    for file in list(elsewhere.iterdir()):
        file.rename(archive / file.name)
    KINDS.set(bench.connection, "ocr", paused=False)
    retry(bench.connection, [job for job in jobs if bench.job(job)["state"] == "discarded"])
    assert (run(bench).exit_code, bench.states(jobs)) == (0, {"completed": 40})
    assert bench.rows("select distinct status from batchproc.documents") == [("completed",)]


@pytest.mark.long
def test_workers_that_die_on_everything_stop_the_kind(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "b_dies") for _ in range(12)]

    with started_run(bench, "--workers", "2", handlers=HANDLERS, dispatch={"brake": 5}) as command:
        assert command.wait(60) == 3
        told, _ = command.output()

    assert "kind b_dies is paused by the brake: 5 jobs in a row ended with poison: " in told
    assert "batchproc kinds set b_dies --resume" in told
    assert paused(bench, "b_dies") == (True, "poison", "5 jobs in a row ended with poison")
    assert "discarded" not in bench.states(jobs)


@pytest.mark.long
def test_a_kind_that_the_workers_lost_in_mid_run_stops(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release is deployed while a run goes on, and has no such kind any more; a new worker imports it."""
    module = tmp_path / "deployed_handlers.py"
    module.write_text(
        "import os, pathlib\n"
        "from batchproc import handler\n"
        "@handler('b_deployed', base=0.01, cap=0.01)\n"
        "def deployed(ctx):\n"
        "    pathlib.Path(__file__).write_text('')\n"
        "    os.abort()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "b_deployed") for _ in range(40)]

    report = run(bench, options=RunOptions(workers=1), handlers=["deployed_handlers"])

    assert report.exit_code == 3
    assert paused(bench, "b_deployed") == (True, "unknown_kind", "20 jobs in a row ended with unknown_kind")
    assert 20 <= bench.states(jobs)["discarded"] <= 22


@pytest.mark.long
def test_bad_documents_and_one_bad_job_stop_nothing(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    scans = [bench.enqueue(tenant, "b_bad_scan") for _ in range(30)]
    timeouts = [bench.enqueue(tenant, "b_slow", max_attempts=1) for _ in range(6)]
    one = bench.enqueue(tenant, "b_raises_at_once", max_attempts=8)

    report = run(bench, brake=5)

    assert (report.exit_code, report.braked) == (1, ())
    assert report.counts.codes == {"unreadable_file": 30, "timeout": 6, "internal_error": 1}
    assert bench.states([*scans, *timeouts, one]) == {"discarded": 37}
    assert not bench.rows("select kind from batchproc.kinds where paused")


@pytest.mark.long
def test_it_can_be_off_and_a_job_run_once_stops_nothing(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "b_missing", {"file": "/nowhere"}) for _ in range(25)]

    once = run(bench, brake=1, options=RunOptions(workers=1, once=True))
    by_id = run(bench, brake=1, options=RunOptions(workers=1, job_id=jobs[-1]))
    off = run(bench, brake="off")

    assert [report.exit_code for report in (once, by_id, off)] == [1, 1, 1]
    assert bench.states(jobs) == {"discarded": 25}
    assert paused(bench, "b_missing") == (False, None, None)


@pytest.mark.long
def test_what_runs_when_a_kind_is_braked_may_end_and_a_person_may_take_the_pause_over(
    bench: Bench, tmp_path: Path
) -> None:
    """Also by another node: it is only the pause in the database that stops a kind."""
    tenant = bench.tenant("acme")
    gate = tmp_path / "gate"
    running = [bench.enqueue(tenant, "b_waits", {"file": str(gate)}) for _ in range(WORKERS)]
    waiting = [bench.enqueue(tenant, "b_waits", {"file": str(gate)}, priority=9) for _ in range(3)]

    def brake_it() -> None:
        wait_until(lambda: set(bench.states(running)) == {"running"}, 30)
        bench.rows(
            "update batchproc.kinds set paused = true, paused_code = 'poison', paused_reason = 'seen elsewhere',"
            " paused_at = now() where kind = 'b_waits' returning kind"
        )
        gate.touch()

    with meanwhile(brake_it):
        report = run(bench)

    assert bench.states(running) == {"completed": WORKERS}
    assert bench.states(waiting) == {"available": 3}
    assert (report.exit_code, [braked.kind for braked in report.braked]) == (3, ["b_waits"])
    KINDS.set(bench.connection, "b_waits", paused=True, reason="until Monday")
    assert paused(bench, "b_waits") == (True, None, "until Monday")
    assert run(bench).exit_code == 0, "a person knows of it"
