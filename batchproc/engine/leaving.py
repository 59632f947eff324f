"""How a node leaves: what its run came to is written, and reported."""

from __future__ import annotations

import time
from collections.abc import Collection

import psycopg
from loguru import logger

from batchproc.core.brake import Braked
from batchproc.core.errors import BatchprocError
from batchproc.engine.dispatcher import Dispatcher
from batchproc.engine.last_turns import LastTurns
from batchproc.engine.night import Night
from batchproc.engine.run_report import RunReport
from batchproc.queue.exclusive import ExclusiveRun
from batchproc.queue.node_store import NodeStore


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
        told = dispatcher.insist(lambda connection: store.ranges_told_otherwise(connection, run_id))
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
    dispatcher.insist(lambda connection: store.finish_run(connection, run_id, exit_code, final))
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
    exit_code = error.exit_code if isinstance(error, BatchprocError) else 3
    try:
        turns.write(dispatcher.connection)
        if exclusive is not None:
            exclusive.release(dispatcher.connection)
        store.finish_run(dispatcher.connection, run_id, exit_code, dispatcher.counts.plain())
        if not dispatcher.holds_claims:
            store.leave(dispatcher.connection)
    except psycopg.Error as failed:
        logger.warning("the node could not leave ({}): its lease ends by itself", type(failed).__name__)
