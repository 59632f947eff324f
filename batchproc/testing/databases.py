"""PostgreSQL for tests: a server for as long as they last, and databases on it that are copied from a migrated one."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from uuid import uuid4

from psycopg import sql
from psycopg.conninfo import make_conninfo

from batchproc.database import connect
from batchproc.embedded import EmbeddedServer
from batchproc.queue import migrate

SERVER_VARIABLE = "BATCHPROC_TEST_DATABASE_URL"
_HOME_PREFIX = "batchproc-test-"


def database_on(server_url: str, name: str) -> str:
    """The URL (or keyword string) of another database of the same server."""
    scheme, is_url, rest = server_url.partition("://")
    if is_url:
        address, _, query = rest.partition("?")
        return f"{scheme}://{address.partition('/')[0]}/{name}" + (f"?{query}" if query else "")
    return make_conninfo(server_url, dbname=name)


@contextmanager
def temporary_server() -> Iterator[str]:
    """The URL of a server on which databases may be made.

    It is the one in ``BATCHPROC_TEST_DATABASE_URL``, whose user must be a superuser or the owner of what it makes; else
    an embedded one in a folder below /tmp, which is stopped and removed at the end. What test runs that were killed
    have left there is removed first.
    """
    if url := os.environ.get(SERVER_VARIABLE):
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


@contextmanager
def empty_database(server_url: str, name: str | None = None, template: str | None = None) -> Iterator[str]:
    """The name of a new database, dropped at the end with whatever is connected to it.

    Args:
        template: a database that it is a copy of; nobody may be connected to that one meanwhile.
    """
    name = name or f"batchproc_test_{uuid4().hex[:12]}"
    copied = sql.Identifier(template or "template1")  # the one that PostgreSQL copies where none is named
    with connect(server_url) as server:
        server.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), copied))
        try:
            yield name
        finally:
            server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@dataclass(frozen=True, slots=True)
class Databases:
    """Migrated, empty databases, copied from one that was migrated once."""

    server_url: str
    template: str
    _numbers: count[int] = field(default_factory=lambda: count(1))

    @contextmanager
    def new(self) -> Iterator[str]:
        """The URL of a database of one's own, dropped at the end."""
        name = f"{self.template}_{next(self._numbers)}"
        with empty_database(self.server_url, name, self.template):
            yield database_on(self.server_url, name)


@contextmanager
def temporary_databases(server_url: str) -> Iterator[Databases]:
    """Gives out databases of this server until the end."""
    with empty_database(server_url) as template:
        with connect(database_on(server_url, template)) as connection:
            migrate.apply(connection)
        yield Databases(server_url, template)


def new_home() -> Path:
    """An empty home folder, with a path short enough for a socket; to be given to ``remove_server`` in the end."""
    return Path(tempfile.mkdtemp(prefix=f"{_HOME_PREFIX}{os.getpid()}-", dir="/tmp"))


def remove_server(server: EmbeddedServer) -> None:
    """Stops a server and deletes all it had."""
    server.stop("immediate")
    for folder in {server.place.base, server.place.home}:
        shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers() -> None:
    """Removes the servers of test runs that were killed; several processes may do so at once."""
    for home in Path("/tmp").glob(f"{_HOME_PREFIX}*"):  # noqa: S108 - only those of this user are taken
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
