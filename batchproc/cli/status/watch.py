"""``status --watch``: looks, draws, listens for keys, and goes on when the database is away."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow
from rich.console import Console
from rich.live import Live
from rich.text import Text

from batchproc.cli.status import screen
from batchproc.cli.status.keys import Keys
from batchproc.core.errors import BatchprocError, UsageError
from batchproc.ops.watching_status import Snapshot, StatusWatch

_QUIT = frozenset("qQ\x03\x04")
_LOOK_SHARE = 0.2
"""Part of the time that looks may take: they come less often where they are slow."""


def require_terminal() -> None:
    """Raises UsageError: there is no terminal to draw on."""
    if not sys.stdout.isatty():
        raise UsageError("status --watch draws on a terminal, and there is none", "batchproc status --json")


def watch(schema: str, connect: Callable[[], Connection[TupleRow]], interval: float) -> None:
    """Draws until somebody quits.

    Args:
        interval: seconds between looks.
    """
    looking = _Looking(StatusWatch(schema), connect)
    held = False
    console = Console(highlight=False, markup=False, emoji=False)
    with contextlib.closing(looking), _ended_in_order(), contextlib.suppress(KeyboardInterrupt), Keys() as keys:
        looking.look()  # what is wrong from the beginning is an error of the command
        with Live(console=console, screen=True, auto_refresh=False, transient=True) as live:
            while True:
                live.update(_drawn(console, looking, held), refresh=True)
                key = keys.next(max(interval, looking.cost / _LOOK_SHARE))
                if key is not None and _QUIT & set(key):
                    return
                held ^= key is not None and key.count(" ") % 2 == 1
                if not held:
                    looking.try_again()


class _Looking:
    """The newest look, and why there is no newer one."""

    def __init__(self, watch: StatusWatch, connect: Callable[[], Connection[TupleRow]]) -> None:
        self._watch = watch
        self._connect = connect
        self._connection: Connection[TupleRow] | None = None
        self.newest: Snapshot | None = None
        self.trouble: str | None = None
        self.cost = 0.0

    def look(self) -> None:
        begun = time.monotonic()
        if self._connection is None:
            self._connection = self._connect()
        self.newest = self._watch.look(self._connection)
        self.trouble = None
        self.cost = time.monotonic() - begun

    def try_again(self) -> None:
        try:
            self.look()
        except (psycopg.Error, BatchprocError) as error:
            self.trouble = error.message if isinstance(error, BatchprocError) else type(error).__name__
            self.close()

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


def _drawn(console: Console, looking: _Looking, held: bool) -> Text:
    assert looking.newest is not None
    width, height = console.size
    lines = screen.lines(looking.newest, width, height, held=held, trouble=looking.trouble)
    return Text("\n", no_wrap=True, overflow="crop").join(Text(line.text, style=line.style) for line in lines)


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """So that a SIGTERM, too, leaves the terminal as it was."""

    def leave(*_: Any) -> None:
        sys.exit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
