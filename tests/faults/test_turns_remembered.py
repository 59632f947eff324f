"""A run that is killed in the middle of a round: the next one does not begin with the same tenants again."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchproc.engine.last_turns import WRITE_SECONDS
from batchproc.engine.node import RunOptions
from tests.engine.running import Bench
from tests.faults.command import START_SECONDS, started_run
from tests.waiting import wait_until


@pytest.mark.long
def test_a_killed_node_has_remembered_whose_turn_it_was(bench: Bench, tmp_path: Path) -> None:
    tenants = [bench.tenant(f"t{number}") for number in range(6)]
    for tenant in tenants:
        bench.enqueue(tenant, "t_until", {"file": str(tmp_path / "gate"), "started": None})
        bench.enqueue(tenant, "t_quick")
    with started_run(bench, "--workers", "2", "--kind", "t_until") as run:
        wait_until(
            lambda: bench.rows("select count(*) from batchproc.tenant_turns") == [(2,)],
            START_SECONDS + 2 * WRITE_SECONDS,
            "it is written",
        )
        run.kill_both()
        run.wait()
    # As long as it is taken to be alive, it is left its share of the first round.
    bench.rows("update batchproc.nodes set lease_until = clock_timestamp() returning node_id")
    had_a_turn = {row[0] for row in bench.rows("select tenant_id from batchproc.tenant_turns")}

    report = bench.run(RunOptions(workers=2, max_jobs=4))

    rows = bench.rows("select tenant_id from batchproc.processing_jobs where run_id = %s", report.run_id)
    assert {row[0] for row in rows} == set(tenants) - had_a_turn
    (tmp_path / "gate").touch()
    assert bench.run().exit_code == 0
