"""Forgetting a kind beside a node that makes it known."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from batchproc.core.errors import UsageError
from batchproc.queue.kind_store import KindStore
from tests.queue.helpers import Conn, join, one, wait_for_blocked

Opened = Callable[[], Conn]
PATIENCE = 20.0
KINDS = KindStore("batchproc")
KNOWN = "select count(*) from batchproc.kinds where kind = 'work'"


def test_a_node_that_starts_while_its_kind_is_forgotten_makes_it_known_again(connection: Conn, opened: Opened) -> None:
    connection.execute("insert into batchproc.kinds (kind) values ('work')")
    other, starting = opened(), opened()
    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            KINDS.forget(other, "work")
            joined = pool.submit(join, starting)
            wait_for_blocked(connection)
        joined.result(PATIENCE)
    assert one(connection, KNOWN) == 1


def test_a_kind_that_a_node_has_just_made_known_is_not_forgotten(connection: Conn, opened: Opened) -> None:
    connection.execute("insert into batchproc.kinds (kind) values ('work')")
    starting, other = opened(), opened()
    with ThreadPoolExecutor(1) as pool:
        with starting.transaction():
            join(starting)
            forgotten = pool.submit(KINDS.forget, other, "work")
            wait_for_blocked(connection)
        with pytest.raises(UsageError, match="a node that runs knows kind work"):
            forgotten.result(PATIENCE)
    assert one(connection, KNOWN) == 1
