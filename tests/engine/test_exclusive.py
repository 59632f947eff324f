"""Runs that exclude each other: a leased row, which works behind a pooler and frees itself."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from batchproc.core.errors import AnotherRun
from batchproc.database import Session, connect
from batchproc.engine.node import RunOptions
from batchproc.engine.ready import Scope
from batchproc.queue.exclusive import ExclusiveRun
from batchproc.queue.node_store import NodeFacts, NodeStore
from tests.engine.running import Bench
from tests.faults.command import Run, started_run
from tests.waiting import wait_until

ROWS = "select from batchproc.exclusive_runs where lease_until > clock_timestamp()"


@pytest.fixture
def other(bench: Bench) -> Iterator[Session]:
    with connect(bench.url) as session:
        yield session


def exclusive(lease: float = 30.0, **scope: Any) -> ExclusiveRun:
    return ExclusiveRun("batchproc", Scope(**scope).plain(), lease)


def expire(bench: Bench) -> None:
    bench.connection.execute("update batchproc.exclusive_runs set lease_until = clock_timestamp() - interval '1 s'")


def ended(run: Run, deadline: float = 30.0) -> tuple[int, str, str]:
    return run.wait(deadline), *run.output()


# -- the row


def test_a_second_one_is_told_who_is_there(bench: Bench, other: Session) -> None:
    first, second = exclusive(), exclusive()
    first.take(bench.connection)
    first.began(17)
    assert first.renew(bench.connection)

    with pytest.raises(AnotherRun, match=r"run 17, exclusive itself, is active on .*, process \d+, since") as refused:
        second.take(other)

    assert refused.value.exit_code == 4
    first.release(bench.connection)
    second.take(other)


def test_taking_it_twice_after_a_lost_answer_is_taking_it_once(bench: Bench) -> None:
    run = exclusive()
    run.take(bench.connection)
    run.take(bench.connection)
    assert len(bench.rows(ROWS)) == 1


def test_of_many_at_once_one_gets_it(bench: Bench) -> None:
    def take(_: int) -> bool:
        with connect(bench.url) as session, contextlib.suppress(AnotherRun):
            exclusive().take(session)
            return True
        return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(take, range(16))) == 1
    assert len(bench.rows(ROWS)) == 1


def test_a_killed_holder_is_in_the_way_for_its_lease_and_finds_out(bench: Bench, other: Session) -> None:
    killed, next_one = exclusive(), exclusive()
    killed.take(bench.connection)
    with pytest.raises(AnotherRun):
        next_one.take(other)
    expire(bench)
    assert killed.renew(bench.connection), "nobody has taken its place yet"
    expire(bench)

    next_one.take(other)

    assert not killed.renew(bench.connection)
    with pytest.raises(AnotherRun, match="it has taken the place of this run"):
        killed.take(bench.connection, again=True)
    assert len(bench.rows("select from batchproc.exclusive_runs")) == 1


@pytest.mark.parametrize(
    ("one", "two", "meet"),
    [
        ({}, {}, True),
        ({}, {"kinds": frozenset({"ocr"})}, True),
        ({"lanes": frozenset({0})}, {"lanes": frozenset({1})}, False),
        ({"lanes": frozenset({0, 1})}, {"lanes": frozenset({1})}, True),
        ({"tenant_ids": frozenset({1})}, {"tenant_ids": frozenset({2, 3})}, False),
        ({"kinds": frozenset({"ocr"})}, {"kinds": frozenset({"ocr", "classify"})}, True),
        ({"kinds": frozenset({"ocr"}), "tenant_ids": frozenset({1})}, {"kinds": frozenset({"workflow"})}, False),
        ({"kinds": frozenset({"ocr"})}, {"lanes": frozenset({1})}, True),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_only_who_may_claim_the_same_jobs_is_in_the_way(
    bench: Bench, other: Session, one: dict[str, Any], two: dict[str, Any], meet: bool, swapped: bool
) -> None:
    if swapped:
        one, two = two, one
    exclusive(**one).take(bench.connection)
    with pytest.raises(AnotherRun) if meet else contextlib.nullcontext():
        exclusive(**two).take(other)


@pytest.mark.parametrize(
    ("scope", "is_in_the_way"),
    [({}, True), ({"lanes": [1]}, True), ({"lanes": [0]}, False), ({"single": True}, False), (None, True)],
    ids=["all", "its lane", "another lane", "a single job", "joined again"],
)
def test_a_run_that_is_not_exclusive_is_in_the_way_of_one_that_begins(
    bench: Bench, other: Session, scope: dict[str, Any] | None, is_in_the_way: bool
) -> None:
    run = exclusive(lanes=frozenset({1}))
    node = NodeStore("batchproc", node_id := uuid4(), {})
    node.join(bench.connection, NodeFacts(node_id, "far-away", 7, 1, (), (), "", ""), 60.0)
    if scope is not None:
        node.runs.start(bench.connection, node.node_id, scope)

    with pytest.raises(AnotherRun, match="on far-away, process 7") if is_in_the_way else contextlib.nullcontext():
        run.take(other)

    run.take(other, again=True)  # one that has begun already bears with it


@pytest.mark.parametrize(
    ("scope", "named", "remedy"),
    [
        ({}, "for all jobs: nothing was done", "give each its part: --lane interactive and --lane bulk"),
        ({"lanes": [0]}, "for --lane interactive: nothing was done", "leave its lane to it: --lane bulk,"),
        ({"lanes": [1]}, "for --lane bulk: nothing was done", "leave its lane to it: --lane interactive,"),
        ({"kinds": ["ocr"]}, "for --kind ocr: nothing was done", "give each its part: --lane interactive and"),
        (
            {"tenant_ids": [2, 1], "lanes": [1]},
            "for --tenant acme --tenant beta --lane bulk: nothing was done",
            "leave its lane to it: --lane interactive,",
        ),
    ],
)
def test_what_is_in_the_way_is_named_with_a_way_beside_it(
    bench: Bench, scope: dict[str, Any], named: str, remedy: str
) -> None:
    for slug in ("acme", "beta"):
        bench.tenant(slug)
    node = NodeStore("batchproc", node_id := uuid4(), {})
    node.join(bench.connection, NodeFacts(node_id, "far-away", 7, 1, (), (), "", ""), 60.0)
    node.runs.start(bench.connection, node.node_id, scope)
    with pytest.raises(AnotherRun) as refused:
        exclusive().take(bench.connection)
    assert named in refused.value.message
    assert remedy in str(refused.value)


def test_a_run_that_joined_again_under_a_new_id_is_known_once_it_has_told(bench: Bench) -> None:
    """A service that lost its lease once is not in the way of every night from then on."""
    node = NodeStore("batchproc", uuid4(), {})
    run_id = node.runs.start(bench.connection, node.node_id, {"lanes": [0]})
    node.node_id = uuid4()
    node.join(bench.connection, NodeFacts(node.node_id, "far-away", 7, 1, (), (), "", ""), 60.0)
    night = exclusive(lanes=frozenset({1}))
    with pytest.raises(AnotherRun):
        night.take(bench.connection)

    node.slots.write(bench.connection, node.node_id, [], run_id=run_id, ended=0, jobs_per_minute=0.0)

    night.take(bench.connection)


# -- the command


def test_the_second_command_does_nothing_and_says_why(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    gate, begun = tmp_path / "gate", tmp_path / "begun"
    job = bench.enqueue(tenant, "t_until", {"file": str(gate), "started": str(begun)})
    waits = bench.enqueue(tenant, "t_until", {"file": str(gate)})
    with started_run(bench, "--exclusive", "--workers", "1") as first:
        wait_until(begun.exists, 30, "it works")
        with started_run(bench, "--exclusive", "--workers", "1") as second:
            code, out, err = ended(second)
        assert (code, out) == (4, "")
        assert "run 1, exclusive itself, is active on" in err
        assert "batchproc status" in err
        assert len(err.splitlines()) == 1, "one line is a mail's worth"
        assert bench.job(waits)["state"] == "available"
        gate.touch()
        assert ended(first) == (0, "", "")
    assert bench.states([job, waits]) == {"completed": 2}
    assert bench.rows("select from batchproc.exclusive_runs") == []
    assert len(bench.rows("select from batchproc.runs")) == 1


def test_a_killed_one_frees_its_place_with_its_lease(bench: Bench, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    job = bench.enqueue(bench.tenant("acme"), "t_until", {"file": str(tmp_path / "gate"), "started": str(begun)})
    with started_run(bench, "--exclusive", "--workers", "1") as first:
        wait_until(begun.exists, 30, "it works")
        first.kill_both()
        first.wait()
    assert len(bench.rows("select from batchproc.exclusive_runs")) == 1, "it could not take it away"
    (tmp_path / "gate").touch()
    wait_until(lambda: not bench.rows(ROWS), 10, "its lease ends")
    wait_until(lambda: not bench.rows("select from batchproc.nodes where lease_until > clock_timestamp()"), 10)

    report = bench.run(RunOptions(workers=1, exclusive=True), dispatch={"lease": 1.0})

    assert (report.exit_code, report.counts.rescued) == (0, 1)
    assert bench.job(job)["state"] == "completed"


def test_one_that_was_frozen_while_another_took_its_place_stops(bench: Bench, tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    job = bench.enqueue(bench.tenant("acme"), "t_until", {"file": str(gate), "started": str(begun)})
    with started_run(bench, "--exclusive", "--workers", "1") as first:
        wait_until(begun.exists, 30, "it works")
        node = first.node_pid
        first.send(signal.SIGSTOP, node)
        wait_until(lambda: not bench.rows(ROWS), 10, "its lease ends")
        wait_until(lambda: not bench.rows("select from batchproc.nodes where lease_until > clock_timestamp()"), 10)
        with connect(bench.url) as session:
            successor = exclusive()
            successor.take(session)
            first.send(signal.SIGCONT, node)
            code, out, err = ended(first)
            assert (code, out) == (4, "")
            assert "is active on" in err
            assert "nothing was done" not in err, "it may have worked for hours"
            assert "has taken the place of this run" in err
            assert successor.renew(session)
    assert bench.job(job)["state"] == "available"
    assert bench.rows("select exit_code from batchproc.runs") == [(4,)]
