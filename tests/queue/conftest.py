"""One migrated database for all tests of the queue, emptied before each: a database of its own would cost each test
more than the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from batchproc.database import connect
from batchproc.testing.databases import Databases
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
def queue_url(template_databases: Databases) -> Iterator[str]:
    with template_databases.new() as url:
        yield url


@pytest.fixture(scope="package")
def empty(queue_url: str) -> Iterator[Callable[[], object]]:
    """Takes all rows away, on a connection that knows the tables already: a new one reads up on each of them first."""
    with connect(queue_url, options={"options": "-c lock_timeout=20s"}) as connection:
        yield lambda: connection.execute(_EMPTY)


@pytest.fixture
def opened(queue_url: str) -> Iterator[Callable[[], Conn]]:
    """Opens further connections, closed at the test's end. A lock that is waited for in vain fails the test."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(connect(queue_url, options={"options": "-c lock_timeout=20s"}))


@pytest.fixture
def connection(opened: Callable[[], Conn], empty: Callable[[], object]) -> Conn:
    """A connection to a database without a row."""
    empty()
    return opened()
