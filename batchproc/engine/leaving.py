"""How a node leaves: what its run came to is written, and reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from types import TracebackType

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.brake import Braked
from batchproc.core.errors import AnotherRun, BatchprocError, EnvironmentFault
from batchproc.engine.dispatcher import Dispatcher
from batchproc.engine.last_turns import LastTurns
from batchproc.engine.night import Night
from batchproc.engine.run_report import RunReport
from batchproc.queue.exclusive import ExclusiveRun
from batchproc.queue.node_store import NodeStore

_Step = Callable[[Connection[TupleRow]], object]


def leave(
    store: NodeStore,
    dispatcher: Dispatcher,
    run_id: int,
    night: Night,
    started: float,
    braked: tuple[Braked, ...],
    accepted: Collection[str],
) -> RunReport:
    """After a run that came to its end.

    Args:
        started: on ``time.monotonic``.
        accepted: failure codes that do not count for the exit code.
    """
    counts = dispatcher.counts
    if counts.discarded:
        told = dispatcher.insist(lambda connection: store.runs.ranges_told_otherwise(connection, run_id))
        counts.forget_discarded(told)
    exit_code = 3 if braked else counts.exit_code(accepted)
    left = dispatcher.insist(lambda connection: night.left(connection, ended=dispatcher.stop.for_window))
    report = RunReport(
        run_id=run_id,
        counts=counts,
        seconds=time.monotonic() - started,
        exit_code=exit_code,
        stopped=dispatcher.stopping,
        braked=braked,
        **left,
    )
    final = counts.plain() | {"left": report.left}
    dispatcher.insist(lambda connection: store.runs.finish(connection, run_id, exit_code, final))
    dispatcher.insist(store.leave)
    return report


def leave_after(
    error: BaseException,
    store: NodeStore,
    dispatcher: Dispatcher,
    run_id: int,
    turns: LastTurns,
    exclusive: ExclusiveRun | None,
) -> None:
    """After a fault, as far as the database still answers."""
    counts = dispatcher.counts.plain()
    code = _exit_code(error)
    steps: list[_Step] = [lambda connection: store.runs.finish(connection, run_id, code, counts), turns.write]
    if exclusive is not None:
        steps.append(exclusive.release)
    if not dispatcher.holds_claims:
        steps.append(store.leave)
    _each(steps, dispatcher.connection)


class Beginning:
    """The time from the first row that a node writes to its first turn, in which no dispatcher sees to its leaving.

    A context: after an error within, what was written is undone on a connection of its own, as far as the database
    still answers. ``over`` ends that; the place of an exclusive run is given up in any case.

    Args:
        connect: opens a connection.
    """

    def __init__(
        self, store: NodeStore, connect: Callable[[], Connection[TupleRow]], exclusive: ExclusiveRun | None
    ) -> None:
        self._store = store
        self._connect = connect
        self._exclusive = exclusive
        self._run_id: int | None = None
        self._is_over = False

    def began(self, run_id: int) -> int:
        """The node has joined, and has that run; gives its id."""
        self._run_id = run_id
        return run_id

    def over(self) -> None:
        """From now on ``leave`` or ``leave_after`` is called."""
        self._is_over = True

    def __enter__(self) -> Beginning:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        steps: list[_Step] = []
        run_id = self._run_id
        if error is not None and not self._is_over:
            if run_id is not None:
                code = _exit_code(error)
                steps.append(lambda connection: self._store.runs.finish(connection, run_id, code, {}))
            if run_id is not None or not isinstance(error, EnvironmentFault | AnotherRun):
                steps.append(self._store.leave)
        if self._exclusive is not None and self._exclusive.is_held:
            steps.append(self._exclusive.release)
        if not steps:
            return
        try:
            with self._connect() as connection:
                _each(steps, connection)
        except (psycopg.Error, BatchprocError) as failed:
            _could_not(failed)


def _each(steps: Sequence[_Step], connection: Connection[TupleRow]) -> None:
    """Each of them, also after one that failed."""
    for step in steps:
        try:
            step(connection)
        except psycopg.Error as failed:
            _could_not(failed)


def _could_not(failed: Exception) -> None:
    logger.warning("the node could not leave ({}): its lease ends by itself", type(failed).__name__)


def _exit_code(error: BaseException) -> int:
    return error.exit_code if isinstance(error, BatchprocError) else 3
