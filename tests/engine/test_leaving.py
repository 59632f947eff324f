"""A run that meets a fault after its last job has an end in the database all the same."""

from __future__ import annotations

from typing import Any

import pytest

from batchproc.core.errors import EnvironmentFault
from batchproc.engine.braking import Braking
from batchproc.queue.nights import NightStore
from tests.engine.running import Bench


@pytest.mark.parametrize("where", [(Braking, "standing"), (NightStore, "left")], ids=["brakes", "what is left"])
def test_a_fault_after_the_last_job_leaves_a_run_with_an_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, where: tuple[type, str]
) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_quick")

    def fails(*_: Any, **__: Any) -> Any:
        raise EnvironmentFault("it went wrong")

    monkeypatch.setattr(*where, fails)

    with pytest.raises(EnvironmentFault, match="it went wrong"):
        bench.run()

    assert bench.job(job)["state"] == "completed"
    assert bench.rows("select exit_code from batchproc.runs where finished_at is not null") == [(3,)]
    assert bench.rows("select from batchproc.nodes where lease_until > now()") == []
