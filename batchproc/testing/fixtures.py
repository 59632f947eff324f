"""The fixtures of pytest: a server for all tests, and a database of its own for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from batchproc.testing.databases import Databases, temporary_databases, temporary_server
from batchproc.testing.sandbox import Sandbox, opened_sandbox


@pytest.fixture(scope="session")
def sandbox_databases() -> Iterator[Databases]:
    """Gives out migrated, empty databases; the server behind them is started with the first test that needs one."""
    with temporary_server() as server_url, temporary_databases(server_url) as databases:
        yield databases


@pytest.fixture
def sandbox(sandbox_databases: Databases, tmp_path: Path) -> Iterator[Sandbox]:
    """An archive of this test's own: empty, in a database of its own, gone after it."""
    with sandbox_databases.new() as url, opened_sandbox(url, tmp_path) as opened:
        yield opened
