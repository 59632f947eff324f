"""The lease, with a store that does what the test says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest

from batchproc.engine.lease import Lease
from batchproc.queue.node_store import NodeStore
from tests.waiting import wait_until

SECONDS = 1.0


class FakeConnection:
    def close(self) -> None:
        pass


class FakeStore:
    """Renews by calling ``answer``."""

    def __init__(self, answer: Callable[[], bool]) -> None:
        self.node_id = uuid4()
        self.answer = answer
        self.renewals = 0

    def renew(self, _connection: Any, _seconds: float) -> bool:
        self.renewals += 1
        return self.answer()

    def held(self, _connection: Any) -> list[Any]:
        return []


Make = Callable[[Callable[[], bool]], tuple[Lease, FakeStore, list[float]]]


@pytest.fixture
def make() -> Iterator[Make]:
    leases: list[Lease] = []

    def made(answer: Callable[[], bool]) -> tuple[Lease, FakeStore, list[float]]:
        store, lost = FakeStore(answer), list[float]()
        connect = cast(Callable[[], psycopg.Connection[Any]], FakeConnection)
        lease = Lease(cast(NodeStore, store), connect, SECONDS, lambda: lost.append(time.monotonic()))
        leases.append(lease)
        lease.start()
        return lease, store, lost

    yield made
    for lease in leases:
        lease.stop()


def test_a_lease_that_is_renewed_is_not_lost(make: Make) -> None:
    _, store, lost = make(lambda: True)
    wait_until(lambda: store.renewals >= 5)
    assert lost == []


def test_a_renewal_that_hangs_keeps_nobody_from_noticing_in_time(make: Make) -> None:
    begun = time.monotonic()
    release = threading.Event()
    _, _, lost = make(lambda: release.wait(30) or True)
    try:
        wait_until(lambda: lost, 5)
        assert lost[0] - begun < SECONDS, "before the lease has ended"
    finally:
        release.set()


def test_a_lease_that_the_database_calls_ended_is_lost_at_once_and_once(make: Make) -> None:
    lease, store, lost = make(lambda: False)
    wait_until(lambda: lost, 5)
    wait_until(lambda: store.renewals >= 3, 5)
    assert len(lost) == 1

    store.answer = lambda: True
    store.node_id = uuid4()
    lease.renewed()
    renewals = store.renewals
    wait_until(lambda: store.renewals >= renewals + 4)
    assert len(lost) == 1
    store.answer = lambda: False
    wait_until(lambda: len(lost) == 2, 5, "it is told again")


def test_an_answer_about_a_lease_that_was_given_up_is_ignored(make: Make) -> None:
    asked, release = threading.Event(), threading.Event()

    def answer() -> bool:
        asked.set()
        return not release.wait(10)

    lease, store, lost = make(answer)
    assert asked.wait(5)
    store.node_id = uuid4()
    lease.renewed()
    store.answer = lambda: True
    release.set()  # the first renewal now says that the old lease has ended
    wait_until(lambda: store.renewals >= 4)
    assert lost == []
