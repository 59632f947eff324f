"""Jobs that hang, each kind of it: ended in time, and nobody else notices."""

from __future__ import annotations

import os
import signal
import statistics
import time
from pathlib import Path

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import Lane
from batchproc.database import connect
from batchproc.engine.node import RunOptions
from batchproc.engine.ready import Scope
from batchproc.handlers.context import APPLICATION
from tests.engine.running import HANDLERS, Bench, alive, only
from tests.faults.meanwhile import again_and_again, meanwhile
from tests.faults.worker_handlers import HANGS, KINDS, SLEEPING
from tests.waiting import wait_until

MODULES = [HANDLERS, KINDS]
IN_TIME = 2.5
"""Seconds from its start to the settle of a job whose limit is 1 s."""

LEASE = 3.0
FREE_SLOTS = 2


def test_a_job_that_hangs_in_any_way_ends_in_time_and_nobody_notices(tmp_path: Path, bench: Bench) -> None:
    tenant, other = bench.tenant("acme"), bench.tenant("other")
    where = {"folder": str(tmp_path)}
    hung = [bench.enqueue(tenant, "w_hang", {"how": how, **where}, lane=Lane.INTERACTIVE) for how in HANGS]
    quick = [bench.enqueue(other, "t_quick") for _ in range(20)]
    leases: list[float] = []

    def look(connection: Connection[TupleRow]) -> None:
        if _waiting(connection, hung):
            quick.append(bench.enqueue(other, "t_quick"))
        leases.extend(left for (left,) in connection.execute(_LEASE_LEFT).fetchall())

    with connect(bench.url) as eye, again_and_again(lambda: look(eye)):
        report = bench.run(RunOptions(workers=len(hung) + FREE_SLOTS), handlers=MODULES, dispatch={"lease": LEASE})

    for job_id, how in zip(hung, HANGS, strict=True):
        job = bench.job(job_id)
        [attempt] = job["attempts"]
        assert (job["state"], job["failure_code"], attempt["error_class"]) == ("discarded", "timeout", "timeout"), how
        assert 1.0 <= (attempt["ended_at"] - attempt["started_at"]).total_seconds() < IN_TIME, how
    assert report.counts.codes == {"timeout": len(hung)}
    assert len(quick) > 30, "they kept coming while the others hung"
    assert bench.states(quick) == {"completed": len(quick)}
    assert max(_seconds(bench, quick)) < 1.0, "from claim to settle"
    assert min(leases) > LEASE / 3, "renewed three times as often as needed"
    assert [pid for pid in _pids(tmp_path, "pids") if alive(pid)] == []


def test_the_backend_and_the_lock_of_a_hung_job_are_gone_when_it_is_settled(tmp_path: Path, bench: Bench) -> None:
    """Seen from outside, by the test's own clock and connection."""
    tenant = bench.tenant("acme")
    ways = ["in a transaction", "in a query"]
    hung = [bench.enqueue(tenant, "w_hang", {"how": how, "folder": str(tmp_path)}) for how in ways]
    seen: list[float] = []

    def watch() -> None:
        with connect(bench.url) as eye:
            wait_until(lambda: len(_pids(tmp_path, "backends")) == 2, 30, "both hang in the database")
            begun = time.monotonic()
            backends = _pids(tmp_path, "backends")
            assert _living(eye, backends) == 2
            wait_until(lambda: not _waiting(eye, hung), 10)
            seen.append(time.monotonic() - begun)
            assert _living(eye, backends) == 0
            eye.execute(b"select from batchproc.processing_jobs where job_id = any(%s) for update nowait", [hung])

    with meanwhile(watch):
        bench.run(RunOptions(workers=2), handlers=MODULES)

    assert seen[0] < IN_TIME
    assert bench.states(hung) == {"discarded": 2}


@pytest.mark.long
def test_four_that_hang_at_once_end_as_fast_as_one(bench: Bench) -> None:
    """Medians of three rounds; a kill that waited for another would take another second."""
    tenant = bench.tenant("acme")
    one: list[float] = []
    four: list[float] = []
    for _ in range(3):
        for count, taken in ((1, one), (4, four)):
            jobs = [bench.enqueue(tenant, "w_hang", {"how": "in C"}) for _ in range(count)]
            bench.run(RunOptions(workers=count), handlers=MODULES)
            taken.append(max(_seconds(bench, jobs)))
    assert statistics.median(four) < statistics.median(one) + 0.5


@pytest.mark.long
@pytest.mark.timeout(300)
def test_sleeping_hangs_take_nothing_from_the_other_slots(bench: Bench) -> None:
    """The rate of two slots beside hanging jobs, over that of two slots with nothing beside them, in turns."""
    hanging, others = bench.tenant("hanging"), bench.tenant("others")
    # Stopped with its node, each of them waits for the next one.
    hung = [bench.enqueue(hanging, "w_hang_long", {"how": how}, lane=Lane.INTERACTIVE) for how in SLEEPING]
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(3):
        alone.append(_rate(bench, others, []))
        beside.append(_rate(bench, others, hung))
    assert statistics.median(beside) >= 0.8 * statistics.median(alone), (beside, alone)


_LEASE_LEFT = b"select extract(epoch from lease_until - clock_timestamp())::float from batchproc.nodes"
_MEASURED = 800


def _rate(bench: Bench, tenant: int, hung: list[int]) -> float:
    """Quick jobs a second on two slots; the hung jobs hold slots of their own all the while."""
    bench.jobs.set_tenant(bench.connection, "others", paused=True)
    jobs = [bench.enqueue(tenant, "t_quick") for _ in range(_MEASURED)]

    def measure() -> None:
        try:
            wait_until(lambda: bench.rows("select from batchproc.nodes"), 30)
            wait_until(lambda: not hung or bench.states(hung) == {"running": len(hung)}, 30)
            bench.jobs.set_tenant(bench.connection, "others", paused=False)
            with connect(bench.url) as eye:
                wait_until(lambda: not _waiting(eye, jobs), 60)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    scope = Scope() if hung else only(tenant)
    with meanwhile(measure):
        bench.run(
            RunOptions(workers=len(hung) + FREE_SLOTS, forever=True, scope=scope),
            handlers=MODULES,
            pool={"shutdown_grace": 0.1},
        )
    statement = """select count(*) / extract(epoch from max(ended_at) - min(started_at))::float
                   from batchproc.job_attempts where job_id = any(%s)"""
    [[rate]] = bench.rows(statement, jobs)
    return float(rate)


def _waiting(connection: Connection[TupleRow], jobs: list[int]) -> bool:
    """Whether any of them has not ended."""
    statement = b"select from batchproc.processing_jobs where job_id = any(%s) and finished_at is null limit 1"
    return connection.execute(statement, [jobs]).fetchone() is not None


def _living(connection: Connection[TupleRow], backends: list[int]) -> int:
    statement = b"select count(*) from pg_stat_activity where pid = any(%s) and application_name = %s"
    [[count]] = connection.execute(statement, [backends, APPLICATION]).fetchall()
    return int(count)


def _pids(folder: Path, name: str) -> list[int]:
    file = folder / name
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def _seconds(bench: Bench, jobs: list[int]) -> list[float]:
    """How long each attempt of the jobs took, from claim to settle, by the database's clock."""
    statement = """select extract(epoch from ended_at - started_at)::float from batchproc.job_attempts
                   where job_id = any(%s)"""
    return [seconds for (seconds,) in bench.rows(statement, jobs)]
