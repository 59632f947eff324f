"""What any node does for all: due jobs become available, and jobs go where a change that came meanwhile wants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, TypeVar

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.fairness import Queue
from batchproc.core.floors import Place
from batchproc.core.job import JobState
from batchproc.database import SqlFolder
from batchproc.queue.apart import SetAside, write_apart
from batchproc.queue.campaigns import Campaigns
from batchproc.queue.cancelling import Cancelling
from batchproc.queue.rounds import STEP, Rounds, Step

_STRAYS = 500
_PUT_OFF = 2000

T = TypeVar("T")


class PutOff(NamedTuple):
    """How many jobs were put off, and the place of the last that was looked at; None when that was all."""

    jobs: int
    last: Place | None


class Upkeep:
    """The statements behind ``NodeStore.promote`` and ``NodeStore.put_right``.

    Args:
        aside: jobs that could not be written a moment ago; those that cannot be written now are added.
    """

    def __init__(self, schema: str, aside: SetAside) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)
        self._aside = aside
        self._campaigns = Campaigns(schema)
        self._cancelling = Cancelling(schema)
        self._taken_up: dict[str, Any] | None = None
        self.takes_up = False
        # Housekeeping and a run that is about to end promote, each in its thread. Neither waits for the other, whose
        # database may be silent: where they meet, a round begins again, or some tenants have their turn later.
        self._due_rounds: Rounds | None = None
        self._stored_rounds = Rounds()

    def take_up(self, run_id: int, pause: float | None) -> None:
        """See ``NodeStore.take_up``."""
        self._taken_up = {"run_id": run_id, "pause": pause}
        self.takes_up = pause is None

    def promote(self, connection: Connection[TupleRow]) -> list[Queue]:
        """See ``NodeStore.promote``."""
        due = self._due(connection)
        promoted = self._write(
            connection,
            sorted(due),
            lambda ids: connection.execute(self._sql["promote_jobs"], {"job_ids": ids}).fetchall(),
        )
        return list({Queue(*row) for row in [*promoted, *self._take_up_stored(connection)]})

    def _due(self, connection: Connection[TupleRow]) -> list[int]:
        """The next due jobs: all of them where they are few, as nearly always; else those of the next tenants."""
        skip = {"skip": self._aside.job_ids()}
        rounds = self._due_rounds
        if rounds is None:
            rows = connection.execute(self._sql["due_jobs"], skip | {"limit": STEP}).fetchall()
            if len(rows) < STEP:
                return [row[0] for row in rows]
            rounds = self._due_rounds = Rounds()

        def look(step: Step) -> list[tuple[int, int]]:
            return connection.execute(self._sql["due_by_tenant"], skip | asdict(step)).fetchall()

        due = rounds.next(look)
        if not due:
            self._due_rounds = None
        return due

    def put_off(
        self, connection: Connection[TupleRow], queue: Queue, job_ids: Sequence[int], seconds: float, after: Place
    ) -> PutOff:
        """See ``NodeStore.put_off``; nothing before ``take_up``, which tells the run."""
        if self._taken_up is None:
            return PutOff(0, None)
        values = queue._asdict() | after._asdict()
        values |= {"job_ids": list(job_ids), "skip": self._aside.job_ids(), "limit": _PUT_OFF}
        seen = connection.execute(self._sql["of_one_root"], values).fetchall()
        found = [job_id for _, job_id, lies_there in seen if lies_there]
        told = {"run_id": self._taken_up["run_id"], "seconds": seconds}
        done = self._write(
            connection,
            sorted(found),
            lambda ids: connection.execute(self._sql["put_off_jobs"], told | {"job_ids": ids}).fetchall(),
        )
        return PutOff(len(done), Place(*seen[-1][:2]) if len(seen) == _PUT_OFF else None)

    def put_right(self, connection: Connection[TupleRow]) -> list[Queue]:
        """See ``NodeStore.put_right``."""
        values = {"limit": _STRAYS, "skip": self._aside.job_ids()}
        rows = connection.execute(self._sql["strays"], values).fetchall()
        if not rows:
            return []
        wanted: dict[str, list[int]] = {
            "cancel": [],
            "forget": [],
            "hold": [],
            "release": [],
            "end": [],
            "stop": [],
            "over": [],
        }
        for what, job_id in rows:
            wanted[what].append(job_id)
        self._write(connection, wanted["cancel"], lambda ids: self._cancelling.cancel_waiting(connection, ids))
        self._write(connection, wanted["forget"], lambda ids: self._cancelling.forget_requests(connection, ids))
        self._write(connection, wanted["hold"], lambda ids: self._campaigns.hold_jobs(connection, ids))
        self._write(connection, wanted["end"], lambda ids: self._campaigns.cancel_strays(connection, ids))
        self._cancelling.request(connection, wanted["stop"])
        if wanted["over"]:
            self._campaigns.finish_cancel(connection, wanted["over"])
        released = self._write(connection, wanted["release"], lambda ids: self._campaigns.release_jobs(connection, ids))
        return list({queue for state, queue in released if state is JobState.AVAILABLE})

    def _take_up_stored(self, connection: Connection[TupleRow]) -> list[TupleRow]:
        if self._taken_up is None or not (self.takes_up or self._taken_up["pause"]):
            return []
        values = self._taken_up | {"skip": self._aside.job_ids()}

        def look(step: Step) -> list[tuple[int, int]]:
            # Without locks: what another thread is taking up, and has not committed, is not yet taken up.
            return connection.execute(self._sql["stored_jobs"], values | asdict(step)).fetchall()

        found = self._stored_rounds.next(look)
        if not found:
            self.takes_up = False
        return self._write(
            connection,
            sorted(found),
            lambda ids: connection.execute(self._sql["take_up_jobs"], {"job_ids": ids}).fetchall(),
        )

    def _write(
        self, connection: Connection[TupleRow], job_ids: list[int], write: Callable[[list[int]], Sequence[T]]
    ) -> list[T]:
        told, refused = write_apart(connection, job_ids, write)
        self._aside.add(refused)
        return told
