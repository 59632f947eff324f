"""Reverting a campaign: its documents get the text back that they had before, and titles and tags follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.counted import counted
from batchproc.core.errors import UsageError
from batchproc.core.job import KindSpec, Lane, NewJob
from batchproc.core.kinds import CLASSIFY, OCR
from batchproc.documents.reverts import CampaignReverts, Target
from batchproc.ops.campaigning import CampaignMaking
from batchproc.queue.campaign_listing import CampaignListing
from batchproc.queue.store import JobStore

BATCH = 100
"""Documents that are locked at a time, for some milliseconds; at most as many jobs are enqueued with them."""
_LOOKED_AT = 1000


@dataclass(slots=True)
class Reverted:
    """How many documents got back the revision before, and of how many the text stays, by the reason.

    The reasons, as `documents.reverts.Case` has them: ``person``, ``first``, ``gone``; and ``busy``: somebody held the
    document all the while. ``campaign_id`` is that of the ``classify_jobs`` that follow; None: there are none.
    """

    reverted: int = 0
    stays: Counter[str] = field(default_factory=Counter)
    campaign_id: int | None = None
    classify_jobs: int = 0


class Reverting:
    """Goes through the documents whose text is the campaign's, in small batches, each a transaction of its own.

    Cut short anywhere it may be given again: what got its text back is not looked at any more.

    Args:
        campaign_id: the campaign to revert.
        login: the login name of whoever asks for it, for the revisions' rows and the log.
        spec: of the kind ``classify``, if it is known here.
    """

    def __init__(self, jobs: JobStore, campaign_id: int, login: str, spec: KindSpec | None) -> None:
        self._jobs = jobs
        self._campaign_id = campaign_id
        self._login = login
        self._spec = spec
        self._reverts = CampaignReverts(jobs.schema, campaign_id)
        self._listing = CampaignListing(jobs.schema)
        self._making = CampaignMaking(jobs.schema, f"campaigns revert {campaign_id}", CLASSIFY, None)

    def count(self, connection: Connection[TupleRow]) -> Reverted:
        """What a revert would do at this moment; nothing is changed, and nothing locked.

        Raises:
            UsageError: there is no such campaign, or jobs of it are still to come to an end.
        """
        self._require_ended(connection)
        done = Reverted()
        for found in self._slices(connection):
            for target in self._reverts.targets(connection, found):
                self._count(target, done)
        return done

    def run(self, connection: Connection[TupleRow], told: Callable[[Reverted], None] = lambda _: None) -> Reverted:
        """Gives the documents back what they had.

        Args:
            connection: in autocommit mode, outside transactions.
            told: called after each batch with what was done until then.

        Raises:
            UsageError: there is no such campaign, or jobs of it are still to come to an end.
        """
        self._require_ended(connection)
        done = Reverted()
        busy: list[int] = []
        for found in self._slices(connection):
            for first in range(0, len(found), BATCH):
                busy += self._batch(connection, found[first : first + BATCH], done)
                told(done)
        # Held for the moment in which somebody completed or restored them: once more, when that is over.
        for first in range(0, len(busy), BATCH):
            done.stays["busy"] += len(self._batch(connection, busy[first : first + BATCH], done))
            told(done)
        self._making.finish(connection)
        done.campaign_id = self._making.campaign_id
        text = "campaign {} was reverted by {}: {} documents got back the text from before"
        logger.info(text, self._campaign_id, self._login, done.reverted)
        return done

    def _slices(self, connection: Connection[TupleRow]) -> Iterator[list[int]]:
        after = 0
        while found := self._reverts.slice(connection, after=after, limit=_LOOKED_AT):
            yield found
            after = found[-1]

    def _batch(self, connection: Connection[TupleRow], document_ids: list[int], done: Reverted) -> list[int]:
        """Reverts those of these documents that nobody holds, and returns the others."""
        classified = 0
        with self._making.transaction(connection):
            locked = self._reverts.lock(connection, document_ids)
            targets = self._reverts.targets(connection, locked)
            back = [target for target in targets if target.case == "back"]
            if back:
                self._reverts.give_back(connection, back, reverted_by=self._login)
                classified = self._classify(connection, back)
        # Not before it is committed.
        done.classify_jobs += classified
        for target in targets:
            self._count(target, done)
        return sorted(set(document_ids) - set(locked))

    def _classify(self, connection: Connection[TupleRow], back: list[Target]) -> int:
        """How many jobs it made."""
        campaign_id = self._making.begun(connection)
        new = [
            NewJob(
                target.tenant_id,
                CLASSIFY,
                document_id=target.document_id,
                lane=Lane.BULK,
                # Not the document's own key: a job that has it may be claimed already, and read the text from before.
                unique_key=f"reverted:{campaign_id}:{target.document_id}",
                campaign_id=campaign_id,
            )
            for target in back
        ]
        made = self._jobs.enqueue_new(connection, new, self._spec)
        self._making.grow(connection, made)
        return made

    def _count(self, target: Target, done: Reverted) -> None:
        if target.case == "back":
            done.reverted += 1
        else:
            done.stays[target.case] += 1

    def _require_ended(self, connection: Connection[TupleRow]) -> None:
        self._listing.one(connection, self._campaign_id)
        left = sum(part.jobs for part in self._listing.left(connection, self._campaign_id) if part.kind == OCR)
        if left:
            raise UsageError(
                f"{counted(left, 'job')} of campaign {self._campaign_id} {'is' if left == 1 else 'are'} not over yet,"
                " and would read documents again that had been reverted",
                f"let them end, or stop them with: batchproc campaigns cancel {self._campaign_id}",
            )
