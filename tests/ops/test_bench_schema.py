"""The schemas of benches: none is left for long, and none of a living bench is taken away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from loguru import logger
from psycopg import sql

from batchproc.database import Unreachable, connect
from batchproc.ops.bench.schema import Urls, bench_schema, drop_left
from batchproc.settings import Settings
from tests.ops.test_bench import schemas
from tests.waiting import wait_until

LEFT = "batchproc_bench_0123456789ab"


@contextmanager
def logged() -> Iterator[list[str]]:
    """What is logged meanwhile, from warnings on."""
    lines: list[str] = []
    sink = logger.add(lambda message: lines.append(str(message)), level="WARNING")
    try:
        yield lines
    finally:
        logger.remove(sink)


def test_a_database_that_is_not_there_is_told_without_a_word_about_a_schema() -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    with logged() as lines, pytest.raises(Unreachable), bench_schema(Settings(), Urls(nowhere, nowhere)):
        pass
    assert lines == []


def test_what_a_killed_bench_left_is_dropped_by_the_next(database_url: str) -> None:
    with connect(database_url) as connection:
        connection.execute(f"create schema {LEFT} create table jobs (n int)".encode())
        connection.execute(b"create schema batchproc_bench_mine")
        try:
            with bench_schema(Settings(), Urls(database_url, database_url)) as schema:
                assert schemas(database_url) == {"batchproc", "batchproc_bench_mine", schema.name}
        finally:
            connection.execute(b"drop schema batchproc_bench_mine")
    assert schemas(database_url) == {"batchproc"}


def test_the_schema_of_a_living_bench_is_left_alone(database_url: str) -> None:
    urls = Urls(database_url, database_url)
    with bench_schema(Settings(), urls) as first, bench_schema(Settings(), urls) as second:
        assert schemas(database_url) == {"batchproc", first.name, second.name}


def test_what_cannot_be_dropped_is_named_with_its_statement(database_url: str) -> None:
    with connect(database_url) as connection:
        connection.execute(f"create schema {LEFT}".encode())
        connection.execute(b"create role t_bench")
        try:
            with logged() as lines, connect(database_url) as other:
                other.execute(b"set role t_bench")
                assert drop_left(other) == []
            assert len(lines) == 1
            assert f"drop schema {LEFT} cascade" in lines[0]
        finally:
            connection.execute(f"drop schema {LEFT}".encode())
            connection.execute(b"drop role t_bench")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_latency_bench_ends_at_once_with_its_application(database_url: str, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "batchproc", "--database", database_url, "bench", "latency"]
    with subprocess.Popen(
        [*command, "--jobs", "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as bench:
        try:
            wait_until(lambda: _started(database_url) > 12, 60, "jobs after those that warm up")
            os.killpg(bench.pid, number)  # as a terminal does it
            _, said = bench.communicate(timeout=30)
        finally:
            bench.kill()
    wait_until(lambda: not _sessions(database_url), 30, "the end of the application")
    assert "Traceback" not in said
    if number != signal.SIGKILL:
        assert bench.returncode == 130, said
        assert "stopped" in said
        assert schemas(database_url) == {"batchproc"}
        return
    with bench_schema(Settings(), Urls(database_url, database_url)) as schema:
        assert schemas(database_url) == {"batchproc", schema.name}


def _started(database_url: str) -> int:
    """Jobs of the bench that have ended."""
    found = schemas(database_url) - {"batchproc"}
    with connect(database_url) as connection:
        for name in found:
            if connection.execute("select to_regclass(%s)", [f"{name}.processing_jobs"]).fetchone() != (None,):
                statement = sql.SQL("select count(*) from {}.processing_jobs where state = 'completed'")
                row = connection.execute(statement.format(sql.Identifier(name))).fetchone()
                assert row is not None
                return int(row[0])
    return 0


def _sessions(database_url: str) -> list[str]:
    with connect(database_url) as connection:
        rows = connection.execute(
            "select application_name from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        )
        return [row[0] for row in rows.fetchall()]
