"""Whatever a handler returns, raises or leaves behind: its job ends with a state and a code, the next one as ever."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from batchproc.core.job import Lane
from batchproc.core.limits import DETAIL_CHARACTERS, ERROR_TYPE_CHARACTERS, RESULT_BYTES
from batchproc.engine.node import RunOptions
from tests.engine.running import HANDLERS, Bench
from tests.faults import spoiling_handlers, value_handlers
from tests.faults.spoiling_handlers import SPOILING
from tests.faults.value_handlers import VALUES

MODULES = [HANDLERS, value_handlers.__name__, spoiling_handlers.__name__]


def test_no_value_a_handler_gives_loses_its_job_or_stops_another(tmp_path: Path, bench: Bench) -> None:
    tenant = bench.tenant("acme")
    jobs = {how: bench.enqueue(tenant, "w_value", {"how": how}, max_attempts=1) for how in VALUES}
    log = tmp_path / "log"

    bench.run(
        RunOptions(workers=3),
        handlers=MODULES,
        dispatch={"brake": False},
        errors={"keep_messages": True},
        logging={"file": str(log)},
    )

    shown = {how: bench.job(job) for how, job in jobs.items()}
    ended = {how: (job["state"], job["failure_code"]) for how, job in shown.items()}
    assert ended == {how: expected for how, (_, expected) in VALUES.items()}
    for how, job in shown.items():
        attempt = job["attempts"][-1]
        assert len(attempt["detail"] or "") <= DETAIL_CHARACTERS, how
        assert len(attempt["error_type"] or "") <= ERROR_TYPE_CHARACTERS, how
        assert len(str(job["result"])) <= RESULT_BYTES, how
    assert shown["dirty text"]["result"] == {"value": {"abc": ["abc"]}}
    assert shown["dirty text"]["attempts"][0]["detail"] == "4 characters that cannot be stored were stripped"
    assert shown["dirty bytes"]["result"] == {"value": "ab"}
    assert shown["a dirty path"]["result"] == {"value": "ab"}
    assert shown["NaN"]["result"] == {"value": None}
    assert shown["a failure with a dirty detail"]["attempts"][0]["detail"].startswith("abcabc")
    assert shown["a failure with a number as its detail"]["attempts"][0]["detail"] == "5"
    assert shown["an exception without a text"]["attempts"][0]["detail"] is None
    followed = bench.rows("select args, unique_key, state from batchproc.processing_jobs where kind = 't_quick'")
    assert sorted(followed, key=str) == [({"x": "a"}, None, "discarded"), ({"x": "abc"}, "abckey", "discarded")]
    assert log.stat().st_size < 2_000_000


def test_what_a_job_changes_in_its_worker_is_not_there_for_the_next_tenants(bench: Bench) -> None:
    """One worker, and two tenants that take turns: one spoils what it can, the other one looks."""
    spoils, looks = bench.tenant("spoils"), bench.tenant("looks")
    before = bench.enqueue(looks, "w_state")
    bench.run(RunOptions(workers=1), handlers=MODULES)
    for how in SPOILING:
        bench.enqueue(spoils, "w_spoil", {"how": how})
        bench.enqueue(looks, "w_state")

    # With a limit nothing is claimed ahead: the order of the claims is that of the jobs.
    bench.run(RunOptions(workers=1), handlers=MODULES, kinds={"w_state": {"limit": 10}})

    jobs = bench.rows(
        """select kind, state, args, result from batchproc.processing_jobs where job_id <> %s
                         order by claimed_at""",
        before,
    )
    assert {state for _, state, _, _ in jobs} == {"completed"}
    kinds = [kind for kind, _, _, _ in jobs]
    assert kinds in (["w_spoil", "w_state"] * len(SPOILING), ["w_state", "w_spoil"] * len(SPOILING))
    untouched = bench.job(before)["result"]
    for (_, _, args, _), (_, _, _, found) in pairwise(jobs):
        if found is not None:
            assert found == untouched, args


def test_a_job_that_closes_every_descriptor_costs_only_itself(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    closes = bench.enqueue(tenant, "w_close_all", lane=Lane.INTERACTIVE)
    after = [bench.enqueue(tenant, "t_quick") for _ in range(3)]

    bench.run(RunOptions(workers=1), handlers=MODULES)

    # It has ended by then, and its outcome needs no descriptor.
    assert [attempt["outcome"] for attempt in bench.job(closes)["attempts"]] == ["completed"]
    assert bench.states(after) == {"completed": 3}
    assert [len(bench.job(job)["attempts"]) for job in after] == [1] * 3


@pytest.mark.long
def test_a_thread_that_a_job_leaves_shares_no_connection_with_the_next_job(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    bench.enqueue(tenant, "w_leaves_thread", lane=Lane.INTERACTIVE)
    after = [bench.enqueue(tenant, "t_write", {"word": str(number)}) for number in range(20)]

    bench.run(RunOptions(workers=1), handlers=MODULES)

    assert bench.states(after) == {"completed": 20}
    assert [len(bench.job(job)["attempts"]) for job in after] == [1] * 20
