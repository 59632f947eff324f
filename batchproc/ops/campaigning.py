"""Making a campaign while its jobs are enqueued, cancelling it, and retrying what of it failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.failure_codes import BAD_CONTENT
from batchproc.core.job import JobState
from batchproc.ops.changing_jobs import Cancel
from batchproc.queue.campaign_listing import CampaignListing
from batchproc.queue.campaigns import CampaignJob, Campaigns
from batchproc.queue.cancelling import CANCELLED, REQUESTED
from batchproc.queue.changing import RETRIED, RETRIED_HELD, Changing
from batchproc.queue.job_states import UNWRITTEN
from batchproc.queue.store import JobStore

# Each look finds only what followed jobs that completed during the one before, and a document has few jobs in a row.
_LOOKS = 10
_RETRIED = (JobState.DISCARDED, JobState.CANCELLED)

Progress = Callable[[int], None]


class CampaignMaking:
    """The campaign of one command, begun with its first job: without any there is none.

    Args:
        command: what was asked for, as words of the command line; None: the jobs belong to no campaign.
        kind: that of the jobs.
        tenant: the slug of the tenant whose documents they are; None: of several.
    """

    def __init__(self, schema: str, command: str | None, kind: str, tenant: str | None) -> None:
        self._campaigns = Campaigns(schema)
        self._command = command
        self._kind = kind
        self._scope: Mapping[str, Any] = {} if tenant is None else {"tenant": tenant}
        self.campaign_id: int | None = None

    @contextmanager
    def transaction(self, connection: Connection[TupleRow]) -> Iterator[None]:
        """A transaction to enqueue in; a campaign that was begun in one that fails is not there."""
        before = self.campaign_id
        try:
            with connection.transaction():
                yield
        except BaseException:
            self.campaign_id = before
            raise

    def begun(self, connection: Connection[TupleRow]) -> int | None:
        """The campaign's id, if there is to be one; begins it if this is the first time, in ``transaction``."""
        if self.campaign_id is None and self._command is not None:
            self.campaign_id = self._campaigns.begin(connection, self._command, kind=self._kind, scope=self._scope)
        return self.campaign_id

    def grow(self, connection: Connection[TupleRow], documents: int) -> None:
        """Counts documents that got a job in the same transaction, best at its end: it locks the campaign's row.

        Raises:
            UsageError: somebody has cancelled the campaign; the transaction is to be given up.
        """
        if documents and (campaign_id := self.begun(connection)) is not None:
            self._campaigns.grow(connection, campaign_id, documents)

    def finish(self, connection: Connection[TupleRow]) -> None:
        """Notes that everything was gone through; without jobs there is nothing to note."""
        if self.campaign_id is not None:
            self._campaigns.fill(connection, self.campaign_id)


@dataclass(frozen=True, slots=True)
class CampaignCancelled:
    """What a cancel did: jobs that ended by it, and those that still run although their node was asked to stop them.

    ``unwritten``: somebody held their rows all the while; the cancel is to be repeated for them.
    """

    cancelled: int = 0
    requested: int = 0
    unwritten: int = 0


@dataclass(slots=True)
class Retried:
    """How many jobs wait again, or are ``held`` again with their paused campaign, and why others were left as they are.

    ``left_alone`` by the failure code of documents whose content would fail again; ``superseded``: another job does
    their work; ``unwritten``: somebody held their rows: the retry is to be repeated for them.
    """

    retried: int = 0
    superseded: int = 0
    unwritten: int = 0
    left_alone: Counter[str] = field(default_factory=Counter)
    held: int = 0


class Campaigning:
    """What is done to a campaign as a whole, in small batches; each may be cut short, and be given again."""

    def __init__(self, jobs: JobStore) -> None:
        self._jobs = jobs
        self._campaigns = Campaigns(jobs.schema)
        self._listing = CampaignListing(jobs.schema)
        self._changing = Changing(jobs.schema)

    def cancel(
        self,
        connection: Connection[TupleRow],
        campaign_id: int,
        *,
        told: Progress = lambda _: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> CampaignCancelled:
        """Cancels what waits, and has what runs killed. What was done already stays.

        A campaign that has ended is left as it is, unless jobs of it were cancelled one by one. If this is cut short,
        the nodes that run finish it.

        Args:
            connection: in autocommit mode, outside transactions.
            told: called now and then with how many jobs are over.
            stopped: asked now and then whether to end at once.

        Raises:
            UsageError: there is no such campaign.
        """
        campaign = self._listing.one(connection, campaign_id)
        if campaign.has_ended and not campaign.documents_cancelled:
            return CampaignCancelled()
        self._campaigns.mark_cancelled(connection, campaign_id, cancelled=True)
        cancel = Cancel(self._jobs, connection)
        over: Counter[str] = Counter()
        for _ in range(_LOOKS):
            left: Counter[str] = Counter()
            for batch in self._campaigns.unfinished(connection, campaign_id):
                left.update(cancel(batch).values())
                told(over[CANCELLED] + left[CANCELLED])
                if stopped():
                    break
            over.update(left)
            # Another look: what completed before it was stopped may have been followed by another job.
            if stopped() or not left.keys() - {REQUESTED, UNWRITTEN}:
                break
        self._campaigns.finish_cancel(connection, [campaign_id])
        return CampaignCancelled(over[CANCELLED], left[REQUESTED], left[UNWRITTEN])

    def retry(
        self,
        connection: Connection[TupleRow],
        campaign_id: int,
        *,
        failure_codes: Sequence[str] = (),
        dry: bool = False,
        told: Progress = lambda _: None,
    ) -> Retried:
        """Lets what was given up on or cancelled wait again, with fresh budgets; a cancel of the campaign is over.

        Args:
            connection: in autocommit mode, outside transactions.
            failure_codes: only jobs that ended with one of these. Without any, those that failed for their document's
                content are left alone, and what was cancelled is retried too.
            dry: count only.

        Raises:
            UsageError: there is no such campaign.
        """
        campaign = self._listing.one(connection, campaign_id)
        if not dry:
            self._campaigns.mark_cancelled(connection, campaign_id, cancelled=False)
        done = Retried()
        for batch in self._campaigns.failed(
            connection, campaign_id, states=_RETRIED, failure_codes=failure_codes or None
        ):
            wanted = [job.job_id for job in batch if failure_codes or not self._leaves(job, done)]
            if dry and campaign.paused:
                done.held += len(wanted)
            elif dry:
                done.retried += len(wanted)
            else:
                self._retry(connection, wanted, done)
            told(done.retried + done.held)
        return done

    def _leaves(self, job: CampaignJob, done: Retried) -> bool:
        code = job.failure_code
        if job.state is not JobState.DISCARDED or code not in BAD_CONTENT:
            return False
        done.left_alone[code] += 1
        return True

    def _retry(self, connection: Connection[TupleRow], job_ids: list[int], done: Retried) -> None:
        outcomes = Counter(self._changing.retry(connection, job_ids).values()) if job_ids else Counter()
        done.retried += outcomes[RETRIED]
        done.held += outcomes[RETRIED_HELD]
        done.superseded += outcomes["superseded"]
        done.unwritten += outcomes[UNWRITTEN]
