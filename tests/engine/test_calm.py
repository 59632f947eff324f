"""When a node may take others for dead, and how long it bears with its database."""

from __future__ import annotations

import psycopg
import pytest

from batchproc.core.errors import EnvironmentFault
from batchproc.engine.calm import Calm
from batchproc.engine.outage import Outage


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Moved by the test."""
    return Clock(monkeypatch)


def test_a_prompt_database_is_calm_and_a_slow_answer_or_an_error_disturbs(clock: Clock) -> None:
    calm = Calm(lease=8.0)
    clock.now += 10
    with calm.asking("lease"):
        clock.now += 1
    assert calm.seconds == 11
    with calm.asking("lease"):
        clock.now += 3
    assert calm.seconds == 0, "an answer that took more than a quarter of the lease"
    clock.now += 9
    assert calm.seconds == 9
    with pytest.raises(psycopg.OperationalError), calm.asking("housekeeping"):
        raise psycopg.OperationalError
    assert calm.seconds == 0


def test_an_answer_that_is_still_waited_for_disturbs_everybody(clock: Clock) -> None:
    calm = Calm(lease=8.0)
    clock.now += 10
    with calm.asking("lease"):
        clock.now += 3
        with calm.asking("housekeeping"):
            assert calm.seconds == 0


def test_an_outage_lasts_until_something_was_committed(clock: Clock) -> None:
    outage = Outage(60)
    assert not outage.over()
    outage.failed(psycopg.errors.AdminShutdown())
    clock.now += 50
    outage.failed(psycopg.errors.ReadOnlySqlTransaction())
    clock.now += 11
    with pytest.raises(EnvironmentFault, match=r"the database failed for 60 s \(ReadOnlySqlTransaction 25006\)"):
        outage.failed(psycopg.errors.ReadOnlySqlTransaction())
    assert outage.over()
    outage.failed(psycopg.errors.AdminShutdown())


def test_failures_with_a_long_calm_between_them_are_no_outage(clock: Clock) -> None:
    outage = Outage(60)
    for _ in range(5):
        outage.failed(psycopg.errors.AdminShutdown())
        clock.now += 100
