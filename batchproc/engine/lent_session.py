"""The worker's connection after a handler had it: what it may have left is gone, or the connection is closed."""

from __future__ import annotations

from functools import cache

import psycopg
from loguru import logger
from psycopg import pq
from psycopg._preparing import PrepareManager
from psycopg.pq import PipelineStatus, TransactionStatus

from batchproc.database import Session

# What a handler may leave in a session, but for an open transaction. One round trip, answered with what it may have
# done to the prepared statements: those of psycopg stay, so that the next job's need not be prepared again.
_CLEAR = b"""
    reset session authorization; reset role; reset all; close all; discard temp; discard sequences; unlisten *;
    select pg_advisory_unlock_all(); select from_sql from pg_prepared_statements
"""


def given_back(session: Session, job_id: int) -> Session | None:
    """The connection for the next job, as good as new; None when it had to be closed.

    The one that the handler had is of no use afterwards, whoever kept it: its adapters, factories and listeners go
    with it.
    """
    info = session.info
    if info.transaction_status is not TransactionStatus.IDLE or info.pipeline_status is not PipelineStatus.OFF:
        # In a transaction that a handler left open, the next job's writes would be lost with it.
        if not session.closed:
            logger.bind(job_id=job_id).error("the handler left a transaction open: it is rolled back")
        session.close()
        return None
    fresh = _taken_over(session)
    try:
        if fresh.pooled or _cleared(fresh):
            return fresh
    except psycopg.Error:
        pass
    fresh.close()
    return None


def _taken_over(session: Session) -> Session:
    """The same server session in another object; the old one is as if closed."""
    fresh = Session(session.pgconn)
    session.pgconn = _closed()
    fresh.autocommit = True
    fresh.pooled = session.pooled
    fresh._of_each_transaction = session._of_each_transaction
    fresh._prepared = session._prepared
    fresh.prepared_max = PrepareManager.prepared_max
    fresh.prepare_threshold = None if fresh.pooled else PrepareManager.prepare_threshold
    return fresh


def _cleared(session: Session) -> bool:
    """Clears what the server keeps; False when there are other prepared statements than psycopg knows of."""
    cursor = session.execute(_CLEAR, prepare=False)
    while cursor.nextset():
        pass
    return cursor.fetchall() == [(False,)] * len(session._prepared._names)


@cache
def _closed() -> pq.abc.PGconn:
    """A connection that never was one, for all."""
    nowhere = pq.PGconn.connect_start(b"nowhere")  # no connection string: nothing is tried
    nowhere.finish()
    return nowhere
