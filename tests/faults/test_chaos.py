"""The chaos command: random SIGKILLs of nodes and workers on a full queue, as a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.faults.chaos_ledger import Attempt, Execution, Killed, unexplained
from tests.faults.chaos_nodes import REPOSITORY
from tests.waiting import wait_until

COMMAND = [sys.executable, "-P", "-m", "tests.faults.chaos"]
KEYS = ["jobs", "completed", "lost", "settled_twice", "executions", "kills", "processes_left", "seconds"]
TEST_TOOLS = ("pytest", "hypothesis", "xdist", "pytest_timeout", "mypy", "ruff")


def _environment(**changes: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.fspath(REPOSITORY)} | changes


def _assert_nothing_went_wrong(done: subprocess.CompletedProcess[str], *, jobs: int, kills: int, workers: int) -> None:
    told = f"{done.stdout}\n{done.stderr[-4000:]}"
    assert done.returncode == 0, told
    [line] = done.stdout.splitlines()
    counts = json.loads(line)
    assert list(counts)[: len(KEYS)] == KEYS, told
    assert (counts["jobs"], counts["completed"], counts["kills"]) == (jobs, jobs, kills), told
    assert counts["lost"] == counts["settled_twice"] == counts["processes_left"] == 0, told
    # A killed worker had one job, a killed node one for each worker.
    extra = counts["executions"] - jobs
    assert 0 <= extra <= counts["kills_of_workers"] + counts["kills_of_nodes"] * workers, told
    assert counts["unexplained_executions"] == 0, told


def test_random_kills_lose_nothing(server_url: str, tmp_path: Path) -> None:
    """Quick, and with an empty HOME and without the tools of the tests."""
    for tool in TEST_TOOLS:
        (tmp_path / f"{tool}.py").write_text(f"raise ImportError('{tool} is no runtime dependency')")
    environment = _environment(HOME="", PYTHONPATH=f"{tmp_path}{os.pathsep}{REPOSITORY}")

    done = subprocess.run(
        [*COMMAND, "--nodes", "2", "--jobs", "600", "--kills", "8", "--database", server_url],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
    )

    _assert_nothing_went_wrong(done, jobs=600, kills=8, workers=2)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_hundred_kills_of_four_nodes_lose_nothing() -> None:
    """On an embedded server of its own, as the command does without arguments."""
    arguments = ["--nodes", "4", "--jobs", "20000", "--kills", "200", "--deadline", "800"]

    done = subprocess.run([*COMMAND, *arguments], env=_environment(), capture_output=True, text=True, timeout=880)

    _assert_nothing_went_wrong(done, jobs=20_000, kills=200, workers=2)


@pytest.mark.long
@pytest.mark.parametrize("besides", ["--backends", "--cuts"])
def test_lost_connections_besides_lose_nothing(besides: str) -> None:
    """Every session of nodes and workers may end at any moment; or the connection in a commit, applied or not."""
    arguments = ["--jobs", "3000", "--kills", "20", besides, "60"]

    done = subprocess.run([*COMMAND, *arguments], env=_environment(), capture_output=True, text=True, timeout=110)

    _assert_nothing_went_wrong(done, jobs=3000, kills=20, workers=2)


def test_an_interrupted_command_leaves_nothing(server_url: str, temp_folder: Path) -> None:
    arguments = ["--jobs", "20000", "--kills", "10", "--database", server_url]
    command = subprocess.Popen([*COMMAND, *arguments], env=_environment(), stderr=subprocess.PIPE, text=True)
    try:
        stderr = command.stderr
        assert stderr is not None
        started = wait_until(lambda: re.search(r"database (batchproc_chaos_\w+)", stderr.readline()), 60, "it begins")
        with psycopg.connect(server_url, autocommit=True) as server:
            nodes = "select from pg_stat_activity where datname = %s and application_name = 'batchproc node'"
            wait_until(lambda: server.execute(nodes, [started[1]]).fetchall(), 60, "a node works")

            command.send_signal(signal.SIGINT)

            assert command.wait(30) == 128 + signal.SIGINT
            assert server.execute("select from pg_database where datname = %s", [started[1]]).fetchone() is None
    finally:
        command.terminate()  # nothing when it has ended
        command.communicate(timeout=30)


# The judgement itself: what it must not let pass.

NODE = str(uuid4())
WORKER = f"{NODE}:1:3"
NOBODY = Killed(set(), set())


def _judged(claims: dict[UUID, Attempt], killed: Killed = NOBODY) -> list[str]:
    return unexplained([Execution(1, claim, WORKER) for claim in claims], claims, killed)


@pytest.mark.parametrize("killed", [Killed({WORKER}, set()), Killed(set(), {NODE})])
def test_an_execution_more_is_explained_by_the_kill_of_its_worker_or_node(killed: Killed) -> None:
    claims = {uuid4(): Attempt(1, "failed", "crashed"), uuid4(): Attempt(1, "completed", None)}

    assert _judged(claims, killed) == []
    assert len(_judged(claims)) == 1
    assert len(_judged(claims, Killed({f"{NODE}:1:4"}, {str(uuid4())}))) == 1


def test_no_kill_explains_a_failure_of_another_kind() -> None:
    assert len(_judged({uuid4(): Attempt(1, "failed", "transient")}, Killed({WORKER}, {NODE}))) == 1


def test_a_claim_that_ran_twice_or_never_or_was_never_settled_is_found() -> None:
    claim = uuid4()
    settled = {claim: Attempt(1, "completed", None)}
    ran = Execution(1, claim, WORKER)
    everybody = Killed({WORKER}, {NODE})

    assert unexplained([ran, ran], settled, everybody) == [f"claim {claim} ran 2 times"]
    assert unexplained([], settled, everybody) == [f"job 1, claim {claim} completed and never ran"]
    assert len(unexplained([ran], {}, everybody)) == 1
