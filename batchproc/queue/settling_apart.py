"""Settling each of several endings for itself, after one of them failed them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.fairness import Queue
from batchproc.core.job import JobState
from batchproc.database import SqlFolder
from batchproc.queue.apart import SetAside
from batchproc.queue.endings import Ended, Settled, without_content

_LOCK_TIMEOUT = "100ms"

_Settle = Callable[[Ended], Settled]


def settle_apart(
    connection: Connection[TupleRow],
    endings: Sequence[Ended],
    settle: _Settle,
    sql: SqlFolder,
    aside: SetAside | None,
) -> Settled:
    """Settles them one after the other, each in a transaction of its own.

    An ending that cannot be written is written without its content (see ``endings.without_content``).
    What meets an error that passes, or cannot be written at all, comes back as ``unwritten``.

    Args:
        settle: settles one, on that connection.
        aside: jobs that cannot be written at all are added; None for endings that are to be tried again and again.

    Raises:
        psycopg.OperationalError: the connection is gone.
    """
    states: dict[UUID, JobState] = {}
    followed: list[Queue] = []
    unwritten: list[UUID] = []
    for ending in endings:
        settled = _settled(connection, ending, settle, sql, aside)
        if settled is None:
            unwritten.append(ending.transition.claim_id)
            continue
        states.update(settled.states)
        followed.extend(settled.followed)
    return Settled(states, followed, frozenset(unwritten))


def _settled(
    connection: Connection[TupleRow], ending: Ended, settle: _Settle, sql: SqlFolder, aside: SetAside | None
) -> Settled | None:
    # Twice as it is: a job of the same unique key may come in between the look and the write.
    for attempt in (ending, ending, without_content(ending)):
        try:
            with connection.transaction():
                # Whoever holds this row holds up the others no longer than that.
                connection.execute(sql["set_lock_timeout"], [_LOCK_TIMEOUT])
                settled = settle(attempt)
                if attempt.also is not None and settled.states:
                    attempt.also(connection)
                return settled
        except psycopg.Error as error:
            if connection.closed:
                raise
            logger.error(
                "job {} could not be settled: {} ({})",
                ending.transition.job_id,
                type(error).__name__,
                error.sqlstate,
            )
            if not _is_of_content(error):
                return None
    if aside is not None:
        aside.add([ending.transition.job_id])
    return None


def _is_of_content(error: psycopg.Error) -> bool:
    """Whether what was written is at fault, not the circumstances: those pass, and the outcome is still worth having.

    Beside bad data, by the class of the SQLSTATE (PostgreSQL, appendix A): 54 is too long or nested too deeply, P0
    raised by somebody's trigger.
    """
    if isinstance(error, psycopg.DataError | psycopg.IntegrityError):
        return True
    return (error.sqlstate or "")[:2] in ("54", "P0")
