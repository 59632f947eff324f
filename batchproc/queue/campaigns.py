"""Campaigns: begun and filled by a command, paused and resumed, cancelled and retried as a whole.

Pausing a campaign holds the jobs of it that wait; the end of the pause releases them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import UsageError
from batchproc.core.fairness import Queue
from batchproc.core.job import JobState
from batchproc.database import SqlFolder
from batchproc.queue import hints
from batchproc.queue.apart import require_own_transactions, write_apart

_BATCH = 500
_LARGEST_ID = 2**63 - 1


class Released(NamedTuple):
    """Jobs that wait again, and those that were cancelled because a job with their unique key waits already."""

    jobs: int
    superseded: int


class CampaignJob(NamedTuple):
    """A job that was given up on, with its code, or that somebody cancelled."""

    job_id: int
    failure_code: str | None
    state: JobState


class Campaigns:
    """The statements behind ``JobStore.hold`` and ``JobStore.release``, and what else is done to a campaign.

    The campaign is marked first, so that whatever a settle, a retry or an enqueue puts back from then on goes where it
    belongs by itself. What began before that and commits after the batches, and rows that were passed over because
    somebody held them, are found by ``NodeStore.put_right``.
    """

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)
        self._channel = hints.channel(schema)

    def begin(
        self,
        connection: Connection[TupleRow],
        command: str,
        *,
        kind: str | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> int:
        """The id of a new campaign, for jobs that belong together. ``command`` tells what made them.

        Args:
            kind: that of its jobs, those apart that follow them.
            scope: whose documents were chosen, such as ``{"tenant": "acme"}``; empty for those of all.
        """
        values = {"command": command, "kind": kind, "scope": json.dumps(dict(scope or {}))}
        row = connection.execute(self._sql["begin_campaign"], values).fetchone()
        assert row is not None
        return int(row[0])

    def grow(self, connection: Connection[TupleRow], campaign_id: int, documents: int) -> None:
        """Counts documents that got a job, in the transaction that enqueues the jobs.

        Raises:
            UsageError: the campaign is cancelled; the transaction is to be given up.
        """
        values = {"campaign_id": campaign_id, "documents": documents}
        if connection.execute(self._sql["grow_campaign"], values).fetchone() is None:
            raise UsageError(
                f"campaign {campaign_id} was cancelled while this command still added to it",
                f"to go on after all: batchproc campaigns retry {campaign_id}, then this command again",
            )

    def fill(self, connection: Connection[TupleRow], campaign_id: int) -> None:
        """Notes that the command which made it has gone through everything it was to."""
        connection.execute(self._sql["fill_campaign"], {"campaign_id": campaign_id})

    def mark_cancelled(self, connection: Connection[TupleRow], campaign_id: int, *, cancelled: bool) -> None:
        """Nothing is added to a cancelled campaign any more; its pause ends.

        What of it waits or runs is cancelled by ``NodeStore.put_right`` from then on, until ``finish_cancel``, so that
        a cancel which is cut short comes to its end.

        Raises:
            UsageError: there is no such campaign.
        """
        require_own_transactions(connection, "the end of a campaign")
        values = {"campaign_id": campaign_id, "cancelled": cancelled}
        if connection.execute(self._sql["cancel_campaign"], values).fetchone() is None:
            raise unknown_campaign(campaign_id)

    def finish_cancel(self, connection: Connection[TupleRow], campaign_ids: Sequence[int]) -> None:
        """Notes of those that are being cancelled that they are, unless a job of it still waits, is held or runs."""
        connection.execute(self._sql["finish_cancel"], {"campaign_ids": list(campaign_ids)})

    def cancel_strays(self, connection: Connection[TupleRow], job_ids: list[int]) -> list[int]:
        """Cancels those of these jobs that wait, or are held, and whose campaign is being cancelled; their ids."""
        return [row[0] for row in connection.execute(self._sql["cancel_stray"], {"job_ids": job_ids}).fetchall()]

    def unfinished(self, connection: Connection[TupleRow], campaign_id: int) -> Iterator[list[int]]:
        """The jobs that wait, are held or run, in batches by their ids."""
        after = 0
        while job_ids := self._look(
            connection, "campaign_unfinished", {"campaign_id": campaign_id, "after": after, "limit": _BATCH}
        ):
            after = job_ids[-1]
            yield job_ids

    def failed(
        self,
        connection: Connection[TupleRow],
        campaign_id: int,
        *,
        states: Sequence[JobState],
        failure_codes: Sequence[str] | None = None,
    ) -> Iterator[list[CampaignJob]]:
        """The jobs that ended as discarded or cancelled, as ``states`` say, in batches by their ids.

        Those that gave way to a job with their unique key are left out.
        """
        values = {
            "campaign_id": campaign_id,
            "states": [state.value for state in states],
            "failure_codes": None if failure_codes is None else list(failure_codes),
            "limit": _BATCH,
        }
        after = 0
        while rows := connection.execute(self._sql["campaign_failed"], values | {"after": after}).fetchall():
            after = rows[-1][0]
            yield [CampaignJob(job_id, code, JobState(state)) for job_id, code, state in rows]

    def hold(self, connection: Connection[TupleRow], campaign_id: int) -> int:
        """See ``JobStore.hold``."""
        self._mark(connection, campaign_id, paused=True)
        held, after = 0, 0
        while job_ids := self._look(
            connection, "campaign_waiting", {"campaign_id": campaign_id, "after": after, "limit": _BATCH}
        ):
            written, _ = write_apart(connection, job_ids, lambda ids: self.hold_jobs(connection, ids))
            held += len(written)
            after = job_ids[-1]
        return held

    def release(self, connection: Connection[TupleRow], campaign_id: int) -> Released:
        """See ``JobStore.release``."""
        self._mark(connection, campaign_id, paused=False)
        states: list[JobState] = []
        before = _LARGEST_ID
        while job_ids := self._look(
            connection, "campaign_held", {"campaign_id": campaign_id, "before": before, "limit": _BATCH}
        ):
            written, _ = write_apart(connection, job_ids, lambda ids: self.release_jobs(connection, ids))
            states += [state for state, _ in written]
            before = job_ids[-1]
        connection.execute(self._sql["notify"], [self._channel, hints.REFRESH])
        superseded = states.count(JobState.CANCELLED)
        return Released(len(states) - superseded, superseded)

    def hold_jobs(self, connection: Connection[TupleRow], job_ids: list[int]) -> list[int]:
        """Holds those of these jobs that wait and whose campaign is paused; returns their ids."""
        return [row[0] for row in connection.execute(self._sql["hold_jobs"], {"job_ids": job_ids}).fetchall()]

    def release_jobs(self, connection: Connection[TupleRow], job_ids: list[int]) -> list[tuple[JobState, Queue]]:
        """Releases those of these jobs that are held and whose campaign is not paused; what became of each."""
        rows = connection.execute(self._sql["release_jobs"], {"job_ids": job_ids}).fetchall()
        return [(JobState(state), Queue(lane, tenant_id, kind)) for _, state, lane, tenant_id, kind in rows]

    def _mark(self, connection: Connection[TupleRow], campaign_id: int, *, paused: bool) -> None:
        require_own_transactions(connection, "the pause of a campaign")
        values = {"campaign_id": campaign_id, "paused": paused}
        if connection.execute(self._sql["pause_campaign"], values).fetchone() is not None:
            return
        if connection.execute(self._sql["campaign_exists"], values).fetchone() is None:
            raise unknown_campaign(campaign_id)
        raise UsageError(
            f"campaign {campaign_id} is cancelled: it can be neither paused nor resumed",
            f"to take the cancel back: batchproc campaigns retry {campaign_id}",
        )

    def _look(self, connection: Connection[TupleRow], name: str, values: dict[str, int]) -> list[int]:
        return [row[0] for row in connection.execute(self._sql[name], values).fetchall()]


def unknown_campaign(campaign_id: int) -> UsageError:
    """The error of a campaign that does not exist."""
    return UsageError(f"there is no campaign {campaign_id}", "see: batchproc campaigns list")
