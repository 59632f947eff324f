"""What a node may claim, and claiming it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from psycopg import Connection, Cursor
from psycopg.rows import TupleRow

from batchproc.core.fairness import Queue, Turn
from batchproc.core.floors import FRONT, Place
from batchproc.core.job import Claim
from batchproc.core.limit_room import Room, Rooms
from batchproc.database import SqlFolder
from batchproc.queue.array_text import array_text

_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
_LIMITS_LOCK = "batchproc limits"


class ReadyQueue(NamedTuple):
    """A queue with available jobs, by the database's word. ``front`` is the place of the first of them."""

    queue: Queue
    weight: float
    limited: bool
    front: Place = FRONT


class Claiming:
    """The statements behind the claims of ``NodeStore``, on connections that the caller passes.

    Args:
        kinds: those that the node knows.
        language_kinds: those of them that need languages.
        languages, default_languages: as in ``NodeFacts``.
    """

    def __init__(
        self,
        schema: str,
        *,
        kinds: Collection[str],
        language_kinds: Collection[str],
        languages: Collection[str],
        default_languages: Collection[str],
    ) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)
        self._lock = f"{_LIMITS_LOCK} {schema}"
        self._kinds = list(kinds)
        self.able: dict[str, Any] = {
            "language_kinds": array_text(language_kinds),
            "able": array_text(languages),
            "has_defaults": set(default_languages) <= set(languages),
        }
        """What the node has the languages for, as parameters of the statements."""

    def lock_limits(self, connection: Connection[TupleRow]) -> None:
        """Until the transaction's end no other node claims under a limit. To come before what is to see its claims."""
        connection.execute(self._sql["lock_limits"], [self._lock])

    def claim(
        self,
        connection: Connection[TupleRow],
        turns: Sequence[Turn],
        after: Mapping[Queue, Place],
        *,
        limited: bool,
        node_id: UUID,
        run_id: int | None,
    ) -> Cursor[TupleRow]:
        """Sends the claim of a tick; ``claims_and_rooms`` reads what it gave."""
        name = "claim_limited" if limited else "claim"
        return connection.execute(self._sql[name], self._values(turns, after, node_id, run_id))

    def one(
        self, connection: Connection[TupleRow], job_id: int, node_id: UUID, run_id: int | None, *, within_limits: bool
    ) -> Claim | None:
        """See ``NodeStore.claim_one``."""
        values = {
            "job_id": job_id,
            "claim_id": uuid4(),
            "node_id": node_id,
            "run_id": run_id,
            "kinds": self._kinds,
            **self.able,
        }
        with connection.pipeline():
            if within_limits:
                self.lock_limits(connection)
            name = "claim_one_within_limits" if within_limits else "claim_one"
            cursor = connection.execute(self._sql[name], values)
        row = cursor.fetchone()
        return Claim(*row) if row else None

    def ready(self, connection: Connection[TupleRow]) -> list[ReadyQueue]:
        """See ``NodeStore.ready``."""
        rows = connection.execute(self._sql["ready"]).fetchall()
        return [
            ReadyQueue(Queue(lane, tenant, kind), weight, limited, Place(priority, job_id))
            for lane, tenant, kind, weight, limited, priority, job_id in rows
        ]

    def rooms(self, connection: Connection[TupleRow]) -> Rooms:
        """See ``NodeStore.rooms``."""
        return _rooms(connection.execute(self._sql["rooms"]).fetchall())

    def _values(
        self, turns: Sequence[Turn], after: Mapping[Queue, Place], node_id: UUID, run_id: int | None
    ) -> dict[str, Any]:
        places = [after.get(turn.queue, FRONT) for turn in turns]
        return {
            "lanes": array_text(turn.queue.lane for turn in turns),
            "tenants": array_text(turn.queue.tenant_id for turn in turns),
            "kinds": array_text(turn.queue.kind for turn in turns),
            "counts": array_text(turn.jobs for turn in turns),
            "after_priorities": array_text(place.priority for place in places),
            "after_jobs": array_text(place.job_id for place in places),
            "claim_ids": claim_ids(sum(turn.jobs for turn in turns)),
            "node_id": node_id,
            "run_id": run_id,
            **self.able,
        }


def claim_ids(count: int) -> str:
    """Fresh ids as one array: random UUIDs (RFC 9562, version 4), at a fifth of what ``uuid4`` takes for each."""
    drawn = os.urandom(16 * count).hex()
    ids = (drawn[begin : begin + 32] for begin in range(0, 32 * count, 32))
    return "{" + ",".join([f"{h[:12]}4{h[13:16]}{_VARIANT[h[16]]}{h[17:]}" for h in ids]) + "}"


def claims_and_rooms(rows: Iterable[TupleRow]) -> tuple[list[Claim], Rooms]:
    """What ``Claiming.claim`` gave; only one under the limits tells of the room that they leave."""
    claims: list[Claim] = []
    of_limits: list[tuple[Any, ...]] = []
    for row in rows:
        if row[0] is None:
            _, _, tenant_id, kind, *_, room, seconds = row
            of_limits.append((kind, tenant_id, room, seconds))
        else:
            claims.append(Claim._make(row[:_OF_A_CLAIM]))
    return claims, _rooms(of_limits)


_OF_A_CLAIM = len(Claim._fields)


def _rooms(rows: Iterable[tuple[Any, ...]]) -> Rooms:
    rooms = Rooms()
    for kind, tenant_id, jobs, seconds in rows:
        if kind is not None:
            rooms.kinds[kind] = Room(int(jobs), seconds)
        else:
            rooms.tenants[tenant_id] = Room(int(jobs), seconds)
    return rooms
