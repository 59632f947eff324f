"""What a person at a terminal sees while a run goes on: one line, written over."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

import click
import psycopg

from batchproc.core.durations import duration
from batchproc.core.errors import BatchprocError
from batchproc.core.job import Claim
from batchproc.core.outcome import Failed, Outcome

_EVERY = 1.0
# The time left is told from the rate of this many seconds back, so that it follows a change of the work.
_WINDOW = 60.0


class ProgressLine:
    """Done, failed, rate and time left on stderr, if that is a terminal; else nothing.

    Args:
        waiting: counts the jobs that are due in the run's scope; called in a thread of this class.
        stopping: whether the run was asked to stop.
    """

    def __init__(self, waiting: Callable[[], int], stopping: Callable[[], bool] = lambda: False) -> None:
        self._waiting = waiting
        self._stopping = stopping
        self._done = 0
        self._failed = 0
        self._history: list[tuple[float, int]] = [(time.monotonic(), 0)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)

    def observe(self, _claim: Claim, outcome: Outcome, _seconds: float) -> None:
        """Counts one attempt that ended."""
        self._done += 1
        self._failed += isinstance(outcome, Failed)

    def __enter__(self) -> ProgressLine:
        if sys.stderr.isatty():
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self._stop.set()
            self._thread.join()
            click.echo("\r\x1b[K", nl=False, err=True)

    def _show(self) -> None:
        while not self._stop.wait(_EVERY):
            now = time.monotonic()
            self._history = [(at, done) for at, done in self._history if now - at <= _WINDOW] or self._history[-1:]
            self._history.append((now, self._done))
            click.echo(f"\r{self._line()}\x1b[K", nl=False, err=True)

    def _line(self) -> str:
        (since, before), (now, done) = self._history[0], self._history[-1]
        rate = (done - before) / max(0.001, now - since)
        line = f"{done} done, {self._failed} failed, {rate:.1f}/s"
        if self._stopping():
            return line + ", stopping: running jobs may end (Ctrl-C: at once)"
        try:
            waiting = self._waiting()
        except (psycopg.Error, BatchprocError):
            return line
        return line + f", {waiting} wait" + (f", about {duration(waiting / rate)} left" if rate > 0 else "")
