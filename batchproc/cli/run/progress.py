"""What a person at a terminal sees while a run goes on: one line, written over."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import click
import psycopg
from rich.cells import cell_len

from batchproc.cli.shared.messages import terminal_width
from batchproc.cli.shared.terminal import show_over
from batchproc.core import throughput
from batchproc.core.durations import duration
from batchproc.core.errors import BatchprocError
from batchproc.engine.counts import Counts
from batchproc.engine.run_report import Begun
from batchproc.engine.window import Window, patience
from batchproc.ops.run_ahead import RunLook, Silent

_EVERY = 1.0
_WIDEST = 80


@dataclass(frozen=True)
class _Part:
    """Of a line. Where that is too long, what has the highest ``rank`` is left out first, or ``shorter`` takes its
    place; never what has 0."""

    text: str
    rank: int
    shorter: _Part | None = None


class ProgressLine:
    """What the run has done, its rate, what it has before it and the time left, on stderr, if that is a terminal.

    Args:
        watch: asked once the run has begun; gives what looks at what is before it, in a thread of this class.
        stopping: whether the run was asked to stop.
        window: of the run; it is not held up beyond its end.
        quiet: show nothing.
    """

    def __init__(
        self,
        watch: Callable[[Begun], Callable[[], RunLook]],
        stopping: Callable[[], bool] = lambda: False,
        window: Window | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        self._quiet = quiet
        self._window = window
        self._watch = watch
        self._stopping = stopping
        self._begun: tuple[Counts, Callable[[], RunLook]] | None = None
        self._ended: throughput.Window[int] = throughput.Window()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)

    def begin(self, begun: Begun) -> None:
        """From now on there is something to tell."""
        self._ended.add(time.monotonic(), 0)
        self._begun = begun.counts, self._watch(begun)

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
            if self._begun is None:
                continue
            line = self._line(time.monotonic(), *self._begun)  # which may take its time
            if not self._stop.is_set():
                show_over(line)

    def _line(self, now: float, counts: Counts, look: Callable[[], RunLook]) -> str:
        self._ended.add(now, _ended(counts))
        done = [
            _Part(f"{counts.completed:,} done", 0),
            *([_Part(f"{counts.discarded:,} discarded", 3)] if counts.discarded else []),
            *([_Part(f"{counts.cancelled:,} cancelled", 6)] if counts.cancelled else []),
        ]
        # Not below none: jobs that something else tells of are taken back (`Counts.forget_discarded`).
        fast = throughput.rate(max(0, self._ended.last - self._ended.first), self._ended.seconds)
        rate = [_Part(fast, 8)] if fast else []
        if self._stopping():
            return _fitted([*done, *rate, _Part("stopping: running jobs may end (Ctrl-C: at once)", 0)])
        try:
            seen = look()
        except (psycopg.Error, BatchprocError):
            return _fitted([*done, *rate])
        return _fitted([*done, *rate, *_ahead(seen)])


def _ended(counts: Counts) -> int:
    """Jobs, as in the run's summary: not the attempts, of which some are made again."""
    return counts.completed + counts.discarded + counts.cancelled


def _ahead(seen: RunLook) -> list[_Part]:
    later, told = _later(seen), []
    if seen.silent is not None:
        told = [_silent(seen.silent)]
    elif seen.due is not None and seen.unserved is not None:
        wait = "waits" if seen.due.waiting == 1 else "wait"
        given_up = f"given up in {_seconds(seen.unserved)}"
        told = [_Part(f"{seen.due.waiting:,} {wait} for languages that no node has, {given_up}", 2)]
    elif seen.due is not None and (any(seen.due) or not later):
        told = [_Part(f"{seen.due.running:,} running", 5), _Part(f"{seen.due.waiting:,} wait", 2)]
    left = [_Part(f"about {duration(seen.seconds_left)} left", 7)] if seen.seconds_left else []
    return [*told, *later, *left]


def _silent(silent: Silent) -> _Part:
    state = "gone" if silent.gone else "silent so far"
    whose = f"a node {state}" if silent.nodes == 1 else f"nodes {state}"
    back = f"taken back in up to {_seconds(silent.seconds)}" if silent.seconds else "being taken back"
    return _Part(f"{silent.jobs:,} of {whose}, {back}", 2)


def _later(seen: RunLook) -> list[_Part]:
    if seen.retries is None or not seen.retries.jobs:
        return []
    jobs, soon = seen.retries
    again = f"{jobs:,} to be tried again"
    if soon is None:  # not by this run
        return [_Part(again, 4)]
    wait = f"in {_seconds(soon)}"
    return [_Part(f"{again}, {wait if jobs == 1 else f'the next {wait}'}", 4, _Part(f"a retry {wait}", 1))]


def _seconds(seconds: float) -> str:
    whole = max(1, math.ceil(seconds))
    return f"{whole} s" if whole < 10 else duration(whole)


def _fitted(parts: list[_Part]) -> str:
    """One line with as many of the parts as it has room for."""
    parts = list(parts)
    room = min(terminal_width(), _WIDEST) - 1
    while cell_len(line := ", ".join(part.text for part in parts)) > room:
        most = max(parts, key=lambda part: part.rank)
        if most.rank == 0:
            break
        place = parts.index(most)
        parts[place : place + 1] = [] if most.shorter is None else [most.shorter]
    return line
