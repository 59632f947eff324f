"""The connection is lost during a commit: nobody can know at first whether it was applied, and it must not matter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from batchproc.api import Queue
from tests.faults.faulty_server import HANDLERS, FaultyBench, through
from tests.faults.proxy import Cut, Proxy, Statements
from tests.waiting import wait_until

pytest_plugins = ["tests.faults.faulty_fixtures"]

both = pytest.mark.parametrize("cut", list(Cut), ids=["lost", "applied"])


def has(*words: str) -> Callable[[Statements], bool]:
    """Whether a commit has a statement with each of these words."""
    return lambda statements: all(any(word in statement for statement in statements) for word in words)


SETTLES, CLAIMS, ENQUEUES = "as e(", "picked as materialized", "with added as ("


@both
@pytest.mark.parametrize(
    "words",
    [
        pytest.param((SETTLES, CLAIMS), id="both"),
        pytest.param((CLAIMS,), id="claim", marks=pytest.mark.long),
        pytest.param((SETTLES,), id="settle", marks=pytest.mark.long),
    ],
)
def test_a_tick_whose_commit_was_lost(
    faulty_bench: FaultyBench, proxy: Proxy, cut: Cut, words: tuple[str, ...]
) -> None:
    tenant = faulty_bench.tenant("acme")
    jobs = [faulty_bench.enqueue(tenant, kind) for _ in range(10) for kind in ("d_quick", "d_brief")]
    faulty_bench.url = through(proxy, faulty_bench)
    trap = proxy.set_trap(cut, has(*words), times=2)

    report = faulty_bench.run(handlers=[HANDLERS], dispatch={"poll_interval": 0.2})

    assert trap.sprung.is_set()
    assert (report.exit_code, report.left) == (0, 0)
    assert faulty_bench.done(jobs)
    assert faulty_bench.value("select count(*) from batchproc.processing_jobs where kind = 'd_follow_up'") == 10
    # Claims whose answer was lost are given back, which costs no attempt.
    assert faulty_bench.all_endings() <= {("completed", None), ("interrupted", None)}
    assert faulty_bench.value("select max(attempt) from batchproc.processing_jobs") == 1
    completed = faulty_bench.value("select count(*) from batchproc.job_attempts where outcome = 'completed'")
    assert report.counts.completed == completed == 30


@pytest.mark.long
@both
@pytest.mark.parametrize(
    "word",
    ["insert into", 'update "batchproc".nodes', "delete from", 'batchproc".runs'],
    ids=["join", "renewal", "leave", "run"],
)
def test_what_a_node_says_of_itself_may_be_lost(faulty_bench: FaultyBench, proxy: Proxy, cut: Cut, word: str) -> None:
    tenant = faulty_bench.tenant("acme")
    jobs = [faulty_bench.enqueue(tenant, "d_brief") for _ in range(10)]
    faulty_bench.url = through(proxy, faulty_bench)
    of_nodes = "runs" if "runs" in word else "nodes"
    trap = proxy.set_trap(cut, has(f"{word}", of_nodes))

    report = faulty_bench.run(handlers=[HANDLERS], dispatch={"poll_interval": 0.2, "lease": 3.0})

    assert trap.sprung.is_set()
    assert (report.exit_code, report.left) == (0, 0)
    assert faulty_bench.done(jobs)
    assert faulty_bench.rows("select exit_code from batchproc.runs where finished_at is not null") == [(0,)]
    assert faulty_bench.rows("select from batchproc.nodes") == []


@pytest.mark.long
@both
def test_a_node_joins_again_although_its_joining_was_lost(faulty_bench: FaultyBench, proxy: Proxy, cut: Cut) -> None:
    tenant = faulty_bench.tenant("acme")

    def lose_lease() -> None:
        wait_until(lambda: faulty_bench.value("select count(*) from batchproc.nodes") == 1, 10, "it has joined")
        trap = proxy.set_trap(cut, has('insert into "batchproc".nodes'))
        faulty_bench.rows("update batchproc.nodes set lease_until = 'epoch' returning node_id")
        assert trap.sprung.wait(20)
        jobs = [faulty_bench.enqueue(tenant, "d_quick") for _ in range(3)]
        wait_until(lambda: faulty_bench.done(jobs), 20, "it has joined and claims")

    faulty_bench.run_during(lose_lease, url=through(proxy, faulty_bench), dispatch={"poll_interval": 0.2, "lease": 3.0})

    assert faulty_bench.all_completed_once(), faulty_bench.outcomes


@pytest.mark.long
@both
def test_a_handlers_commit_that_was_lost(faulty_bench: FaultyBench, proxy: Proxy, cut: Cut, tmp_path: Path) -> None:
    tenant = faulty_bench.tenant("acme")
    job = faulty_bench.enqueue(tenant, "d_pages", {"folder": str(tmp_path), "pages": 4, "stop_at": 0})
    faulty_bench.url = through(proxy, faulty_bench)
    trap = proxy.set_trap(cut, has("insert into written"), times=2)

    report = faulty_bench.run(handlers=[HANDLERS], dispatch={"poll_interval": 0.2})

    assert trap.sprung.is_set()
    assert report.exit_code == 0
    pages = faulty_bench.rows("select page from written where job_id = %s order by page", job)
    assert [page for (page,) in pages] == [1, 2, 3, 4]
    assert faulty_bench.endings(job) == [("failed", "transient")] * 2 + [("completed", None)]


@both
def test_an_enqueue_that_was_lost_may_be_repeated(faulty_bench: FaultyBench, proxy: Proxy, cut: Cut) -> None:
    faulty_bench.tenant("acme")
    url = through(proxy, faulty_bench)
    trap = proxy.set_trap(cut, has(ENQUEUES))
    queue = Queue(url)

    with pytest.raises(psycopg.OperationalError):
        queue.enqueue("d_quick", tenant="acme", unique_key="only")
    assert trap.sprung.is_set()
    again = queue.enqueue("d_quick", tenant="acme", unique_key="only")

    assert again.duplicate == (cut is Cut.AFTER)
    assert faulty_bench.value("select count(*) from batchproc.processing_jobs") == 1


@pytest.mark.long
@both
def test_an_import_whose_commit_was_lost_may_be_repeated(
    faulty_bench: FaultyBench, proxy: Proxy, cut: Cut, tmp_path: Path
) -> None:
    faulty_bench.tenant("acme")
    archive = tmp_path / "archive"
    archive.mkdir()
    for number in range(3):
        (archive / f"{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes([number]))
    command = [sys.executable, "-m", "batchproc", "--database", through(proxy, faulty_bench)]
    command += ["import", str(archive), "--tenant", "acme"]
    trap = proxy.set_trap(cut, has(ENQUEUES))

    first = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert trap.sprung.is_set()
    assert first.returncode == 3
    assert len(first.stderr.splitlines()) == 1, first.stderr
    assert second.returncode == 0, second.stderr
    assert faulty_bench.value("select count(*) from batchproc.documents") == 3
    counted = "select count(*), count(distinct document_id) from batchproc.processing_jobs where kind = 'ocr'"
    assert faulty_bench.rows(counted) == [(3, 3)]
