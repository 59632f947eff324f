"""The checks of these tests themselves: they do find what is left and what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.running import Bench
from tests.faults.invariants import violations
from tests.faults.left_behind import nothing_left_behind


def test_a_run_leaves_nothing_and_a_sound_database(bench: Bench) -> None:
    bench.enqueue(bench.tenant("acme"), "t_quick")

    assert bench.run().counts.completed == 1


def test_a_process_that_is_left_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no marked process left"), nothing_left_behind(0.2):
        left = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    left.communicate()


def test_a_file_that_is_left_is_found() -> None:
    with pytest.raises(AssertionError, match="forgotten"), nothing_left_behind(0.2) as folder:
        (folder / "forgotten").touch()


def test_a_job_settled_twice_is_found(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_quick")
    bench.run()
    twice = b"""
        insert into batchproc.job_attempts (claim_id, job_id, tenant_id, number, node_id, started_at, ended_at, seconds,
                                            outcome)
        select gen_random_uuid(), job_id, tenant_id, number, node_id, started_at, ended_at, seconds, outcome
        from batchproc.job_attempts where job_id = %s
        returning claim_id"""
    [[claim_id]] = bench.connection.execute(twice, [job]).fetchall()

    found = violations(bench.connection)

    assert f"a job completed more than once: {job}" in found
    assert any(line.startswith("usage that does not add up") for line in found)
    bench.connection.execute(b"delete from batchproc.job_attempts where claim_id = %s", [claim_id])
