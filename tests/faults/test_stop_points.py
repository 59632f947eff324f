"""A node that is killed or stopped at each step of a job's life, while another job has children of its own.

Three runs at a time, one for each way to be killed. Their jobs are finished by another run.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from batchproc.database import connect
from tests.engine.running import Bench
from tests.faults.command import Run, assert_gone
from tests.faults.scenes import HANDLERS, LEASE, Job, Scene, await_no_node, scene
from tests.waiting import wait_until

KILLS: dict[str, Callable[[Run], None]] = {"node": Run.kill_node, "guardian": Run.kill_guardian, "both": Run.kill_both}

LOSING = ("claimed", "submitted", "running", "arrived", "settling")
"""The points at which a kill leaves the claim open."""

KEEPING = ("committing", "settled")
EXECUTIONS = {"claimed": {1}, "submitted": {1, 2}, "committing": {1}, "settled": {1}}

_WAITING_NODES = """
    select from pg_stat_activity
    where datname = current_database() and application_name like 'batchproc node%%' and wait_event_type = 'Lock'
"""


@contextlib.contextmanager
def _stopped(
    bench: Bench, folder: Path, points: Sequence[str], **settings: object
) -> Iterator[list[tuple[Scene, Job, Job]]]:
    """A scene for each of the points, each at its point: with the chosen job and the family."""
    with contextlib.ExitStack() as stack:
        scenes = [
            stack.enter_context(scene(bench, folder, f"t{number}-{point}", point, **settings))
            for number, point in enumerate(points)
        ]
        families = [one.family() for one in scenes]
        for one, family in zip(scenes, families, strict=True):
            one.await_family(family)
        chosen = [one.choose() for one in scenes]
        for one, job in zip(scenes, chosen, strict=True):
            one.await_stop(job)
        yield list(zip(scenes, chosen, families, strict=True))


def _finish(bench: Bench) -> None:
    """Another run, once the leases have ended."""
    await_no_node(bench)
    report = bench.run(handlers=[HANDLERS], dispatch={"lease": LEASE})
    assert report.exit_code == 0


def _assert_finished(point: str, chosen: Job, family: Job) -> None:
    lost = {"state": "completed", "attempt": 1, "node_losses": 1}
    assert family.history() == ["lease_expired", "completed"]
    assert family.counters() == lost
    assert len(family.executions()) == 2
    if point in KEEPING:
        assert chosen.history() == ["completed"]
        assert chosen.counters() == {"state": "completed", "attempt": 1}
    else:
        assert chosen.history() == ["lease_expired", "completed"]
        assert chosen.counters() == lost
    assert len(chosen.executions()) in EXECUTIONS.get(point, {2})


@pytest.mark.long
@pytest.mark.parametrize("point", [*LOSING, *KEEPING])
def test_killed_at_each_point_nothing_survives_and_another_run_finishes(
    bench: Bench, tmp_path: Path, point: str
) -> None:
    with _stopped(bench, tmp_path, [point] * len(KILLS)) as stopped:
        for (one, _, family), kill in zip(stopped, KILLS.values(), strict=True):
            pids = one.await_family(family)
            kill(one.run)
            one.run.assert_gone(*pids)

        _finish(bench)

        for _, chosen, family in stopped:
            _assert_finished(point, chosen, family)


def test_killed_together_with_its_guardian_in_the_middle_of_a_commit(bench: Bench, tmp_path: Path) -> None:
    """The quick one: the settle is sent, its answer is not read."""
    with _stopped(bench, tmp_path, ["committing"]) as [(one, chosen, family)]:
        pids = one.await_family(family)
        one.run.kill_both()
        one.run.assert_gone(*pids)

        _finish(bench)

        _assert_finished("committing", chosen, family)


@pytest.mark.long
def test_a_settle_that_commits_after_the_death_of_its_node_counts(bench: Bench, tmp_path: Path) -> None:
    """It waits for a lock when the node is killed: the database goes on with it, and the rescue passes it over."""
    with (
        scene(bench, tmp_path, "rescuer", "running", "--forever"),
        _stopped(bench, tmp_path, ["settling"]) as [(one, chosen, family)],
    ):
        with bench.connection.transaction():
            bench.rows("select from batchproc.processing_jobs where job_id = %s for update", chosen.job_id)
            one.go_on()
            with connect(bench.url) as other:  # what the transaction sees of other backends is of its begin
                wait_until(lambda: other.execute(_WAITING_NODES).fetchall(), 5.0, "the settle waits for the lock")
                one.run.kill_both()
                one.run.assert_gone()
                assert other.execute(_WAITING_NODES).fetchall()

        wait_until(lambda: chosen.history() == ["completed"], 5.0, "the settle commits")
        wait_until(lambda: family.history() == ["lease_expired"], 10.0, "the family is rescued")
        assert chosen.counters() == {"state": "completed", "attempt": 1}
        assert chosen.history() == ["completed"]
        assert len(chosen.executions()) == 1
    _finish(bench)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT], ids=lambda number: number.name)
@pytest.mark.parametrize("points", [LOSING[:3], LOSING[3:] + KEEPING], ids=["before it ends", "after"])
def test_stopped_at_each_point_no_attempt_is_used(
    bench: Bench, tmp_path: Path, points: Sequence[str], number: signal.Signals
) -> None:
    """SIGTERM lets the quick job end within the grace, SIGQUIT interrupts at once; neither costs anything."""
    with _stopped(bench, tmp_path, points, pool={"shutdown_grace": 1.0}) as stopped:
        for one, chosen, family in stopped:
            pids = one.await_family(family)
            everything = one.run.everything()
            one.run.send(number)
            one.go_on()

            assert one.run.wait() == 0
            one.run.assert_gone(*pids)
            assert_gone(everything)
            assert family.history() == ["interrupted"]
            assert family.counters() == {"state": "available"}
            _assert_free_of_charge(chosen, one.point, at_once=number == signal.SIGQUIT)


def _assert_free_of_charge(chosen: Job, point: str, *, at_once: bool) -> None:
    interrupted = chosen.counters() == {"state": "available"} and chosen.history() == ["interrupted"]
    completed = chosen.counters() == {"state": "completed", "attempt": 1} and chosen.history() == ["completed"]
    assert interrupted or completed, (chosen.counters(), chosen.history())
    if point == "running":
        assert interrupted  # it waits, and would for ever
    elif point in ("arrived", "settling", *KEEPING) or not at_once:
        assert completed
