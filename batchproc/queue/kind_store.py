"""The rows of ``kinds``: what is paused, why, how many jobs of a kind may run at once, and how fast they may begin."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, dict_row

from batchproc.core.brake import Braked
from batchproc.core.errors import UsageError
from batchproc.core.job import KindSpec
from batchproc.core.limits import CODE, bounded_text
from batchproc.database import SqlFolder
from batchproc.queue import hints

REASON_CHARACTERS = 500
_LOCK_TIMEOUT = "100ms"
NEVER_RUN: Mapping[str, Any] = {
    "kind": None,
    "paused": False,
    "paused_code": None,
    "paused_reason": None,
    "paused_at": None,
    "max_running": None,
    "declared_limit": None,
    "rate": None,
    "burst": None,
    "declared_rate": None,
    "declared_burst": None,
    "available": 0,
    "scheduled": 0,
    "running": 0,
}
"""What ``KindStore.kinds`` would say of a kind that no node has made known, and that no job is of."""


class KindStore:
    """Reads and changes kinds in the transaction of the caller's connection."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)
        self._channel = hints.channel(schema)

    def brake(self, connection: Connection[TupleRow], braked: Braked) -> None:
        """Pauses a kind for all nodes, unless it is paused already; one that is not in ``kinds`` (any more), too.

        Raises:
            psycopg.errors.LockNotAvailable: somebody holds its row locked; it is not waited for.
        """
        values = {"kind": braked.kind, "code": braked.code, "reason": braked.reason}
        with connection.transaction():
            connection.execute(self._sql["set_lock_timeout"], [_LOCK_TIMEOUT])
            connection.execute(self._sql["brake_kind"], values)

    def braked(
        self,
        connection: Connection[TupleRow],
        known: Collection[str],
        *,
        tenant_ids: Collection[int],
        kinds: Collection[str],
        lanes: Collection[int],
    ) -> list[Braked]:
        """Which of the kinds ``known`` a brake has paused while jobs of that scope are due; empty collections: all."""
        values = {
            "known": list(known),
            "tenant_ids": list(tenant_ids),
            "kinds": list(kinds),
            "lanes": list(lanes),
        }
        return [Braked(*row) for row in connection.execute(self._sql["braked_kinds"], values).fetchall()]

    def kinds(self, connection: Connection[TupleRow], kind: str | None = None) -> list[dict[str, Any]]:
        """Every kind, or that one, with its pause, its limits and its unfinished jobs, keyed as ``kinds list`` shows.

        ``max_running`` is the limit that a person has set, ``declared_limit`` that of its handler or the settings,
        which holds where ``max_running`` is None. So with ``rate``, in jobs a second, and ``declared_rate``; a rate
        has its own ``burst``, None is that of a second.
        """
        with connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(self._sql["list_kinds"], {"kind": kind}).fetchall()

    def has_jobs(self, connection: Connection[TupleRow], kind: str) -> bool:
        """Whether any job is of that kind, one that is over too. It reads all jobs if none is."""
        row = connection.execute(self._sql["kind_has_jobs"], {"kind": kind}).fetchone()
        assert row is not None
        return bool(row[0])

    def forget(self, connection: Connection[TupleRow], kind: str) -> None:
        """Forgets a kind with what was set of it; the next node that knows it makes it known again.

        Raises:
            UsageError: there is no such kind, jobs are of it, or a node that runs knows it.
        """
        if not self.kinds(connection, kind):
            raise unknown_kind(kind)
        if connection.execute(self._sql["forget_kind"], {"kind": kind}).fetchone() is not None:
            return
        if self.has_jobs(connection, kind):
            raise UsageError(
                f"jobs are of kind {kind}", f"see: batchproc jobs list --kind {kind}; prune deletes old ones"
            )
        raise UsageError(
            f"a node that runs knows kind {kind}", "see: batchproc status; give this again when it has ended"
        )

    def set(
        self,
        connection: Connection[TupleRow],
        kind: str,
        *,
        paused: bool | None = None,
        reason: str | None = None,
        max_running: int | None = None,
        unlimited: bool = False,
        rate: float | None = None,
        burst: int | None = None,
        unrated: bool = False,
        handled: KindSpec | None = None,
    ) -> dict[str, Any]:
        """Changes what is not None and returns the kind as ``kinds`` does; all nodes heed it from their next claim.

        A reason is kept up to 500 characters.

        Args:
            max_running: how many of its jobs may run at once; goes before a declared limit.
            unlimited: takes ``max_running`` back, so that a declared limit holds again.
            rate: how many of its jobs may begin in a second; goes before a declared rate, together with its ``burst``.
            burst: how many may begin at once after a pause; None: those of a second, and one at least.
            unrated: takes ``rate`` back, so that a declared rate holds again.
            handled: what the caller's handler of the kind declares, where there is one. The kind is known with that,
                whether or not a node has made it known.

        Raises:
            UsageError: no node has made that kind known, and the caller has no handler of it.
        """
        values = {
            "kind": kind if CODE.match(kind) else None,
            "paused": paused,
            "reason": bounded_text(reason, REASON_CHARACTERS),
            "max_running": max_running,
            "unlimited": unlimited,
            "rate": rate,
            "burst": burst,
            "unrated": unrated,
            "handled": handled is not None,
            "declared_limit": handled and handled.limit,
            "declared_rate": handled and handled.rate,
            "declared_burst": handled and handled.burst,
        }
        if connection.execute(self._sql["set_kind"], values).fetchone() is None:
            raise unknown_kind(kind)
        connection.execute(self._sql["notify"], [self._channel, hints.REFRESH])
        return self.kinds(connection, kind)[0]


def unknown_kind(kind: str) -> UsageError:
    """What is said of a kind that no node has made known, and that the caller has no handler of."""
    hint = "see: batchproc kinds list; a kind is known when its handler is in the settings"
    return UsageError(f"there is no kind {kind!r}", hint)
