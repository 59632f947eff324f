"""A PostgreSQL for the tests: ``BATCHPROC_TEST_DATABASE_URL`` (a superuser's), else an embedded server of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from batchproc.testing.databases import (
    Databases,
    database_on,
    empty_database,
    new_home,
    remove_leftovers,
    remove_server,
    temporary_databases,
    temporary_server,
)

__all__ = ["database_on", "new_home", "remove_leftovers", "remove_server"]


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The URL of a server on which databases may be made."""
    with temporary_server() as url:
        yield url


@pytest.fixture(scope="session")
def template_databases(server_url: str) -> Iterator[Databases]:
    """A migrated, empty database that the tests' databases are copied from."""
    with temporary_databases(server_url) as databases:
        yield databases


@pytest.fixture(scope="session")
def template_database(template_databases: Databases) -> str:
    """The name of that database."""
    return template_databases.template


@pytest.fixture
def database_url(template_databases: Databases) -> Iterator[str]:
    """The URL of a migrated, empty database of the test's own."""
    with template_databases.new() as url:
        yield url


@pytest.fixture
def empty_database_url(server_url: str) -> Iterator[str]:
    """The URL of a database without batchproc's schema."""
    with empty_database(server_url) as name:
        yield database_on(server_url, name)
