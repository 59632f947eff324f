"""A PostgreSQL for the tests: ``BATCHPROC_TEST_DATABASE_URL`` (a superuser's), else an embedded server of their own."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from batchproc.database import connect
from batchproc.embedded import EmbeddedServer
from batchproc.queue import migrate

_HOME_PREFIX = "batchproc-test-"
_numbers = count(1)


def database_on(server_url: str, name: str) -> str:
    """The URL (or keyword string) of another database of the same server."""
    scheme, is_url, rest = server_url.partition("://")
    if is_url:
        address, _, query = rest.partition("?")
        return f"{scheme}://{address.partition('/')[0]}/{name}" + (f"?{query}" if query else "")
    return make_conninfo(server_url, dbname=name)


def remove_server(server: EmbeddedServer) -> None:
    """Stops a server and deletes all it had."""
    server.stop("immediate")
    for folder in {server.place.base, server.place.home}:
        shutil.rmtree(folder, ignore_errors=True)


def new_home() -> Path:
    """An empty home folder, with a path short enough for a socket; to be given to ``remove_server`` in the end."""
    return Path(tempfile.mkdtemp(prefix=f"{_HOME_PREFIX}{os.getpid()}-", dir="/tmp"))


def remove_leftovers() -> None:
    """Removes the servers of test runs that were killed; several processes may do so at once."""
    for home in Path("/tmp").glob(f"{_HOME_PREFIX}*"):
        pid = home.name.removeprefix(_HOME_PREFIX).partition("-")[0]
        try:
            if home.stat().st_uid != os.geteuid() or Path("/proc", pid).exists():
                continue
            folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if home.exists():
                remove_server(EmbeddedServer(home))
        except BlockingIOError:
            continue
        finally:
            os.close(folder)


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The URL of a server on which databases may be made."""
    if url := os.environ.get("BATCHPROC_TEST_DATABASE_URL"):
        yield url
        return
    remove_leftovers()
    server = EmbeddedServer(new_home())
    try:
        server.start()
        with connect(server.url) as connection:
            # Making and dropping a database for each test waits for the disk otherwise. A killed server recovers all
            # the same; only a lost machine would not.
            connection.execute("alter system set fsync = off")
            connection.execute("select pg_reload_conf()")
        yield server.url
    finally:
        remove_server(server)


@pytest.fixture(scope="session")
def template_database(server_url: str) -> Iterator[str]:
    """The name of a migrated, empty database that the tests' databases are copied from."""
    name = f"batchproc_test_{uuid4().hex[:12]}"
    with connect(server_url) as server:
        server.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            with connect(database_on(server_url, name)) as connection:
                migrate.apply(connection)
            yield name
        finally:
            server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def database_url(server_url: str, template_database: str) -> Iterator[str]:
    """The URL of a migrated, empty database of the test's own."""
    name = f"{template_database}_{next(_numbers)}"
    with connect(server_url) as server:
        server.execute(
            sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template_database))
        )
        try:
            yield database_on(server_url, name)
        finally:
            server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def empty_database_url(server_url: str) -> Iterator[str]:
    """The URL of a database without batchproc's schema."""
    name = f"batchproc_test_{uuid4().hex[:12]}"
    with connect(server_url) as server:
        server.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            yield database_on(server_url, name)
        finally:
            server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
