"""A run that meets a fault after its last job has an end in the database all the same."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from batchproc.core.errors import EnvironmentFault
from batchproc.engine.braking import Braking
from batchproc.engine.dispatcher import Dispatcher
from batchproc.engine.last_turns import LastTurns
from batchproc.engine.node import Node, RunOptions
from batchproc.queue.exclusive import ExclusiveRun
from batchproc.queue.nights import NightStore
from batchproc.queue.run_store import RunStore
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


def fails_with(error: Exception) -> Any:
    def fails(*_: Any, **__: Any) -> Any:
        raise error

    return fails


@pytest.mark.parametrize("where", [(ExclusiveRun, "release"), (LastTurns, "write")], ids=["the place", "the turns"])
def test_what_fails_on_the_way_out_keeps_nothing_else_from_being_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, where: tuple[type, str]
) -> None:
    monkeypatch.setattr(*where, fails_with(psycopg.errors.QueryCanceled("too long")))
    monkeypatch.setattr(Braking, "standing", fails_with(EnvironmentFault("it went wrong")))

    with pytest.raises(EnvironmentFault, match="it went wrong"):
        bench.run(RunOptions(workers=1, exclusive=True))

    assert bench.rows("select exit_code from batchproc.runs where finished_at is not null") == [(3,)]
    assert bench.rows("select from batchproc.nodes where lease_until > now()") == []


@pytest.mark.parametrize(
    "where",
    [(Node, "_giving_up"), (Dispatcher, "__init__"), (Node, "_service"), (RunStore, "start")],
    ids=lambda where: where[1],
)
def test_a_fault_before_the_first_turn_leaves_nothing_in_anybodys_way(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, where: tuple[type, str]
) -> None:
    monkeypatch.setattr(
        *where, fails_with(EnvironmentFault("it went wrong") if where[0] is not RunStore else KeyError())
    )

    with pytest.raises((EnvironmentFault, KeyError)):
        bench.run(RunOptions(workers=1, exclusive=True))

    assert bench.rows("select from batchproc.exclusive_runs") == []
    assert bench.rows("select from batchproc.runs where finished_at is null") == []
    assert bench.rows("select from batchproc.nodes where lease_until > now()") == []
