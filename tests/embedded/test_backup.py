"""Dump and restore keep everything, and never leave half of it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.database import connect
from batchproc.embedded import EmbeddedServer


@pytest.fixture
def server(shared_server: EmbeddedServer) -> EmbeddedServer:
    """A running server, its database empty."""
    shared_server.start()
    with connect(shared_server.url) as connection:
        connection.execute("drop schema if exists kept cascade")
    return shared_server


def fill(server: EmbeddedServer, number: int) -> None:
    with connect(server.url) as connection:
        connection.execute("create schema kept")
        connection.execute("create table kept.numbers (number int)")
        connection.execute("insert into kept.numbers values (%s)", [number])


def numbers(server: EmbeddedServer) -> list[int]:
    with connect(server.url) as connection:
        return [row[0] for row in connection.execute("select number from kept.numbers").fetchall()]


def test_a_dump_is_restored_into_an_empty_database(server: EmbeddedServer, tmp_path: Path) -> None:
    fill(server, 7)
    file = tmp_path / "-a dump"
    server.dump(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with connect(server.url) as connection:
        connection.execute("drop schema kept cascade")
    server.restore(file)
    assert numbers(server) == [7]


def test_a_database_with_content_is_only_replaced_when_told(server: EmbeddedServer, tmp_path: Path) -> None:
    fill(server, 7)
    server.dump(tmp_path / "dump")
    with connect(server.url) as connection:
        connection.execute("update kept.numbers set number = 8")
    with pytest.raises(UsageError, match="not empty"):
        server.restore(tmp_path / "dump")
    assert numbers(server) == [8]
    server.restore(tmp_path / "dump", clean=True)
    assert numbers(server) == [7]


def test_a_failed_restore_changes_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    fill(server, 7)
    server.dump(tmp_path / "dump")
    whole = (tmp_path / "dump").read_bytes()
    (tmp_path / "dump").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(EnvironmentFault, match="pg_restore failed"):
        server.restore(tmp_path / "dump", clean=True)
    assert numbers(server) == [7]
    with connect(server.url) as connection:
        databases = connection.execute("select datname from pg_database where not datistemplate").fetchall()
    assert {name for (name,) in databases} == {"batchproc", "postgres"}


def test_a_database_in_use_is_not_replaced(server: EmbeddedServer, tmp_path: Path) -> None:
    fill(server, 7)
    server.dump(tmp_path / "dump")
    with connect(server.url), pytest.raises(EnvironmentFault, match="1 sessions are connected"):
        server.restore(tmp_path / "dump", clean=True)
    assert numbers(server) == [7]


def test_a_failed_dump_keeps_the_old_file(server: EmbeddedServer, tmp_path: Path) -> None:
    file = tmp_path / "dump"
    server.dump(file)
    good = file.read_bytes()
    server.stop()
    with pytest.raises(EnvironmentFault, match="pg_dump failed"):
        server.dump(file)
    assert file.read_bytes() == good
    assert list(tmp_path.iterdir()) == [file]


def test_what_does_not_exist_is_said(server: EmbeddedServer, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="cannot write the dump"):
        server.dump(tmp_path / "absent" / "dump")
    with pytest.raises(UsageError, match="no file"):
        server.restore(tmp_path / "absent")
