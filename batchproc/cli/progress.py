"""What a person at a terminal sees while a run goes on: one line, written over."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

import click
import psycopg

from batchproc.cli.terminal import show_over
from batchproc.core import throughput
from batchproc.core.durations import duration
from batchproc.core.errors import BatchprocError
from batchproc.core.job import Claim
from batchproc.core.outcome import Failed, Outcome
from batchproc.engine.window import Window, patience
from batchproc.queue.inspection import Due

_EVERY = 1.0


class ProgressLine:
    """Done, failed, rate and time left on stderr, if that is a terminal; else nothing.

    Args:
        waiting: counts the jobs that are due and that run in the run's scope; called in a thread of this class.
        stopping: whether the run was asked to stop.
        window: of the run; it is not held up beyond its end.
        quiet: show nothing.
    """

    def __init__(
        self,
        waiting: Callable[[], Due],
        stopping: Callable[[], bool] = lambda: False,
        window: Window | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        self._quiet = quiet
        self._window = window
        self._waiting = waiting
        self._stopping = stopping
        self._done = 0
        self._failed = 0
        self._ended: throughput.Window[int] = throughput.Window()
        self._ended.add(time.monotonic(), 0)
        self._waited: throughput.Window[int] = throughput.Window()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)

    def observe(self, _claim: Claim, outcome: Outcome, _seconds: float) -> None:
        """Counts one attempt that ended."""
        self._done += 1
        self._failed += isinstance(outcome, Failed)

    def __enter__(self) -> ProgressLine:
        if sys.stderr.isatty() and not self._quiet:
            click.echo("\rstarting\x1b[K", nl=False, err=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self._stop.set()
            self._thread.join(patience(self._window, _EVERY))
            click.echo("\r\x1b[K", nl=False, err=True)

    def _show(self) -> None:
        while not self._stop.wait(_EVERY):
            line = self._line(time.monotonic())  # which may take its time
            if not self._stop.is_set():
                show_over(line)

    def _line(self, now: float) -> str:
        self._ended.add(now, self._done)
        failed = f" ({self._failed} of them failed)" if self._failed else ""
        fast = throughput.rate(self._ended.last - self._ended.first, self._ended.seconds)
        line = f"{self._ended.last} done{failed}" + (f", {fast}" if fast else "")
        if self._stopping():
            return line + ", stopping: running jobs may end (Ctrl-C: at once)"
        try:
            due = self._waiting()
        except (psycopg.Error, BatchprocError):
            return line
        line += f", {due.running} running, {due.waiting} wait"
        self._waited.add(now, due.waiting)
        left = throughput.seconds_left(self._waited.looks)
        return line + (f", about {duration(left)} left" if left else "")
