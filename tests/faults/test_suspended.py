"""A node that sleeps longer than its lease, as in a suspended machine, while another node takes its jobs.

When it wakes it writes nothing for them, ends those workers, joins again under a new id and goes on.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchproc.engine.pool import processes
from batchproc.engine.pool.processes import ProcessId
from tests.engine.running import Bench
from tests.faults.command import living
from tests.faults.scenes import HANDLERS, LEASE, Job, Scene, await_no_node, scene
from tests.faults.stop_point_handlers import TABLE
from tests.faults.stop_points import POINTS
from tests.waiting import wait_until

_NODES_OF = "select node_id from batchproc.nodes where pid = %s and lease_until > clock_timestamp()"
_LEASE_LEFT = """
    select extract(epoch from lease_until - clock_timestamp())::float8 from batchproc.nodes where pid = %s
"""


@contextlib.contextmanager
def _suspended(scene: Scene, who: frozenset[ProcessId]) -> Iterator[None]:
    """Within, these processes stand still."""
    for process in who:
        processes.send(process, signal.SIGSTOP)
    try:
        yield
    finally:
        # The node last, so that all it has to deal with is awake by then.
        for process in sorted(who, key=lambda process: process.pid, reverse=True):
            processes.send(process, signal.SIGCONT)


def _node(one: Scene) -> frozenset[ProcessId]:
    found = processes.identify(one.run.node_pid)
    assert found is not None
    return frozenset({found})


def _node_ids(one: Scene) -> list[object]:
    return [row[0] for row in one.bench.rows(_NODES_OF, one.run.node_pid)]


def _lease_left(one: Scene) -> float:
    [[seconds]] = one.bench.rows(_LEASE_LEFT, one.run.node_pid)
    return float(seconds)


def _taken_over(one: Scene, *jobs: Job) -> None:
    """Another node runs and completes what the suspended one has lost."""
    await_no_node(one.bench)
    report = one.bench.run(handlers=[HANDLERS], dispatch={"lease": LEASE})
    assert report.exit_code == 0
    for job in jobs:
        assert job.history()[-1] == "completed"


def _goes_on_under_a_new_id(one: Scene, before: list[object]) -> None:
    after = wait_until(lambda: _node_ids(one), 10.0, "it joins again")
    assert len(after) == len(before) == 1
    assert after != before
    fresh = one.job("t_writer")
    wait_until(lambda: fresh.history() == ["completed"], 10.0, "it goes on claiming")
    assert fresh.nodes() == after


@pytest.mark.parametrize(
    "all_of_it",
    [
        pytest.param(False, id="the node alone"),
        pytest.param(True, id="the node and all below it", marks=pytest.mark.long),
    ],
)
def test_suspended_for_longer_than_its_lease_it_writes_nothing_for_the_jobs_of_others(
    bench: Bench, tmp_path: Path, all_of_it: bool
) -> None:
    bench.connection.execute(TABLE)
    with scene(bench, tmp_path, "acme", "running", "--forever") as one:
        writer, family = one.job("t_writer", wait=True), one.family()
        relatives = one.await_family(family)
        wait_until(writer.executions, 10.0, "the writer runs")
        before = _node_ids(one)
        old = {found for pid in relatives if (found := processes.identify(pid))}
        everything = one.run.everything()

        with _suspended(one, everything if all_of_it else _node(one)):
            _taken_over(one, writer, family)
            # Its first execution now writes, too, while nobody has told it to end.
            writer.go_on()
            if not all_of_it:
                wait_until((writer.folder / "lost").exists, 10.0, "the writer hears that its claim is lost")

        _goes_on_under_a_new_id(one, before)
        wait_until(lambda: not living(old), 10.0, f"what still ran was ended: {living(old)}")
        for job in (writer, family):
            assert job.history() == ["lease_expired", "completed"]
            assert job.nodes()[:1] == before
            assert job.counters() == {"state": "completed", "attempt": 1, "node_losses": 1}
        assert len(bench.rows("select from written where job_id = %s", writer.job_id)) == 1
        assert one.run.stop() == 0


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_suspended_at_each_point_of_a_job(bench: Bench, tmp_path: Path, point: str) -> None:
    bench.connection.execute(TABLE)
    with scene(bench, tmp_path, "acme", point, "--forever") as one:
        family = one.family()
        one.await_family(family)
        before = _node_ids(one)
        chosen = one.choose()
        one.await_stop(chosen)

        with _suspended(one, _node(one)):
            _taken_over(one, chosen, family)
            one.go_on()

        _goes_on_under_a_new_id(one, before)
        assert family.history() == ["lease_expired", "completed"]
        if point in ("committing", "settled"):
            assert chosen.history() == ["completed"]
            assert chosen.counters() == {"state": "completed", "attempt": 1}
        else:
            assert chosen.history() == ["lease_expired", "completed"]
            assert chosen.counters() == {"state": "completed", "attempt": 1, "node_losses": 1}
        # A claim that was lost before the worker had it is not run.
        assert len(chosen.executions()) == {"submitted": 2, "arrived": 2, "settling": 2}.get(point, 1)
        assert one.run.stop() == 0


@pytest.mark.long
@pytest.mark.parametrize("all_of_it", [False, True], ids=["the node alone", "the node and all below it"])
def test_suspended_for_less_than_its_lease_nothing_happens(bench: Bench, tmp_path: Path, all_of_it: bool) -> None:
    bench.connection.execute(TABLE)
    with scene(bench, tmp_path, "acme", "running", "--forever", dispatch={"lease": 6.0}) as one:
        writer = one.job("t_writer", wait=True)
        wait_until(writer.executions, 10.0, "the writer runs")
        before = _node_ids(one)

        with _suspended(one, one.run.everything() if all_of_it else _node(one)):
            wait_until(lambda: _lease_left(one) < 3.0, 10.0, "half of its lease is over")

        writer.go_on()
        wait_until(lambda: writer.history() == ["completed"], 10.0, "it ends as if nothing had been")
        assert _node_ids(one) == before == writer.nodes()
        assert writer.counters() == {"state": "completed", "attempt": 1}
        assert len(writer.executions()) == 1
        assert one.run.stop() == 0
