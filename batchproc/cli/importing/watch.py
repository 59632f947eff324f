"""``import --watch``: a service that imports what scanners write into folders."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.importing.output import as_row
from batchproc.cli.importing.rejected import RejectedFiles
from batchproc.cli.shared.app import App
from batchproc.cli.shared.output import emit_json, print_broken
from batchproc.core.errors import UsageError
from batchproc.documents.paths import terminal_path
from batchproc.engine.sd_notify import Notifier
from batchproc.engine.signals import stopping_signals
from batchproc.engine.waiting import wait_readable
from batchproc.ops.imported import Imported, ImportOptions, Rejected
from batchproc.ops.importing import Import, absolute
from batchproc.ops.watching import Watch

_SLICE = 1.0
"""Seconds between signs of life: a watchdog of a few seconds is heeded too."""


def watch_folders(
    app: App, paths: tuple[bytes, ...], tenant: str, options: ImportOptions, settle: timedelta, *, as_json: bool
) -> int:
    """Imports what appears until a signal asks to stop, and prints each file; returns the exit code."""
    folders = [absolute(path) for path in paths]
    for folder in folders:
        if not os.path.isdir(folder):  # noqa: PTH112 - pathlib knows no bytes
            raise UsageError(f"{terminal_path(folder)} is no folder", "--watch takes folders; mount or make it first")
    notifier = Notifier.taken_from(os.environ, os.getpid())
    stop = _Stop(notifier.alive)
    # A campaign of it would have no end.
    options = replace(options, command=None)

    def begin(connection: Connection[TupleRow]) -> Import:
        owner = app.jobs.tenant(connection, tenant)
        notifier.ready(f"watching for {tenant}")
        return Import(connection, app.documents, app.jobs, owner, options)

    watch = Watch(
        folders,
        begin,
        recursive=options.recursive,
        settle=settle.total_seconds(),
        outage_limit=app.settings.database.outage_limit,
        wait=stop.wait,
        alive=notifier.alive,
    )
    imported, rejected = 0, RejectedFiles(options.roots, goes_on=True)
    with stopping_signals(stop.ask):
        logger.info("watching {}", ", ".join(map(terminal_path, folders)))
        for outcome in watch.outcomes(app.connect):
            imported += isinstance(outcome, Imported)
            _print(outcome, rejected, as_json=as_json)
    notifier.stopping("stopped")
    logger.info("stopped: {} imported, {} rejected", imported, rejected.total)
    return 0


def _print(outcome: Imported | Rejected, rejected: RejectedFiles, *, as_json: bool) -> None:
    if as_json:
        emit_json(as_row(outcome))
    elif isinstance(outcome, Imported):
        job = "no job" if outcome.job_id is None else f"job {outcome.job_id}"
        known = ", known already" if outcome.duplicate else ""
        print_broken(f"document {outcome.document_id}, {job}{known}: {terminal_path(outcome.path)}")
    if isinstance(outcome, Rejected):
        rejected.tell(outcome)


class _Stop:
    """Asked by a signal, which may interrupt this very wait.

    Args:
        alive: called now and then while it waits.
    """

    def __init__(self, alive: Callable[[], None]) -> None:
        self._alive = alive
        self._asked = False
        self._readable, self._writable = os.pipe()

    def ask(self) -> None:
        """Raises KeyboardInterrupt the second time."""
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        os.write(self._writable, b".")

    def wait(self, seconds: float) -> bool:
        """Waits so long, or until it is asked; whether it was."""
        until = time.monotonic() + seconds
        self._alive()
        while not self._asked and (left := until - time.monotonic()) > 0:
            wait_readable([self._readable], min(left, _SLICE))
            self._alive()
        return self._asked
