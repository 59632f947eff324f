"""Reprocessing: the documents that fit a filter get a job each, in batches, all of them in one campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from psycopg import Connection
from psycopg.rows import TupleRow
from pydantic import ValidationError

from batchproc.core.errors import UsageError
from batchproc.core.job import Lane, NewJob
from batchproc.core.languages import AUTO
from batchproc.core.versions import is_older, version_key
from batchproc.documents.selection import DocumentSelection, Filter, Selected
from batchproc.handlers.args import describe_invalid, validated_args
from batchproc.handlers.registry import Handler
from batchproc.queue.document_jobs import DocumentJobs, document_key
from batchproc.queue.store import JobStore

Kind = Literal["ocr", "classify"]

BAD_CONTENT = frozenset({"too_large", "encrypted", "unreadable_file", "unsupported_type", "empty_file"})
"""Failure codes of a document's content: the same content would fail again, unless bounds or passwords have changed."""
_COMPARED = {"mode": None, "languages": None, "pages": "all"}
"""What two jobs on one document may ask for differently, so that the one does not do the other's work, and what it is
where the args say nothing."""
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Wish:
    """What every job is to be.

    ``args`` are those of the kind, without a document. ``failed_pages_only``: of partial documents only the failed
    pages are read again. ``with_bad_content``: documents that failed for their content are not left alone.
    """

    kind: Kind
    args: Mapping[str, Any]
    lane: Lane
    priority: int = 5
    failed_pages_only: bool = False
    with_bad_content: bool = False


@dataclass(slots=True)
class Reprocessed:
    """How many documents fit, got a job, had one waiting, and were left alone, by the reason.

    The reasons: a failure code of the content; ``person``, whose text is never replaced; ``no_text`` to classify.
    ``queued_otherwise`` are those of ``already_queued`` of which no job that waits asks for the same, and
    ``differs_in`` how many of these ask for another ``mode``, other ``languages`` or other ``pages``.
    """

    selected: int = 0
    enqueued: int = 0
    already_queued: int = 0
    left_alone: Counter[str] = field(default_factory=Counter)
    campaign_id: int | None = None
    queued_otherwise: int = 0
    differs_in: Counter[str] = field(default_factory=Counter)


class Reprocessing:
    """Selects documents and enqueues their jobs; each batch is a transaction of its own.

    Whatever of it is killed may be started again: a document whose job waits already gets no second one.

    Args:
        entry: the kind's handler.
        command: what to call the campaign.
    """

    def __init__(self, jobs: JobStore, entry: Handler, wish: Wish, command: str) -> None:
        self._jobs = jobs
        self._entry = entry
        self._wish = wish
        self._command = command
        self._selection = DocumentSelection(jobs.schema)
        self._known = DocumentJobs(jobs.schema)
        self._require_valid_args()

    def run(
        self, connection: Connection[TupleRow], chosen: Filter, *, limit: int | None = None, dry: bool = False
    ) -> Reprocessed:
        """Goes through the documents by their ids.

        Args:
            connection: in autocommit mode.
            limit: of jobs to enqueue; what waits already or is left alone does not count. ``selected`` is how many
                documents were looked at until it was reached.
            dry: count only, and enqueue nothing.

        Raises:
            UsageError: a document that is named does not exist, or is another tenant's.
        """
        self._require_documents(connection, chosen)
        done = Reprocessed()
        after = 0
        while limit is None or done.enqueued < limit:
            # However little is left of the limit: what is left alone may be all that comes for a long while.
            found = self._selection.slice(connection, chosen, after=after, limit=_BATCH)
            if not found:
                break
            room = len(found) if limit is None else limit - done.enqueued
            after = self._take(connection, found, room, done, dry=dry)
        return done

    def _take(
        self, connection: Connection[TupleRow], found: list[Selected], room: int, done: Reprocessed, *, dry: bool
    ) -> int:
        """Goes through them until ``room`` need a job, and returns the id of the last that was looked at."""
        against = {document.document_id: self._reason_against(document) for document in found}
        wanted = [document_id for document_id, reason in against.items() if reason is None]
        waiting = self._known.waiting(connection, self._wish.kind, wanted)
        new: list[NewJob] = []
        last = 0
        for document in found:
            if len(new) == room:
                break
            last = document.document_id
            done.selected += 1
            if (reason := against[last]) is not None:
                done.left_alone[reason] += 1
            elif last in waiting:
                done.already_queued += 1
                self._compare(document, waiting[last], done)
            else:
                new.append(self._job(document))
        added = len(new) if dry else self._enqueue(connection, new, done)
        done.enqueued += added
        done.already_queued += len(new) - added
        return last

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
        with connection.transaction():
            campaign_id = done.campaign_id or self._jobs.begin_campaign(connection, self._command)
            owned = [replace(job, campaign_id=campaign_id) for job in jobs]
            added = self._jobs.enqueue_new(connection, owned, self._entry.spec)
        done.campaign_id = campaign_id
        return added

    def _reason_against(self, document: Selected) -> str | None:
        if self._wish.kind == "classify":
            return None if document.has_text else "no_text"
        if document.by_person:
            return "person"
        if document.status == "failed" and document.failure_code in BAD_CONTENT and not self._wish.with_bad_content:
            return document.failure_code
        return None

    def _job(self, document: Selected) -> NewJob:
        wish = self._wish
        return NewJob(
            document.tenant_id,
            wish.kind,
            self._args(document),
            document_id=document.document_id,
            lane=wish.lane,
            priority=wish.priority,
            unique_key=document_key(document.document_id),
        )

    def _args(self, document: Selected) -> dict[str, Any]:
        args = dict(self._wish.args)
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
            validated_args(self._entry, dict(self._wish.args), 1)
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


def versions_before(connection: Connection[TupleRow], schema: str, version: str) -> list[str]:
    """The versions of engines in the archive that are older than ``version``.

    Raises:
        UsageError: there is no number in it, or a line break or the like.
    """
    try:
        if not version.isprintable():
            raise ValueError
        version_key(version)
    except ValueError:
        raise UsageError(f"{version!r} is no version", "write it as 5.5.4") from None
    known = DocumentSelection(schema).engine_versions(connection)
    return [found for found in known if is_older(found, version)]
