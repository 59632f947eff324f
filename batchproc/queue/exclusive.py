"""Runs that exclude each other: a leased row each, so that it works behind a transaction pooler.

A session-level lock would not: there a session is not ours. Whoever takes a row looks for others under a lock that ends
with its transaction; whoever holds one renews it with the lease of its node. A holder that was killed is in nobody's
way once that has ended.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import uuid4

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import AnotherRun
from batchproc.core.job import Lane
from batchproc.database import SqlFolder


class ExclusiveRun:
    """The row of one run, which gives way to any other that is active when it begins.

    Args:
        scope: ``tenant_ids``, ``kinds`` and ``lanes`` of the run; empty ones mean all. A run that shares no job with
            it is not in its way.
        lease: seconds.
    """

    def __init__(self, schema: str, scope: Mapping[str, Collection[Any]], lease: float) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)
        self._lock = f"{schema} exclusive runs"
        self._values = {
            "holder": uuid4(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "scope": json.dumps({name: sorted(values) for name, values in scope.items()}),
            "lease": lease,
            "run_id": None,
        }
        self.is_held = False

    def take(self, connection: Connection[TupleRow], *, again: bool = False) -> None:
        """Takes the row; a second time renews it.

        Args:
            again: the run has begun: others that are not exclusive may have begun since.

        Raises:
            AnotherRun: one is active; says which.
        """
        with connection.transaction():
            connection.execute(self._sql["lock_exclusive"], [self._lock])
            connection.execute(self._sql["forget_exclusive"])
            other = connection.execute(self._sql["other_run"], {**self._values, "again": again}).fetchone()
            if other is None:
                connection.execute(self._sql["take_exclusive"], self._values)
        if other is not None:
            raise _in_the_way(*other, again=again)
        self.is_held = True

    def began(self, run_id: int) -> None:
        """The id of the run, for others to be told."""
        self._values["run_id"] = run_id

    def renew(self, connection: Connection[TupleRow]) -> bool:
        """Renews the lease; False when another run has taken the place meanwhile."""
        return connection.execute(self._sql["renew_exclusive"], self._values).fetchone() is not None

    def release(self, connection: Connection[TupleRow]) -> None:
        """After which it is in nobody's way."""
        connection.execute(self._sql["release_exclusive"], [self._values["holder"]])
        self.is_held = False


def _in_the_way(
    host: str,
    pid: int,
    since: Any,
    run_id: int | None,
    exclusive: bool,
    scope: Mapping[str, Sequence[Any]],
    tenants: Sequence[str],
    *,
    again: bool,
) -> AnotherRun:
    name = "another run" if run_id is None else f"run {run_id}"
    kind = ", exclusive itself," if exclusive else ""
    lanes = [Lane(lane) for lane in scope.get("lanes", ())]
    narrowed = {"tenant": tenants, "kind": scope.get("kinds", ()), "lane": [lane.name.lower() for lane in lanes]}
    flags = [f"--{part} {value}" for part, values in narrowed.items() for value in values]
    active = (
        f"{name}{kind} is active on {host}, process {pid}, since {since:%Y-%m-%d %H:%M:%S %Z},"
        f" for {' '.join(flags) or 'all jobs'}"
    )
    if again:
        return AnotherRun(
            f"{active}: it has taken the place of this run, which had lost its lease; what this one did stays done",
            "see why this machine, or its way to the database, stood still; the other run does the rest",
        )
    return AnotherRun(
        f"{active}: nothing was done",
        f"{_beside(lanes)}, or wait until it has ended (batchproc status); one that was killed is in the way until its"
        " lease ends, dispatch.lease",
    )


def _beside(lanes: Collection[Lane]) -> str:
    """How a run that is to be exclusive goes beside one of these lanes."""
    others = [lane.name.lower() for lane in Lane if lane not in lanes]
    if lanes and others:
        return f"to run beside it, leave its lane to it: --lane {others[0]}"
    return "to run beside each other, give each its part: --lane interactive and --lane bulk, or --tenant, or --kind"
