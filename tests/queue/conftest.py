"""One migrated database for all tests of the queue, emptied before each: a database of its own would cost each test
more than the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest
from psycopg import sql

from batchproc.database import connect
from tests.database import database_on
from tests.queue.helpers import Conn

_EMPTY = """
    delete from batchproc.job_signals;
    delete from batchproc.job_attempts;
    delete from batchproc.processing_jobs;
    delete from batchproc.usage_daily;
    delete from batchproc.documents;
    delete from batchproc.tenants;
    delete from batchproc.kinds;
    delete from batchproc.nodes;
    delete from batchproc.runs;
    delete from batchproc.campaigns;
"""


@pytest.fixture(scope="package")
def queue_url(server_url: str, template_database: str) -> Iterator[str]:
    name = f"batchproc_test_{uuid4().hex[:12]}"
    with connect(server_url) as server:
        server.execute(
            sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template_database))
        )
        try:
            yield database_on(server_url, name)
        finally:
            server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def opened(queue_url: str) -> Iterator[Callable[[], Conn]]:
    """Opens further connections, closed at the test's end. A lock that is waited for in vain fails the test."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(connect(queue_url, options={"options": "-c lock_timeout=20s"}))


@pytest.fixture
def connection(opened: Callable[[], Conn]) -> Conn:
    """A connection to a database without a row."""
    connection = opened()
    connection.execute(_EMPTY)
    return connection
