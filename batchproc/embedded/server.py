"""The embedded PostgreSQL: a server for each home folder, started when needed and left running.

Local and private: a socket in a folder of its own, no TCP, no password; the operating system vouches for who connects
(``peer``), and only the user that the server runs as, and root where root started it, may. A server is a child of
nobody: it outlives the command that started it, in its own session, with its log as its standard streams.
"""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Literal
from urllib.parse import quote, urlencode

import psycopg
from loguru import logger

from batchproc.core.errors import BatchprocError, EnvironmentFault
from batchproc.database import connect
from batchproc.embedded.backup import dump_database, restore_database
from batchproc.embedded.place import (
    MAJOR_VERSION,
    PORT,
    check_socket_path,
    default_home,
    make_base,
    make_sockets,
    place_of,
    reporting_faults,
    server_account,
    shipped_software,
    software_for,
    warn_of_another_server,
)
from batchproc.embedded.postmaster import (
    PID_FILE,
    Postmaster,
    Waiting,
    find_postmaster,
    hold,
    is_held,
    locked,
    remove_stale_files,
)
from batchproc.embedded.programs import DATABASE, ROLE, Programs, tail

__all__ = ["DATABASE", "ROLE", "EmbeddedServer", "ServerStatus", "default_home"]

StopMode = Literal["smart", "fast", "immediate"]
_STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

_LOG_LIMIT = 10_000_000  # bytes; one older log is kept
# Backends of a killed server end by themselves once they notice; longer than this, something is wrong.
_ORPHANS_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What ``db status`` shows. ``state`` is starting, ready or stopping, or stopped or absent when not running."""

    running: bool
    state: str
    pid: int | None
    version: str | None
    url: str
    data_directory: Path
    socket_directory: Path
    log_file: Path


class EmbeddedServer:
    """The server of one home folder.

    Args:
        home: batchproc's folder, usually ``default_home(os.environ)``; need not exist yet.
    """

    def __init__(self, home: Path) -> None:
        self.place = place_of(home)
        self._reviving: Thread | None = None

    @property
    def url(self) -> str:
        """The connection URL; it needs no password, and the server need not run."""
        return self._url_of(DATABASE)

    def start(self) -> None:
        """Starts the server unless it runs, making its data folder at first; returns when it accepts connections.

        Recovery after a crash is waited for, however long it takes. Two that start at once do not collide.

        Raises:
            UsageError: the folder's path cannot be used for a socket.
            EnvironmentFault: the server did not come up; the message ends with its log.
        """
        check_socket_path(self.place)
        with reporting_faults(self.place):
            found = self._find()
            if found and found.state == "ready" and self._log_size() <= _LOG_LIMIT:
                return
            make_base(self.place)
            with locked(self.place.command_lock, "starting it"):
                self._bound_log()
                self._await_earlier_server()
                if self._find() is None:
                    self._start_new()
                self._await_ready()

    @property
    def pid(self) -> int | None:
        """The server's process; None when it does not run."""
        found = self._find()
        return found.pid if found else None

    def revive(self) -> None:
        """Starts the server again if it was killed, in a thread, and returns at once.

        Not when somebody stopped it: then its pid file is gone.
        """
        if self._reviving is not None and self._reviving.is_alive():
            return
        if self._find() is None and (self.place.data / PID_FILE).exists():
            logger.warning("the embedded PostgreSQL has died: starting it again")
            self._reviving = Thread(target=self._start_or_say, name="database-start", daemon=True)
            self._reviving.start()

    def _start_or_say(self) -> None:
        try:
            self.start()
        except BatchprocError as error:
            logger.error("the embedded PostgreSQL could not be started again: {}", error)

    def stop(self, mode: StopMode = "fast") -> bool:
        """Stops the server and waits until all its processes are gone. Returns whether one was running.

        Args:
            mode: as pg_ctl has it: ``smart`` waits for clients to leave, ``fast`` ends their transactions,
                ``immediate`` is a crash that the next start recovers from.
        """
        if self._find() is None:
            return False
        with reporting_faults(self.place), locked(self.place.command_lock, "stopping it"):
            found = self._find()
            if found is None:
                return False
            os.kill(found.pid, _STOP_SIGNALS[mode])
            waiting = Waiting("waiting for the database to stop")
            while self._is_alive():
                waiting.pause()
        return True

    def status(self) -> ServerStatus:
        """Whether and what is running; changes nothing."""
        with reporting_faults(self.place):
            found = self._find()
            state = found.state if found else "stopped" if self.place.data.is_dir() else "absent"
            return ServerStatus(
                running=found is not None,
                state=state,
                pid=found.pid if found else None,
                version=self._version(state),
                url=self.url,
                data_directory=self.place.data,
                socket_directory=self.place.sockets,
                log_file=self.place.log,
            )

    def psql_command(self) -> list[str]:
        """The command line of an interactive session with the (running) server."""
        return [str(shipped_software() / "bin" / "psql"), f"--dbname={self.url}"]

    def dump(self, file: Path) -> None:
        """Writes the whole database to ``file`` (pg_dump's custom format); the server has to run.

        The file appears when it is complete, readable by its owner only.

        Raises:
            EnvironmentFault: pg_dump failed.
        """
        dump_database(shipped_software() / "bin", self.url, file)

    def restore(self, file: Path, *, clean: bool = False) -> None:
        """Fills the database from a ``dump``; the server has to run. When it fails, the database is as before.

        Args:
            clean: replace what the database holds, instead of refusing when it holds anything.

        Raises:
            UsageError: there is no such file, or the database is not empty.
            EnvironmentFault: the file is no dump, or somebody is connected to the database.
        """
        with reporting_faults(self.place), locked(self.place.command_lock, "restoring it"):
            restore_database(shipped_software() / "bin", self._url_of, DATABASE, file, clean=clean)

    def _url_of(self, database: str) -> str:
        parameters = {"host": os.fsencode(self.place.sockets), "port": PORT, "user": ROLE}
        return f"postgresql:///{database}?{urlencode(parameters, quote_via=quote, safe='/')}"

    def _find(self) -> Postmaster | None:
        return find_postmaster(self.place.data)

    def _is_alive(self) -> bool:
        return is_held(self.place.server_lock) or self._find() is not None

    def _version(self, state: str) -> str | None:
        if state == "ready":
            try:
                with connect(self.url, connect_timeout=5) as connection:
                    return str(connection.execute("show server_version").fetchall()[0][0])
            except (EnvironmentFault, psycopg.Error) as error:
                logger.debug("cannot ask the database for its version: {}", error)
        return self._data_version()

    def _data_version(self) -> str | None:
        try:
            return (self.place.data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            return None

    def _await_earlier_server(self) -> None:
        """Waits for a server that is stopping, and for what a killed one left behind."""
        waiting = Waiting("waiting for the processes of an earlier start of the database to end")
        while self._is_alive():
            found = self._find()
            if found and found.state != "stopping":
                return
            if not found and waiting.seconds > _ORPHANS_PATIENCE:
                raise EnvironmentFault(
                    f"processes of an earlier start still use {self.place.base}",
                    f"end them (fuser {self.place.server_lock} names them), in other containers too, and start again",
                )
            waiting.pause()

    def _start_new(self) -> None:
        account = server_account()
        lock = hold(self.place.server_lock)
        try:
            programs = Programs(self.place, software_for(self.place), account, lock)
            version = self._data_version()
            if version is None:
                warn_of_another_server(self.place)
                programs.initialise()
            elif version != MAJOR_VERSION:
                raise EnvironmentFault(
                    f"{self.place.data} was made by PostgreSQL {version}, this batchproc comes with {MAJOR_VERSION}",
                    "dump it with the batchproc that made it (db dump), move the folder away, and restore",
                )
            make_sockets(self.place, account)
            remove_stale_files(self.place.data, self.place.sockets / f".s.PGSQL.{PORT}")
            programs.launch()
        finally:
            os.close(lock)

    def _await_ready(self) -> None:
        waiting = Waiting("waiting for the database to recover and start")
        while True:
            # In this order: a server that ends between the two looks alive for one more round, not dead too early.
            alive = self._is_alive()
            found = self._find()
            if found and found.state == "ready":
                return
            if not alive:
                raise EnvironmentFault(
                    f"the embedded PostgreSQL in {self.place.data} ended while it started; "
                    f"its log {self.place.log} says: {self._log_tail()}",
                    "mend what the log says and start again",
                )
            waiting.pause()

    def _log_size(self) -> int:
        try:
            return self.place.log.stat().st_size
        except FileNotFoundError:
            return 0

    def _bound_log(self) -> None:
        # Copied and cut, not renamed: a running server keeps writing to the file it has, at its end.
        if self._log_size() > _LOG_LIMIT:
            shutil.copy2(self.place.log, self.place.log.with_suffix(".log.1"))
            os.truncate(self.place.log, 0)

    def _log_tail(self) -> str:
        return tail(self.place.log.read_text("utf-8", "replace"))
