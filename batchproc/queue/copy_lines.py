"""New jobs as the lines of a COPY in text format (PostgreSQL, COPY, "Text Format").

Made here and not value by value by the driver, which takes longer over a row than the server does. Most columns of a
batch are the same in row after row: their part of the line is made once for all jobs that share them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from batchproc.core.fairness import Queue
from batchproc.core.job import JobState, KindSpec, NewJob
from batchproc.queue import new_jobs
from batchproc.queue.array_text import array_text
from batchproc.queue.trace_context import current_traceparent

_NULL = r"\N"
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_MOST_HEADS = 10_000


class Head(NamedTuple):
    """The columns that many jobs share: the beginning of their lines, with the tab behind it."""

    text: str
    may_need_languages: bool


class CopyLines:
    """Turns jobs into lines, in the order of the columns of copy_jobs.sql, and keeps what is to be done behind them.

    Args:
        specs: settings of kinds by name.
        paused: campaigns that are paused: their jobs are held.
    """

    def __init__(self, specs: Mapping[str, KindSpec], paused: Collection[int]) -> None:
        self._specs = specs
        self._paused = paused
        self._traceparent = current_traceparent()
        self._heads: dict[tuple[Any, ...], Head] = {}
        self.priorities: dict[Queue, int] = {}
        """The lowest priority of what is available, for each queue."""
        self.scheduled = False
        self.unsaid_documents = set[int]()
        """Documents of jobs that name no languages, and the kinds of those jobs."""
        self.unsaid_kinds = set[str]()

    def line(self, job: NewJob) -> str:
        """One job, with its end of line. Raises TypeError or ValueError for args that are no JSON."""
        shared = (
            job.tenant_id,
            job.kind,
            job.lane,
            job.priority,
            job.run_at is None,
            job.max_attempts,
            job.campaign_id,
            job.run_id,
        )
        head = self._heads.get(shared) or self._head(shared, job)
        args = "{}" if job.args == {} else _escaped(json.dumps(job.args))
        asked = new_jobs.languages(job) if job.args or job.languages else None
        if job.document_id is None and job.run_at is None and job.unique_key is None and asked is None:
            return f"{head.text}\\N\tnow\t{args}\t\\N\t\\N\n"
        if job.document_id is not None and asked is None and head.may_need_languages:
            self.unsaid_documents.add(job.document_id)
            self.unsaid_kinds.add(job.kind)
        own = (
            field(job.document_id),
            "now" if job.run_at is None else field(job.run_at),
            args,
            field(job.unique_key),
            _NULL if asked is None else field(array_text(asked)),
        )
        return head.text + "\t".join(own) + "\n"

    def _head(self, shared: tuple[Any, ...], job: NewJob) -> Head:
        spec = self._specs.get(job.kind)
        waiting = JobState.AVAILABLE if job.run_at is None else JobState.SCHEDULED
        state = JobState.HELD if job.campaign_id in self._paused else waiting
        columns = (
            job.tenant_id,
            job.kind,
            int(job.lane),
            job.priority,
            state,
            new_jobs.is_unique_while_running(spec),
            new_jobs.max_attempts(job, spec),
            job.campaign_id,
            job.run_id,
            self._traceparent,
        )
        if state is JobState.AVAILABLE:
            queue = Queue(int(job.lane), job.tenant_id, job.kind)
            self.priorities[queue] = min(job.priority, self.priorities.get(queue, job.priority))
        self.scheduled = self.scheduled or state is JobState.SCHEDULED
        if len(self._heads) >= _MOST_HEADS:
            self._heads.clear()
        text = "".join(f"{field(column)}\t" for column in columns)
        made = self._heads[shared] = Head(text, new_jobs.may_need_languages(spec))
        return made


def field(value: object) -> str:
    """A value as COPY reads it: None as NULL, all else as its text."""
    return _NULL if value is None else _escaped(str(value))


def _escaped(text: str) -> str:
    return text if text.isprintable() and "\\" not in text else text.translate(_ESCAPES)
