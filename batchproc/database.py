"""Connections and SQL files: what every module that talks to PostgreSQL shares."""

from __future__ import annotations

import os
import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Self

import psycopg
from psycopg import Connection, Cursor, Pipeline, Transaction
from psycopg.abc import RV, PQGen, PQGenConn
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import TupleRow
from psycopg.waiting import Ready

from batchproc.core.errors import EnvironmentFault, UsageError

SCHEMA = "batchproc"
_SUFFIX = ".sql"
_QUALIFIER = re.compile(r"\bbatchproc\.")
_UNREADABLE = "(a database URL that cannot be read)"
_NO_OPTIONS = "unsupported startup parameter"
_SET_LOCAL = """
    select set_config(name, setting, true) from unnest(%s::text[], %s::text[]) as given(name, setting)
"""
_SECRET = b"*"  # libpq's mark of a parameter that is not to be displayed
# On time.monotonic: when a connection that is being opened is given up. psycopg knows whole seconds, two at least, for
# each of several hosts.
_GIVE_UP: ContextVar[float | None] = ContextVar("give_up", default=None)


class Unreachable(EnvironmentFault):
    """The server cannot be reached, or lets nobody in."""


class SqlFolder:
    """The statements of one package's folder of ``.sql`` files, one statement each.

    They lie in it or in folders below it, which are for people to find their way by: a statement is asked for by its
    name alone, which no other has.

    Files name their tables with the schema ``batchproc.``, so that they run as they are in psql; another
    configured schema takes its place here. Qualified names, not a search path: they also hold behind a
    transaction pooler.

    Args:
        package: the package whose folder ``folder`` holds the files, such as ``batchproc.queue``.
        schema: the configured schema; validated by the settings as an identifier.

    Raises:
        ValueError: two files have the same name.
    """

    def __init__(self, package: str, schema: str = SCHEMA, folder: str = "sql") -> None:
        self._package = package
        self._files = _files_by_name(package, folder)
        self._qualifier = '"' + schema.replace('"', '""') + '".'
        self._statements: dict[str, bytes] = {}

    def __getitem__(self, name: str) -> bytes:
        """The statement of file ``name.sql``; raises FileNotFoundError for a name that does not exist."""
        statement = self._statements.get(name)
        if statement is None:
            file = self._files.get(name)
            if file is None:
                raise FileNotFoundError(f"{self._package} has no statement {name}")
            statement = self._statements[name] = self._statement(file.read_text("utf-8"))
        return statement

    def _statement(self, text: str) -> bytes:
        # Comments are dropped: a percent sign or a quote in one would be taken for a placeholder.
        bare = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
        return _QUALIFIER.sub(lambda _: self._qualifier, bare).encode()


@cache
def _files_by_name(package: str, folder: str) -> Mapping[str, Traversable]:
    found: dict[str, Traversable] = {}
    for file in _sql_files(resources.files(package).joinpath(folder)):
        name = file.name.removesuffix(_SUFFIX)
        if name in found:
            raise ValueError(f"two files of one name: {found[name]} and {file}")
        found[name] = file
    return found


def _sql_files(folder: Traversable) -> Iterator[Traversable]:
    for entry in folder.iterdir():
        if entry.name.endswith(_SUFFIX):
            yield entry
        elif entry.is_dir():
            yield from _sql_files(entry)


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


class Session(Connection[TupleRow]):
    """A connection that does not wait for ever, and works behind a transaction pooler.

    There each transaction may reach another backend. So nothing is left in the session: no prepared statements, and
    the settings it should have are given to each of its transactions. LISTEN and session-level locks are for the
    caller to leave alone.

    Attributes:
        pooled: a pooler stands between this and the server.
        patience: seconds that the server may take for one call; then the connection is closed and the call raises
            OperationalError. A function is asked at each call. None waits for as long as the network seems to be there.
    """

    pooled = False
    patience: float | Callable[[], float] | None = None
    _of_each_transaction: list[list[str]] | None = None

    def wait(self, gen: PQGen[RV], *arguments: Any, **named: Any) -> RV:
        """As psycopg's, within the patience."""
        if self.patience is None:
            return super().wait(gen, *arguments, **named)
        seconds = self.patience() if callable(self.patience) else self.patience
        return super().wait(self._within(seconds, gen), *arguments, **named)

    def execute(self, *arguments: Any, **named: Any) -> Cursor[TupleRow]:
        """As psycopg's; a statement outside of a transaction takes the settings along, in the same round trip."""
        if not self._lacks_settings():
            return super().execute(*arguments, **named)
        with self.pipeline():
            return super().execute(*arguments, **named)

    @contextmanager
    def pipeline(self) -> Iterator[Pipeline]:
        """As psycopg's; its implicit transaction begins with the settings."""
        lacks = self._lacks_settings()
        with super().pipeline() as pipeline:
            if lacks:
                super().execute(_SET_LOCAL, self._of_each_transaction)
            yield pipeline

    @contextmanager
    def transaction(self, savepoint_name: str | None = None, force_rollback: bool = False) -> Iterator[Transaction]:
        """As psycopg's; the transaction begins with the settings."""
        lacks = self._lacks_settings()
        with super().transaction(savepoint_name, force_rollback) as transaction:
            if lacks:
                super().execute(_SET_LOCAL, self._of_each_transaction)
            yield transaction

    def look_for_pooler(self, settings: Mapping[str, str], patience: float) -> None:
        """Finds out whether this is pooled; ``settings`` are then those of each transaction.

        Raises:
            psycopg.Error: the connection is gone, and closed.
        """
        self.patience = patience
        try:
            self.pooled = is_pooled(self)
        except psycopg.Error:
            self.close()
            raise
        if self.pooled:
            self.prepare_threshold = None
            self._of_each_transaction = [list(settings), list(settings.values())] if settings else None

    def _lacks_settings(self) -> bool:
        return (
            self._of_each_transaction is not None
            and self.info.transaction_status is TransactionStatus.IDLE
            and self.info.pipeline_status is PipelineStatus.OFF
        )

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> PQGenConn[Self]:
        gen, give_up = super()._connect_gen(conninfo), _GIVE_UP.get()
        if give_up is None:
            return (yield from gen)
        try:
            waits_for = next(gen)
            while True:
                ready = yield waits_for
                if ready is Ready.NONE and time.monotonic() > give_up:
                    raise psycopg.errors.ConnectionTimeout("connection timeout expired")
                waits_for = gen.send(ready)
        except StopIteration as ended:
            opened: Self = ended.value
            return opened

    def _within(self, seconds: float, gen: PQGen[RV]) -> PQGen[RV]:
        # psycopg comes back at least every 0.1 s, with Ready.NONE when nothing was there.
        give_up = time.monotonic() + seconds
        try:
            waits_for = next(gen)
            while True:
                ready = yield waits_for
                if ready is Ready.NONE and time.monotonic() > give_up:
                    self.close()
                    raise psycopg.OperationalError(f"the database did not answer for {seconds:g} s")
                waits_for = gen.send(ready)
        except StopIteration as ended:
            result: RV = ended.value
            return result


def is_lost(error: BaseException) -> bool:
    """Whether it says that the database went away, or takes nothing at present, rather than that a statement is wrong.

    By the SQLSTATE (PostgreSQL, appendix A): none at all from a connection that broke, 08 connection, 25006 only reads,
    53300 too many connections, 57P01 to 57P05 shut down, crashed, starting, dropped or idle for too long.
    """
    if isinstance(error, psycopg.OperationalError | psycopg.InternalError):
        state = error.sqlstate
        return state is None or state[:2] == "08" or state[:4] == "57P0" or state in ("25006", "53300")
    return isinstance(error, Unreachable)


def is_pooled(connection: Connection[Any]) -> bool:
    """Whether a transaction pooler is in between: another process works for us than the one that greeted us.

    Raises:
        psycopg.Error: the connection is gone.
    """
    if isinstance(connection, Session) and connection.pooled:
        return True
    row = connection.execute("select pg_backend_pid()").fetchone()
    return row is None or row[0] != connection.info.backend_pid


def require_session(connection: Connection[Any], what: str) -> None:
    """Raises UsageError when ``what``, which needs a session of its own, is behind a transaction pooler."""
    if is_pooled(connection):
        raise UsageError(
            f"the database is behind a transaction pooler, where {what} cannot work",
            "set database.direct_url to the database past the pooler",
        )


def connect(
    url: str,
    *,
    application_name: str = "batchproc",
    connect_timeout: int = 10,
    settings: Mapping[str, str] | None = None,
    patience: float | Callable[[], float] | None = None,
    within: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Session:
    """An autocommit connection with keepalives, by which a dead network is noticed within about a minute.

    Args:
        url: a libpq URL or keyword string.
        settings: of the session, such as ``{"lock_timeout": "5s"}``; they are added to what the URL's (or PGOPTIONS')
            ``options`` set, and win over it. Behind a transaction pooler they are set in each transaction.
        patience: see ``Session``.
        within: seconds that connecting may take at all, with ``connect_timeout`` for each of the URL's hosts.
        options: further libpq parameters, such as ``{"tcp_user_timeout": 10_000}``.

    Raises:
        UsageError: the URL cannot be read.
        Unreachable: the server cannot be reached or refuses.
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
    settings = settings or {}
    give_up = None if within is None else time.monotonic() + within
    before = _GIVE_UP.set(give_up)
    try:
        session = _opened(url, parameters, settings)
        left = connect_timeout if give_up is None else min(connect_timeout, max(0.0, give_up - time.monotonic()))
        session.look_for_pooler(settings, left)
    except psycopg.ProgrammingError:
        # The text of libpq would quote the URL, with its password.
        raise _unreadable_url() from None
    except psycopg.Error as error:
        # Else the socket of an attempt that timed out would stay open until the next garbage collection.
        traceback.clear_frames(error.__traceback__)
        shown = redacted(url)
        if shown == _UNREADABLE:
            raise _unreadable_url() from None
        reason = " ".join(str(error).split()).rstrip("?")
        raise Unreachable(
            f"cannot connect to the database ({shown}): {reason}",
            "check that the server runs and that database.url is right (batchproc doctor)",
        ) from None
    finally:
        _GIVE_UP.reset(before)
    session.patience = patience
    return session


def _opened(url: str, parameters: Mapping[str, Any], settings: Mapping[str, str]) -> Session:
    if not settings:
        return Session.connect(url, autocommit=True, **parameters)
    # As libpq wants it: a backslash before what would end a word.
    own = " ".join(f"-c {name}=" + re.sub(r"([\\\s])", r"\\\1", value) for name, value in settings.items())
    given = conninfo_to_dict(url).get("options") or os.environ.get("PGOPTIONS", "")
    try:
        return Session.connect(url, autocommit=True, **parameters, options=f"{given} {own}".strip())
    except psycopg.OperationalError as error:
        if _NO_OPTIONS not in str(error):
            raise
        # pgbouncer, as it comes: it knows no settings of a session.
        return Session.connect(url, autocommit=True, **parameters)


def _unreadable_url() -> UsageError:
    return UsageError(
        "the database URL cannot be read",
        "give it as postgresql://USER@HOST:PORT/NAME, with characters such as @ : / ? % in user or password"
        " percent-encoded",
    )
