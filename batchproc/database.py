"""Connections and SQL files: what every module that talks to PostgreSQL shares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from batchproc.core.errors import EnvironmentFault, UsageError

SCHEMA = "batchproc"
_QUALIFIER = re.compile(r"\bbatchproc\.")
_UNREADABLE = "(a database URL that cannot be read)"
_SECRET = b"*"  # libpq's mark of a parameter that is not to be displayed


class SqlFolder:
    """The statements of one package's folder of ``.sql`` files, one statement each.

    Files name their tables with the schema ``batchproc.``, so that they run as they are in psql; another
    configured schema takes its place here. Qualified names, not a search path: they also hold behind a
    transaction pooler.

    Args:
        package: the package whose folder ``folder`` holds the files, such as ``batchproc.queue``.
        schema: the configured schema; validated by the settings as an identifier.
    """

    def __init__(self, package: str, schema: str = SCHEMA, folder: str = "sql") -> None:
        self._package = package
        self._folder = folder
        self._qualifier = '"' + schema.replace('"', '""') + '".'
        self._statements: dict[str, bytes] = {}

    def __getitem__(self, name: str) -> bytes:
        """The statement of file ``name.sql``; raises FileNotFoundError for a name that does not exist."""
        statement = self._statements.get(name)
        if statement is None:
            text = resources.files(self._package).joinpath(self._folder, f"{name}.sql").read_text("utf-8")
            statement = self._statements[name] = self._statement(text)
        return statement

    def _statement(self, text: str) -> bytes:
        # Comments are dropped: a percent sign or a quote in one would be taken for a placeholder.
        bare = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
        return _QUALIFIER.sub(lambda _: self._qualifier, bare).encode()


def redacted(url: str) -> str:
    """The parameters of a libpq URL or keyword string without its secrets, fit for a log or an error.

    libpq itself takes the URL apart, so that nothing is shown that it would take for a password. A password whose
    ``@ : /`` are not percent-encoded lands elsewhere; a URL that looks so is not shown at all.
    """
    try:
        options = psycopg.pq.Conninfo.parse(url.encode())
        shown = {
            option.keyword.decode(): option.val.decode()
            for option in options
            if option.val is not None and option.dispchar != _SECRET
        }
    except (psycopg.Error, UnicodeError):
        return _UNREADABLE
    hosts = shown.get("host", "").split(",")
    ports = shown.get("port", "").replace(",", "")
    misread = "@" in shown.get("dbname", "") or any("@" in host[1:] for host in hosts)
    return _UNREADABLE if misread or not (ports.isdecimal() or not ports) else make_conninfo("", **shown)


def connect(
    url: str,
    *,
    application_name: str = "batchproc",
    connect_timeout: int = 10,
    options: Mapping[str, Any] | None = None,
) -> Connection[TupleRow]:
    """An autocommit connection with keepalives, by which a silent server is noticed within about a minute.

    Args:
        url: a libpq URL or keyword string.
        options: further libpq parameters, such as ``{"options": "-c lock_timeout=5s"}``.

    Raises:
        UsageError: the URL cannot be read.
        EnvironmentFault: the server cannot be reached or refuses.
    """
    parameters: dict[str, Any] = {
        "application_name": application_name,
        "connect_timeout": connect_timeout,
        "keepalives": 1,
        "keepalives_idle": 20,
        "keepalives_interval": 5,
        "keepalives_count": 4,
        "tcp_user_timeout": 40_000,
        **(options or {}),
    }
    try:
        return psycopg.connect(url, autocommit=True, **parameters)
    except psycopg.ProgrammingError:
        # The text of libpq would quote the URL, with its password.
        raise _unreadable_url() from None
    except psycopg.OperationalError as error:
        shown = redacted(url)
        if shown == _UNREADABLE:
            raise _unreadable_url() from None
        reason = " ".join(str(error).split()).rstrip("?")
        raise EnvironmentFault(
            f"cannot connect to the database ({shown}): {reason}",
            "check that the server runs and that database.url is right (batchproc doctor)",
        ) from None


def _unreadable_url() -> UsageError:
    return UsageError(
        "the database URL cannot be read",
        "give it as postgresql://USER@HOST:PORT/NAME, with characters such as @ : / ? % in user or password"
        " percent-encoded",
    )
