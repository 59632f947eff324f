"""Limits, rates and resources in whole runs: exact over nodes, through kills, and no run spins or ends too early."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from batchproc.core.fairness import Queue, Turn
from batchproc.core.job import KindSpec
from batchproc.core.outcome import Interrupted
from batchproc.engine.run_report import RunOptions
from batchproc.queue.kind_store import KindStore
from batchproc.queue.node_store import NodeStore
from tests.engine.running import Bench
from tests.engine.stepped import SPECS, Step
from tests.faults.command import Run, started_run
from tests.queue.helpers import Conn, claim, ended, expire, join
from tests.waiting import wait_until

KINDS = KindStore("batchproc")
LIMIT = 3

# How many attempts of each kind, and of each tenant, ran at the same moment at most. An attempt begins when its claim
# is written, under the lock of the limits, and ends when its settle is; both by the database's clock.
_MOST_AT_ONCE = """
    with marks as (
        select a.tenant_id, j.kind, a.started_at as moment, 1 as change
        from batchproc.job_attempts a join batchproc.processing_jobs j using (job_id)
        union all
        select a.tenant_id, j.kind, a.ended_at, -1
        from batchproc.job_attempts a join batchproc.processing_jobs j using (job_id)
    ), running as (
        select sum(change) over (partition by kind order by moment, change) as of_kind,
               sum(change) over (partition by tenant_id order by moment, change) as of_tenant
        from marks
    )
    select max(of_kind)::int, max(of_tenant)::int from running
"""


def most_at_once(bench: Bench) -> tuple[int, int]:
    [row] = bench.rows(_MOST_AT_ONCE)
    return row[0], row[1]


@pytest.mark.long
@pytest.mark.parametrize("of", ["tenant", "kind", "both"])
def test_four_nodes_never_run_more_than_a_limit_through_kills_and_rescues(bench: Bench, of: str) -> None:
    """Real nodes, two of which are killed with all they run; what they held is taken back and run within the limit."""
    tenants = [bench.tenant(slug) for slug in ("one", "two")]
    bench.connection.execute("insert into batchproc.kinds (kind) values ('t_brief') on conflict do nothing")
    if of in ("tenant", "both"):
        for slug in ("one", "two"):
            bench.jobs.set_tenant(bench.connection, slug, max_running=LIMIT)
    if of in ("kind", "both"):
        KINDS.set(bench.connection, "t_brief", max_running=LIMIT)
    jobs = [bench.enqueue(tenant, "t_brief", max_attempts=9) for _ in range(60) for tenant in tenants]
    with ExitStack() as stack:

        def start() -> Run:
            return stack.enter_context(started_run(bench, "--workers", "2", "--forever", dispatch={"lease": 2.0}))

        nodes = [start() for _ in range(4)]
        for killed in nodes[:2]:
            before = done(bench)
            wait_until(lambda before=before: done(bench) >= before + 10, 60, "some more jobs to be done")  # type: ignore[misc]
            killed.kill_both()
            nodes.append(start())
        wait_until(lambda: done(bench) == len(jobs), 100, "all jobs to be done")
    of_kind, of_tenant = most_at_once(bench)
    assert (of_kind if of != "tenant" else of_tenant) == LIMIT, "reached, and never passed"
    if of == "both":
        assert of_tenant <= LIMIT
    assert bench.rows("select count(*) from batchproc.job_attempts where error_class = 'lease_expired'")[0][0] > 0


def done(bench: Bench) -> int:
    count: int = bench.rows("select count(*) from batchproc.processing_jobs where state = 'completed'")[0][0]
    return count


def test_a_dead_nodes_jobs_count_until_they_are_rescued(bench: Bench) -> None:
    tenant, dead, alive = bench.tenant("acme"), join(bench.connection), join(bench.connection)
    KINDS.set(bench.connection, "work", max_running=LIMIT)
    for _ in range(9):
        bench.enqueue(tenant, "work")
    turn = Turn(Queue(1, tenant, "work"), 9)
    held = claim(bench.connection, dead, turn, limited=True)
    assert len(held) == LIMIT
    expire(bench.connection, dead)
    assert claim(bench.connection, alive, turn, limited=True) == []
    alive.settle(bench.connection, [ended(claimed, Interrupted("")) for claimed in held[:2]], rescue=True)
    assert len(claim(bench.connection, alive, turn, limited=True)) == 2


# -- rates


class Counted(NodeStore):
    """A store that counts its ticks."""

    ticks = 0

    def tick(self, connection: Conn, *arguments: Any, **options: Any) -> Any:
        self.ticks += 1
        return super().tick(connection, *arguments, **options)


def test_a_run_waits_for_tokens_and_does_not_spin_meanwhile(
    bench: Bench, stepped: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SPECS, "t_quick", KindSpec("t_quick", rate=5.0, burst=2))
    tenants = [bench.tenant(f"t{number}") for number in range(20)]
    jobs = [bench.enqueue(tenant, "t_quick") for tenant in tenants[:8]]
    others = [bench.enqueue(tenant, "t_patient") for tenant in tenants]
    node = stepped(slots=4, store_class=Counted)
    begun = time.monotonic()

    node.dispatcher.run()

    assert bench.states(jobs + others) == {"completed": 28}
    assert time.monotonic() - begun > (8 - 2) / 5 - 0.1
    ticks = node.store.ticks  # type: ignore[attr-defined]
    assert ticks < 60, "a tick for each token, and a few for what is found with each look"


def test_a_run_does_not_wait_for_a_token_of_tomorrow(
    bench: Bench, stepped: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SPECS, "t_quick", KindSpec("t_quick", rate=1 / 86400, burst=1))
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_quick") for _ in range(3)]
    node = stepped(slots=4)

    node.dispatcher.run()

    assert bench.states(jobs) == {"completed": 1, "available": 2}


def test_a_rate_of_the_settings_is_kept_by_a_run(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_quick") for _ in range(6)]
    report = bench.run(RunOptions(workers=2), kinds={"t_quick": {"rate": "300/m", "burst": 2}})
    assert report.exit_code == 0
    assert bench.states(jobs) == {"completed": 6}
    [(seconds,)] = bench.rows(
        "select extract(epoch from max(started_at) - min(started_at))::float8 from batchproc.job_attempts"
    )
    assert seconds > (6 - 2) / 5 - 0.1


def test_a_kind_at_its_limit_elsewhere_takes_no_turns_of_others(bench: Bench, stepped: Step) -> None:
    """Fifty queues of it are tried once, and then not again."""
    bench.connection.execute("insert into batchproc.kinds (kind, max_running) values ('t_quick', 0)")
    tenants = [bench.tenant(f"t{number}") for number in range(50)]
    for tenant in tenants:
        bench.enqueue(tenant, "t_quick", priority=1)
    others = [bench.enqueue(tenant, "t_patient") for tenant in tenants for _ in range(2)]
    node = stepped(slots=10, store_class=Counted)

    node.dispatcher.run()

    states = Counter(bench.states(others))
    assert states == {"completed": 100}
    assert node.store.ticks < 60  # type: ignore[attr-defined]


# -- resources


@pytest.mark.parametrize("killed", ["worker", pytest.param("node", marks=pytest.mark.long)])
def test_a_killed_holder_of_a_resource_frees_its_slot_within_a_second(
    bench: Bench, tmp_path: Path, killed: str
) -> None:
    tenant, end, held = bench.tenant("acme"), tmp_path / "end", tmp_path / "held"
    args = {"file": str(end), "started": str(held)}
    for _ in range(2):
        bench.enqueue(tenant, "t_slot", args)

    def holders() -> list[int]:
        return [int(line) for line in held.read_text().split()] if held.exists() else []

    with ExitStack() as stack:

        def start(workers: int) -> Run:
            return stack.enter_context(
                started_run(
                    bench, "--workers", str(workers), "--forever", resources={"ai": 1}, dispatch={"lease": 30.0}
                )
            )

        if killed == "worker":
            node = start(workers=2)
        else:
            node = start(workers=1)
            wait_until(lambda: holders(), 30, "the first holder")
            start(workers=1)
        [first] = wait_until(lambda: holders(), 30, "the first holder")
        wait_until(lambda: waiting_for_it(bench) == 2, 30, "the other job to wait for the slot")
        begun = time.monotonic()
        if killed == "worker":
            os.kill(first, signal.SIGKILL)
        else:
            node.kill_both()
        wait_until(lambda: len(holders()) > 1, 10, "the second holder")
        assert time.monotonic() - begun < 1.0
        assert holders()[1] != first
        end.touch()
        bench.connection.execute("update batchproc.tenants set paused = true")


def waiting_for_it(bench: Bench) -> int:
    count: int = bench.rows("select count(*) from batchproc.processing_jobs where state = 'running'")[0][0]
    return count
