"""Notifications: hints that may be lost, forged or garbage, and never do harm."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.fairness import Queue, Turn
from batchproc.core.job import Lane, NewJob
from batchproc.queue import hints
from batchproc.queue.hints import Hint
from batchproc.queue.listener import Heard, Listener
from tests.queue.helpers import PATIENCE, STORE, Conn, add_tenant, claim, enqueue, join, one, queue_of, wait_until

Opened = Callable[[], Conn]
KINDS = st.from_regex(r"[a-z][a-z0-9_]{0,62}", fullmatch=True)
QUEUES = st.builds(Queue, st.sampled_from([0, 1]), st.integers(1, 2**63 - 1), KINDS)


@given(QUEUES, st.integers(1, 9))
def test_a_hint_names_its_queue_and_is_bounded(queue: Queue, priority: int) -> None:
    payload = hints.hint(queue, priority)
    assert len(payload.encode()) <= 200
    assert hints.parse(payload) == Hint(queue, priority)
    assert json.loads(payload)[3] == priority


def test_a_hint_that_would_be_long_is_a_refresh() -> None:
    assert hints.hint(Queue(1, 1, "x" * 9000), 5) == hints.REFRESH
    assert hints.parse(hints.REFRESH) is None


GARBAGE = [
    "",
    "refresh",
    "null",
    "[]",
    "[1, 2, 3]",
    "[1, 2, 3, 4, 5]",
    '{"a": 1, "b": 2, "c": 3, "d": 4}',
    '"abcd"',
    '[2, 1, "work", 5]',
    '[-1, 1, "work", 5]',
    '[true, 1, "work", 5]',
    '[1.0, 1, "work", 5]',
    '[null, 1, "work", 5]',
    '[[], 1, "work", 5]',
    '[1, 0, "work", 5]',
    '[1, 9223372036854775808, "work", 5]',
    '[1, -3, "work", 5]',
    '[1, true, "work", 5]',
    '[1, "1", "work", 5]',
    "[1, 1, 7, 5]",
    '[1, 1, "No Kind", 5]',
    '[1, 1, "work\\u0000", 5]',
    '[1, 1, "\\ud800", 5]',
    '[1, 1, "work", 5',
    "[" * 199,
    "[" * 7999,
    '{"a":' * 1500,
    "9" * 5000,
]


@pytest.mark.parametrize("payload", GARBAGE, ids=lambda payload: payload[:30])
def test_garbage_is_a_refresh(payload: str) -> None:
    assert hints.parse(payload) is None


@given(st.text() | st.recursive(st.integers() | st.text() | st.none(), st.lists).map(json.dumps))
def test_any_payload_is_a_queue_that_may_exist_or_nothing(payload: str) -> None:
    hint = hints.parse(payload)
    if hint is not None:
        assert hint.queue.lane in (Lane.INTERACTIVE, Lane.BULK)
        assert 0 < hint.queue.tenant_id < 2**63


def test_a_forged_hint_costs_an_empty_claim(connection: Conn) -> None:
    node = join(connection)
    hint = hints.parse(f'[1, {2**63 - 1}, "nobody", 5]')
    assert hint is not None
    for limited in (False, True):
        assert claim(connection, node, Turn(hint.queue, 3), limited=limited) == []


# -- listening


def test_each_queue_is_named_once(connection: Conn, opened: Opened) -> None:
    tenant = add_tenant(connection)
    listener = Listener(opened(), "batchproc")
    with connection.transaction():
        for _ in range(3):
            enqueue(connection, tenant)
        enqueue(connection, tenant, "other")
    heard: list[Hint] = []

    def both() -> bool:
        noticed = listener.wait(0.2)
        assert not noticed.refresh
        heard.extend(noticed.hints)
        return {hint.queue for hint in heard} == {queue_of(tenant), queue_of(tenant, "other")}

    wait_until(both, "both queues to be named")
    assert len(heard) == 2


def test_waiting_ends_with_the_first_notice_and_otherwise_in_time(connection: Conn, opened: Opened) -> None:
    tenant = add_tenant(connection)
    listener = Listener(opened(), "batchproc")
    began = time.monotonic()
    assert listener.wait(0.1) == Heard([])
    assert 0.09 <= time.monotonic() - began < 5
    enqueue(connection, tenant)
    began = time.monotonic()
    assert listener.wait(PATIENCE) == Heard([Hint(queue_of(tenant), 5)])
    assert time.monotonic() - began < PATIENCE / 2
    assert listener.wait(0) == Heard([])


def test_a_notice_that_comes_during_another_statement_is_not_lost(connection: Conn, opened: Opened) -> None:
    tenant, ears = add_tenant(connection), opened()
    listener = Listener(ears, "batchproc")
    enqueue(connection, tenant)
    assert one(ears, "select count(*) from batchproc.processing_jobs") == 1
    assert one(ears, "select 1") == 1
    assert listener.wait(PATIENCE) == Heard([Hint(queue_of(tenant), 5)])


@pytest.mark.parametrize("payload", ["refresh", "garbage", "", "[" * 7999])
def test_whatever_else_is_heard_asks_for_a_refresh(connection: Conn, opened: Opened, payload: str) -> None:
    listener = Listener(opened(), "batchproc")
    connection.execute("select pg_notify('batchproc', %s)", [payload])
    assert listener.wait(PATIENCE) == Heard([], refresh=True)


@pytest.mark.parametrize("channel", ["other", "batchproc2", "batchproc:other", "Batchproc"])
def test_other_channels_are_not_heard(connection: Conn, opened: Opened, channel: str) -> None:
    listener = Listener(opened(), "batchproc")
    connection.execute("select pg_notify(%s, 'refresh')", [channel])
    assert listener.wait(0.05) == Heard([])


def test_schemas_have_channels_of_their_own_that_postgresql_takes() -> None:
    names = ["batchproc", "other", "x" * 63, "x" * 62 + "y"]
    channels = [hints.channel(name) for name in names]
    assert len(set(channels)) == len(names)
    assert max(len(channel.encode()) for channel in channels) <= 63


def test_a_duplicate_or_a_future_job_announces_nothing(connection: Conn, opened: Opened) -> None:
    tenant = add_tenant(connection)
    enqueue(connection, tenant, unique_key="k")
    listener = Listener(opened(), "batchproc")
    STORE.enqueue(connection, NewJob(tenant, "work", unique_key="k"))
    enqueue(connection, tenant, run_at=one(connection, "select clock_timestamp() + interval '1 day'"))
    assert listener.wait(0.05) == Heard([])


def test_a_lost_connection_is_told(connection: Conn, opened: Opened) -> None:
    ears = opened()
    listener = Listener(ears, "batchproc")
    connection.execute("select pg_terminate_backend(%s)", [ears.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        listener.wait(PATIENCE)
