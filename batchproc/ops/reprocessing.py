"""Reprocessing: the documents that fit a filter get a job each, in batches, all of them in one campaign."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from psycopg import Connection
from psycopg.rows import TupleRow
from pydantic import ValidationError

from batchproc.core.errors import UsageError
from batchproc.core.failure_codes import BAD_CONTENT
from batchproc.core.job import Lane, NewJob
from batchproc.core.kinds import CLASSIFY
from batchproc.core.languages import AUTO
from batchproc.documents.selection import DocumentSelection, Filter, Selected
from batchproc.handlers.args import describe_invalid, validated_args
from batchproc.handlers.registry import Handler
from batchproc.ops.campaigning import CampaignMaking
from batchproc.ops.estimates import Work
from batchproc.queue.document_jobs import DocumentJobs, document_key
from batchproc.queue.store import JobStore

Kind = Literal["ocr", "classify"]

_COMPARED = {"mode": None, "languages": None, "pages": "all"}
"""What two jobs on one document may ask for differently, so that the one does not do the other's work, and what it is
where the args say nothing."""
_BATCH = 1000

BEGUN = "begun"
"""Why a document gets no pilot: see ``Reprocessed``."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What every job is to be.

    ``args`` are those of the kind, without a document. ``failed_pages_only``: of partial documents only the failed
    pages are read again. Documents that failed with a ``known`` code are left alone unless ``with_bad_content``.
    ``pilot``: they are read to look at the result, which does not become current.
    """

    kind: Kind
    args: Mapping[str, Any]
    lane: Lane
    priority: int = 5
    failed_pages_only: bool = False
    with_bad_content: bool = False
    known: frozenset[str] = BAD_CONTENT
    pilot: bool = False


@dataclass(slots=True)
class Reprocessed:
    """How many documents fit, got a job, had one waiting, and were left alone, by the reason.

    The reasons: a failure code of the content; ``person``, whose text is never replaced; ``no_text`` to classify;
    ``begun``, of pilots: a job began to read it, and a pilot would take its pages from whoever goes on with them.
    ``queued_otherwise`` are those of ``already_queued`` of which no job that waits asks for the same, and
    ``differs_in`` how many of these ask for another ``mode``, other ``languages`` or other ``pages``.
    ``pages`` of the documents that got a job, by tenant, where they are known, and ``pages_unknown`` how many documents
    there are where they are not; ``jobs`` how many got one.
    """

    selected: int = 0
    enqueued: int = 0
    already_queued: int = 0
    left_alone: Counter[str] = field(default_factory=Counter)
    campaign_id: int | None = None
    queued_otherwise: int = 0
    differs_in: Counter[str] = field(default_factory=Counter)
    jobs: Counter[int] = field(default_factory=Counter)
    pages: Counter[int] = field(default_factory=Counter)
    pages_unknown: Counter[int] = field(default_factory=Counter)

    def work(self, wish: Wish) -> list[Work]:
        """What is to be done of it, by tenant."""
        mode = wish.args.get("mode")
        return [
            Work(tenant_id, wish.kind, count, self.pages[tenant_id], self.pages_unknown[tenant_id], mode)
            for tenant_id, count in sorted(self.jobs.items())
        ]


class Reprocessing:
    """Selects documents and enqueues their jobs; each batch is a transaction of its own.

    Whatever of it is killed may be started again: a document whose job waits already gets no second one.

    Args:
        entry: the kind's handler.
        command: what to call the campaign.
        tenant: the slug of the tenant, if only its documents are chosen.
    """

    def __init__(self, jobs: JobStore, entry: Handler, wish: Wish, command: str, tenant: str | None = None) -> None:
        self._jobs = jobs
        self._entry = entry
        self._wish = wish
        self._making = CampaignMaking(jobs.schema, command, wish.kind, tenant)
        self._selection = DocumentSelection(jobs.schema)
        self._known = DocumentJobs(jobs.schema)
        self._require_valid_args()

    def run(
        self,
        connection: Connection[TupleRow],
        chosen: Filter,
        *,
        limit: int | None = None,
        dry: bool = False,
        told: Callable[[Reprocessed], None] = lambda _: None,
    ) -> Reprocessed:
        """Goes through the documents by their ids.

        Args:
            connection: in autocommit mode.
            limit: of jobs to enqueue; what waits already or is left alone does not count. ``selected`` is how many
                documents were looked at until it was reached.
            dry: count only, and enqueue nothing.
            told: called after each batch with what was done until then.

        Raises:
            UsageError: a document that is named does not exist, or is another tenant's; or somebody has cancelled the
                campaign meanwhile.
        """
        self._require_documents(connection, chosen)
        done = Reprocessed()
        # However little is left of the limit: what is left alone may be all that comes for a long while.
        for found in self._batches(connection, chosen):
            self._take(connection, found, len(found) if limit is None else limit - done.enqueued, done, dry=dry)
            told(done)
            if limit is not None and done.enqueued >= limit:
                break
        if not dry:
            self._making.finish(connection)
        return done

    def sample(self, connection: Connection[TupleRow], chosen: Filter, size: int) -> tuple[Filter, Reprocessed]:
        """Of the documents that fit and would get a job ``size`` at most, from all over the archive.

        The same ones each time: those whose ids have the lowest hashes. Behind them, of all documents, how many would
        get a ``jobs``, by tenant, with their pages, and how many are ``left_alone``.

        Raises:
            UsageError: as ``run``.
        """
        self._require_documents(connection, chosen)
        fitting = Reprocessed()

        def candidates() -> Iterator[int]:
            for found in self._batches(connection, chosen):
                for document in found:
                    if (reason := self._reason_against(document)) is not None:
                        fitting.left_alone[reason] += 1
                        continue
                    self._measure(document, fitting)
                    yield document.document_id

        sample = heapq.nsmallest(size, candidates(), key=_scattered)
        return replace(chosen, document_ids=sorted(sample)), fitting

    def _batches(self, connection: Connection[TupleRow], chosen: Filter) -> Iterator[list[Selected]]:
        after = 0
        while found := self._selection.slice(connection, chosen, after=after, limit=_BATCH):
            yield found
            after = found[-1].document_id

    def _take(
        self, connection: Connection[TupleRow], found: list[Selected], room: int, done: Reprocessed, *, dry: bool
    ) -> None:
        """Goes through them until ``room`` need a job."""
        against = {document.document_id: self._reason_against(document) for document in found}
        wanted = [document_id for document_id, reason in against.items() if reason is None]
        waiting = self._known.waiting(connection, self._wish.kind, wanted, pilots=self._wish.pilot)
        new: list[Selected] = []
        for document in found:
            if len(new) == room:
                break
            done.selected += 1
            if (reason := against[document.document_id]) is not None:
                done.left_alone[reason] += 1
            elif document.document_id in waiting:
                done.already_queued += 1
                self._compare(document, waiting[document.document_id], done)
            else:
                new.append(document)
                self._measure(document, done)
        added = len(new) if dry else self._enqueue(connection, [self._job(document) for document in new], done)
        done.enqueued += added
        done.already_queued += len(new) - added

    def _measure(self, document: Selected, done: Reprocessed) -> None:
        only_failed = self._args(document).get("pages") == "failed"
        pages = document.failed_pages if only_failed else document.pages
        done.jobs[document.tenant_id] += 1
        done.pages[document.tenant_id] += pages or 0
        done.pages_unknown[document.tenant_id] += pages is None

    def _compare(self, document: Selected, waiting: Sequence[Mapping[str, Any]], done: Reprocessed) -> None:
        """Counts a document of which no job that waits does what is asked for: by the one that is nearest to it."""
        asked = self._args(document)
        nearest = min(
            (_differing(args, asked) for args in waiting),
            key=lambda differing: (len(differing), sorted(differing)),
        )
        done.queued_otherwise += bool(nearest)
        done.differs_in.update(nearest)

    def _enqueue(self, connection: Connection[TupleRow], jobs: list[NewJob], done: Reprocessed) -> int:
        if not jobs:
            return 0
        with self._making.transaction(connection):
            campaign_id = self._making.begun(connection)
            owned = [replace(job, campaign_id=campaign_id) for job in jobs]
            added = self._jobs.enqueue_new(connection, owned, self._entry.spec)
            self._making.grow(connection, added)
        done.campaign_id = campaign_id
        return added

    def _reason_against(self, document: Selected) -> str | None:
        if self._wish.kind == CLASSIFY:
            return None if document.has_text else "no_text"
        if document.by_person:
            return "person"
        if (
            document.status == "failed"
            and document.failure_code in self._wish.known
            and not self._wish.with_bad_content
        ):
            return document.failure_code
        return BEGUN if self._wish.pilot and document.is_begun else None

    def _job(self, document: Selected) -> NewJob:
        wish = self._wish
        return NewJob(
            document.tenant_id,
            wish.kind,
            self._args(document),
            document_id=document.document_id,
            lane=wish.lane,
            priority=wish.priority,
            unique_key=document_key(document.document_id, pilot=wish.pilot),
        )

    def _args(self, document: Selected) -> dict[str, Any]:
        args = dict(self._wish.args) | ({"pilot": True} if self._wish.pilot else {})
        if self._wish.failed_pages_only and document.status == "partial":
            args["pages"] = "failed"
        return args

    def _require_documents(self, connection: Connection[TupleRow], chosen: Filter) -> None:
        if chosen.document_ids is None:
            return
        named = Filter(tenant_id=chosen.tenant_id, document_ids=chosen.document_ids)
        found = self._selection.slice(connection, named, after=0, limit=len(chosen.document_ids))
        missing = sorted(set(chosen.document_ids) - {document.document_id for document in found})
        if missing:
            whose = "" if chosen.tenant_id is None else " of that tenant"
            shown = ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
            raise UsageError(f"there is no document {shown}{whose}", "see: batchproc documents list")

    def _require_valid_args(self) -> None:
        try:
            validated_args(self._entry, {**self._wish.args}, 1)
        except ValidationError as error:
            raise UsageError(f"kind {self._wish.kind} does not take that: {describe_invalid(error)}") from None


def _differing(waiting: Mapping[str, Any], asked: Mapping[str, Any]) -> set[str]:
    differing = {name for name, unsaid in _COMPARED.items() if waiting.get(name, unsaid) != asked.get(name, unsaid)}
    if "range" in waiting and _leaves_languages(asked, waiting.get("languages", [])):
        differing.discard("languages")
    return differing


def _leaves_languages(asked: Mapping[str, Any], split_with: Sequence[str]) -> bool:
    """A document that is split writes down the languages it is read in, also where nobody had named any."""
    languages = asked.get("languages")
    return languages is None or (languages == [AUTO] and AUTO in split_with)


def _scattered(document_id: int) -> bytes:
    return hashlib.sha256(document_id.to_bytes(8, "big")).digest()
