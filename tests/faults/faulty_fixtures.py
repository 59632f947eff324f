"""Fixtures of the database's faults; a test module names this one in ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from batchproc.embedded import EmbeddedServer
from tests.database import database_on, new_home, remove_server
from tests.engine.running import bench_on
from tests.faults.faulty_server import FaultyBench, FaultyServer, Nodes
from tests.faults.invariants import assert_left_alone, assert_sound
from tests.faults.proxy import Proxy


@pytest.fixture(scope="session")
def faulty_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """The home of a stopped server with an empty, migrated database to copy."""
    tmp_path_factory.getbasetemp()  # made now, not in the temp folder of a test
    embedded = EmbeddedServer(new_home())
    try:
        server = FaultyServer(embedded)
        server.start()
        server.make_template()
        server.stop()
        yield embedded
    finally:
        remove_server(embedded)


@pytest.fixture
def faulty_server(faulty_home: EmbeddedServer, temp_folder: Path) -> Iterator[FaultyServer]:
    """A running server for one test to break; nothing is left of it, nor of anything else, in the end."""
    server = FaultyServer(faulty_home)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def faulty_bench(faulty_server: FaultyServer) -> Iterator[FaultyBench]:
    """A fresh database on it; in the end its invariants hold, and nobody is connected."""
    name = faulty_server.new_database()
    made = bench_on(database_on(faulty_server.embedded.url, name))
    bench = FaultyBench(made.url, made.connection)
    bench.server, bench.name = faulty_server, name
    try:
        yield bench
        bench.reconnect()
        assert_sound(bench.connection)
        assert_left_alone(bench.connection)
    finally:
        bench.connection.close()


@pytest.fixture
def proxy(faulty_server: FaultyServer) -> Iterator[Proxy]:
    """In front of the server's socket."""
    made = Proxy(faulty_server.embedded.place.sockets / ".s.PGSQL.5432")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def nodes(faulty_bench: FaultyBench, tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    try:
        yield made
    finally:
        made.end()
