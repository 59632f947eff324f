"""Dump and restore of a database with PostgreSQL's own programs; neither leaves anything half done."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg
from psycopg import sql

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.database import connect
from batchproc.embedded.running import run_to_end

_COUNT_CLIENTS = "select count(*) from pg_stat_activity where datname = %s and backend_type = 'client backend'"
_HAS_CONTENT = """
    select exists (select from pg_namespace
                   where nspname !~ '^pg_' and nspname not in ('information_schema', 'public'))
        or exists (select from pg_class where relnamespace = 'public'::regnamespace)
"""


def dump_database(programs: Path, url: str, file: Path) -> None:
    """Writes the database at ``url`` to ``file``, which appears when it is complete.

    Args:
        programs: the folder with pg_dump.

    Raises:
        EnvironmentFault: pg_dump failed, or the file cannot be written.
    """
    if file.exists() and not file.is_file():
        raise UsageError(f"{file} is no regular file", "name a file to write the dump to")
    making = file.with_name(f".{file.name}.{os.getpid()}.making")
    try:
        # pg_dump keeps the permissions of a file that exists. The archive holds the tenants' documents' text.
        os.close(os.open(making, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            _run([str(programs / "pg_dump"), "--format=custom", f"--file={making}", f"--dbname={url}"])
            with making.open("rb") as written:
                os.fsync(written.fileno())
            making.replace(file)
        finally:
            making.unlink(missing_ok=True)
    except OSError as error:
        raise EnvironmentFault(f"cannot write the dump {file}: {error.strerror}", "choose another folder") from error


def restore_database(programs: Path, url_of: Callable[[str], str], name: str, file: Path, *, clean: bool) -> None:
    """Fills the database ``name`` from ``file``: into a new one, which takes the old one's place when complete.

    Args:
        programs: the folder with pg_restore.
        url_of: the URL of a database of that server.
        clean: replace what is there; else a database with anything in it is refused.

    Raises:
        UsageError: there is no such file, or the database is not empty.
        EnvironmentFault: the file is no dump, or somebody is connected.
    """
    if not file.is_file():
        raise UsageError(f"there is no file {file} to restore from", "give a file that db dump wrote")
    restoring, replaced = f"{name}_restoring", f"{name}_replaced"
    with connect(url_of("postgres")) as server:
        _refuse_clients(server, name)
        if not clean:
            _refuse_content(url_of(name))
        _drop(server, restoring, replaced)
        server.execute(sql.SQL("create database {}").format(sql.Identifier(restoring)))
        try:
            options = ["--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges"]
            _run([str(programs / "pg_restore"), *options, f"--dbname={url_of(restoring)}", "--", str(file)])
            _swap(server, name, restoring, replaced)
        finally:
            _drop(server, restoring, replaced)


def _refuse_clients(server: psycopg.Connection, name: str) -> None:
    row = server.execute(_COUNT_CLIENTS, [name]).fetchone()
    if row and row[0]:
        raise EnvironmentFault(
            f"{row[0]} sessions are connected to the database", "end batchproc's runs and other clients, then restore"
        )


def _refuse_content(url: str) -> None:
    with connect(url) as connection:
        row = connection.execute(_HAS_CONTENT).fetchone()
    if row and row[0]:
        raise UsageError("the database is not empty", "--clean replaces all that it holds")


def _swap(server: psycopg.Connection, name: str, restored: str, replaced: str) -> None:
    rename = sql.SQL("alter database {} rename to {}")
    try:
        with server.transaction():
            server.execute(rename.format(sql.Identifier(name), sql.Identifier(replaced)))
            server.execute(rename.format(sql.Identifier(restored), sql.Identifier(name)))
    except psycopg.errors.ObjectInUse:
        raise EnvironmentFault(
            "somebody connected to the database while it was restored; it is as it was",
            "end batchproc's runs and other clients, then restore",
        ) from None


def _drop(server: psycopg.Connection, *names: str) -> None:
    for name in names:
        server.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def _run(command: Sequence[str]) -> None:
    # What the caller's PG* variables say is meant for other servers.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    # Without a limit of time: it takes as long as there is data.
    result = run_to_end(command, env=environment)
    if result.returncode != 0:
        reason = " ".join(result.stderr.split())
        raise EnvironmentFault(f"{Path(command[0]).name} failed: {reason}", "nothing was changed")
