"""What a node does with the job tables: claim, settle, promote, rescue, renew its lease."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.fairness import Queue, Turn
from batchproc.core.floors import FRONT, Place
from batchproc.core.job import Claim, KindSpec
from batchproc.core.limit_room import Rooms
from batchproc.database import SqlFolder
from batchproc.queue.apart import SetAside
from batchproc.queue.claiming import Claiming, ReadyQueue, claims_and_rooms
from batchproc.queue.endings import Ended, Recorded, Settled, endings_json, settled_of
from batchproc.queue.run_store import RunStore
from batchproc.queue.settling_apart import settle_apart
from batchproc.queue.slot_store import SlotStore
from batchproc.queue.unserved import Gap, Servings, Unserved
from batchproc.queue.upkeep import PutOff, Upkeep

__all__ = ["Ended", "NodeFacts", "NodeStore", "ReadyQueue", "Settled"]

_RESCUE_BATCH = 100
_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node says of itself when it joins.

    ``languages`` is what it can recognise in, with ``auto`` where it can detect them; ``default_languages`` what its
    settings ask for where neither the job nor its tenant does.
    """

    node_id: UUID
    host: str
    pid: int
    slots: int
    kinds: tuple[str, ...]
    languages: tuple[str, ...]
    engine_version: str
    code_version: str
    default_languages: tuple[str, ...] = ()


class NodeStore:
    """The statements of one node, each on a connection that the caller passes.

    Args:
        languages, default_languages: as in ``NodeFacts``. Of kinds that need languages it claims only what it can do.
    """

    def __init__(
        self,
        schema: str,
        node_id: UUID,
        specs: Mapping[str, KindSpec],
        *,
        languages: Collection[str] = (),
        default_languages: Collection[str] = (),
    ) -> None:
        self.node_id = node_id
        self._schema = schema
        self._specs = specs
        self._sql = SqlFolder("batchproc.queue", schema)
        self.slots = SlotStore(schema)
        self.runs = RunStore(schema)
        self._aside = SetAside()
        self._upkeep = Upkeep(schema, self._aside)
        self._servings = Servings(schema, specs, self._aside)
        self._claiming = Claiming(
            schema,
            kinds=specs,
            language_kinds=self._servings.kinds,
            languages=languages,
            default_languages=default_languages,
        )

    @property
    def able(self) -> dict[str, Any]:
        """What the node has the languages for, as parameters of the statements."""
        return self._claiming.able

    # -- claiming and settling

    def tick(
        self,
        connection: Connection[TupleRow],
        endings: Sequence[Ended],
        turns: Sequence[Turn],
        *,
        limited: bool,
        run_id: int | None,
        after: Mapping[Queue, Place] | None = None,
        rooms: Rooms | None = None,
    ) -> tuple[Settled, list[Claim]]:
        """Settles what ended and claims for the chosen queues: one transaction, one round trip.

        Args:
            turns: distinct queues; at most ``sum(turn.jobs)`` jobs are claimed.
            limited: whether a limit applies to any of them; claims then wait for each other on all nodes.
            after: of these queues only jobs after that place are claimed.
            rooms: is told how much room the limits of these turns leave, where there are any.

        Raises:
            psycopg.Error: nothing was written (or, when the connection broke, perhaps all of it).
        """
        settle_cursor = claim_cursor = None
        # The statements between two syncs of a pipeline are one implicit transaction, also in autocommit mode.
        with connection.pipeline():
            if turns or endings:
                connection.execute(self._sql["plan_tick"])
            if turns and limited:
                self._claiming.lock_limits(connection)
            if endings:
                settle_cursor = connection.execute(self._sql["settle"], self._settle_values(endings, rescue=False))
            if turns:
                claim_cursor = self._claiming.claim(
                    connection, turns, after or {}, limited=limited, node_id=self.node_id, run_id=run_id
                )
        settled = settled_of(settle_cursor.fetchall()) if settle_cursor else Settled({}, [])
        claims, left = claims_and_rooms(claim_cursor.fetchall() if claim_cursor else [])
        if rooms is not None:
            rooms.kinds |= left.kinds
            rooms.tenants |= left.tenants
        return settled, claims

    def claim_one(
        self, connection: Connection[TupleRow], job_id: int, run_id: int | None, *, within_limits: bool = False
    ) -> Claim | None:
        """Claims that job, due or not; None when it does not wait (any more), or this node does not know its kind or
        has not its languages.

        Args:
            within_limits: only if it is due, neither its tenant nor its kind is paused or at its limit, and its kind
                has a token.
        """
        return self._claiming.one(connection, job_id, self.node_id, run_id, within_limits=within_limits)

    def settle(self, connection: Connection[TupleRow], endings: Sequence[Ended], *, rescue: bool = False) -> Settled:
        """Settles endings in one statement; with ``rescue`` only those whose node's lease has ended."""
        rows = connection.execute(self._sql["settle"], self._settle_values(endings, rescue=rescue)).fetchall()
        return settled_of(rows)

    def settle_one_by_one(
        self, connection: Connection[TupleRow], endings: Sequence[Ended], *, rescue: bool = False
    ) -> Settled:
        """Settles each ending for itself, after one of them failed them all: see ``settle_apart``."""

        def settle(ending: Ended) -> Settled:
            return self.settle(connection, [ending], rescue=rescue)

        return settle_apart(connection, endings, settle, self._sql, self._aside if rescue else None)

    def refreshed(self, connection: Connection[TupleRow], claims: Sequence[Claim]) -> dict[UUID, Claim]:
        """The claims with their counters as they are now (a checkpoint sets them back); lost ones are missing."""
        rows = connection.execute(
            self._sql["claims_by_id"],
            {"job_ids": [claim.job_id for claim in claims], "claim_ids": [claim.claim_id for claim in claims]},
        ).fetchall()
        return {row[1]: Claim(*row) for row in rows}

    def held(self, connection: Connection[TupleRow]) -> list[Claim]:
        """Every job that this node holds by the database's word."""
        return [Claim(*row) for row in connection.execute(self._sql["held_claims"], [self.node_id]).fetchall()]

    def cancel_requested(self, connection: Connection[TupleRow]) -> list[Claim]:
        """Every job that this node holds and that somebody wants cancelled."""
        rows = connection.execute(self._sql["cancel_requested"], [self.node_id]).fetchall()
        return [Claim(*row) for row in rows]

    def attempted(self, connection: Connection[TupleRow], claim_ids: Sequence[UUID]) -> dict[UUID, Recorded]:
        """Which of these claims have been settled, and as what, by this node or by a rescue."""
        rows = connection.execute(self._sql["attempted"], [list(claim_ids)]).fetchall()
        return {claim_id: Recorded(*recorded) for claim_id, *recorded in rows}

    def write_progress(self, connection: Connection[TupleRow], progress: Sequence[tuple[int, UUID, int, int]]) -> None:
        """Writes (job_id, claim_id, done, total) of running jobs, for those who look."""
        if progress:
            job_ids, claim_ids, done, total = (list(column) for column in zip(*progress, strict=True))
            # What no column holds would keep the progress of every other job from being written.
            done, total = ([max(0, min(number, _LARGEST)) for number in column] for column in (done, total))
            values = {"job_ids": job_ids, "claim_ids": claim_ids, "done": done, "total": total}
            connection.execute(self._sql["write_progress"], values)

    # -- what there is to do

    def ready(self, connection: Connection[TupleRow]) -> list[ReadyQueue]:
        """Every queue with available jobs whose tenant and kind are not paused."""
        return self._claiming.ready(connection)

    def rooms(self, connection: Connection[TupleRow]) -> Rooms:
        """Every kind and tenant with a limit, and the room that it leaves at this moment; nothing is locked."""
        return self._claiming.rooms(connection)

    def promote(self, connection: Connection[TupleRow]) -> list[Queue]:
        """Makes due jobs available, a bounded number, and returns their queues; none when nothing is due any more.

        Where more are due than one step takes, it goes round the tenants (see ``queue.rounds``): each call goes on
        where the last one ended.
        """
        return self._upkeep.promote(connection)

    def take_up(self, run_id: int, pause: float | None = None) -> None:
        """From now on ``promote`` also takes what waits for a storage: once if it was tried before that run began.

        Args:
            pause: take it so many seconds after it was tried last, again and again; for a run that does not end.
        """
        self._upkeep.take_up(run_id, pause)

    @property
    def takes_up(self) -> bool:
        """Whether some of what was tried before the run began may not be available yet."""
        return self._upkeep.takes_up

    def put_off(
        self,
        connection: Connection[TupleRow],
        queue: Queue,
        job_ids: Sequence[int],
        seconds: float,
        after: Place = FRONT,
    ) -> PutOff:
        """Looks at a bounded number of the queue's due jobs, and puts off some as jobs that found their storage gone.

        Args:
            job_ids: of jobs of this run that did. Those whose documents lie on the same storage root, and nowhere
                else, are put off, if these agree.
            after: the place to go on from.
        """
        return self._upkeep.put_off(connection, queue, job_ids, seconds, after)

    def put_right(self, connection: Connection[TupleRow]) -> list[Queue]:
        """Makes true what a settle, an enqueue or a retry could not see, since its snapshot was too old.

        Jobs that wait in a paused campaign are held, held ones of a campaign that is not paused are released, and
        waiting ones that somebody wants cancelled are; such a wish is forgotten once its job is over. A cancel of a
        campaign that was cut short comes to its end. A bounded number each; returns the queues of the released.
        """
        return self._upkeep.put_right(connection)

    def expired_claims(self, connection: Connection[TupleRow]) -> list[Claim]:
        """A bounded number of claims whose node's lease has ended and whose rows nobody holds at this moment."""
        values = {"limit": _RESCUE_BATCH, "skip": self._aside.job_ids()}
        return [Claim(*row) for row in connection.execute(self._sql["expired_claims"], values).fetchall()]

    def undrained(self, connection: Connection[TupleRow], run_id: int, drain_wait: float) -> tuple[int, int]:
        """(retries of this run that are due within ``drain_wait`` seconds, claims that wait for a rescue).

        A claim that the database refused to let go a moment ago is not waited for.
        """
        values = {"run_id": run_id, "drain_wait": drain_wait, "skip": self._aside.job_ids(), **self.able}
        row = connection.execute(self._sql["undrained"], values).fetchone()
        assert row is not None
        return row[0], row[1]

    def locked(self, connection: Connection[TupleRow], job_ids: Sequence[int]) -> int:
        """How many of these jobs are available, but locked by somebody at this moment."""
        row = connection.execute(self._sql["locked_jobs"], {"job_ids": list(job_ids)}).fetchone()
        return int(row[0]) if row else 0

    def gaps(self, connection: Connection[TupleRow], scope: Mapping[str, Collection[Any]]) -> list[Gap]:
        """Available jobs that no live node has the languages for, as groups that can be given up.

        Args:
            scope: ``tenant_ids``, ``kinds`` and ``lanes``; empty collections mean all.
        """
        return self._servings.gaps(connection, scope)

    def give_up_unserved(
        self,
        connection: Connection[TupleRow],
        gap: Gap,
        *,
        run_id: int,
        limit: int,
    ) -> list[Unserved]:
        """Discards jobs of a gap that indeed no live node can do, without an attempt, and returns them.

        Args:
            run_id: the run that is to tell of them.
            limit: so many at most are looked at.
        """
        return self._servings.give_up(connection, gap, run_id=run_id, limit=limit)

    def working_nodes(self, connection: Connection[TupleRow]) -> dict[UUID, datetime]:
        """Other nodes that hold jobs and whose lease lives, with its end by the database's clock."""
        return dict(connection.execute(self._sql["working_nodes"], [self.node_id]).fetchall())

    # -- the node itself

    def join(self, connection: Connection[TupleRow], facts: NodeFacts, lease: float) -> None:
        """Makes this node known, with a lease of that many seconds."""
        values = {name: getattr(facts, name) for name in NodeFacts.__dataclass_fields__}
        values |= {"lease": lease, "kinds": list(facts.kinds), "languages": list(facts.languages)}
        values |= {"default_languages": list(facts.default_languages)}
        with connection.transaction():
            self._servings.hold_still(connection)
            connection.execute(self._sql["join_node"], values)
        for kind in facts.kinds:
            spec = self._specs[kind]
            values = {"kind": kind, "limit": spec.limit, "rate": spec.rate, "burst": spec.burst}
            connection.execute(self._sql["register_kind"], values)
        connection.execute(self._sql["forget_nodes"])

    def renew(self, connection: Connection[TupleRow], lease: float) -> bool:
        """Renews the lease; False when it has already ended."""
        values = {"node_id": self.node_id, "lease": lease}
        return connection.execute(self._sql["renew_lease"], values).fetchone() is not None

    def leave(self, connection: Connection[TupleRow]) -> None:
        connection.execute(self._sql["leave_node"], [self.node_id])

    def uptime(self, connection: Connection[TupleRow]) -> float:
        """Seconds since the database server started."""
        row = connection.execute(self._sql["database_uptime"]).fetchone()
        return float(row[0]) if row else 0.0

    def end_backends(
        self, connection: Connection[TupleRow], pids: Iterable[int], application: str, transactions: Iterable[str] = ()
    ) -> None:
        """Ends the backends that killed workers left behind, with the locks they hold.

        Args:
            pids: of their connections' backends.
            application: what those connections are called; a process id may by now be anybody's.
            transactions: what their transactions are called, behind a pooler, where nobody has a backend of his own.
        """
        values = {"pids": list(pids), "application": application, "transactions": list(transactions)}
        connection.execute(self._sql["end_backend"], values)

    def _settle_values(self, endings: Sequence[Ended], *, rescue: bool) -> dict[str, Any]:
        return {"transitions": endings_json(endings, self._specs), "rescue": rescue}
