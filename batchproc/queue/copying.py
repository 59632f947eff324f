"""Enqueueing many jobs at once, through COPY."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import UsageError
from batchproc.core.job import KindSpec, NewJob
from batchproc.database import SqlFolder
from batchproc.queue import hints
from batchproc.queue.copy_lines import CopyLines
from batchproc.queue.new_jobs import UNSTORABLE, reason

_LINES = 256
"""Jobs sent at a time: some 30 kB, so that the server is busy while the next are made."""


class Copying:
    """See ``JobStore.enqueue_many``."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)
        self._channel = hints.channel(schema)

    def enqueue(self, connection: Connection[TupleRow], jobs: Iterable[NewJob], specs: Mapping[str, KindSpec]) -> int:
        """See ``JobStore.enqueue_many``."""
        paused = {row[0] for row in connection.execute(self._sql["paused_campaigns"]).fetchall()}
        lines = CopyLines(specs, paused)
        count = self._copy(connection, jobs, lines)
        if lines.unsaid_documents:
            values = {"document_ids": sorted(lines.unsaid_documents), "kinds": sorted(lines.unsaid_kinds)}
            connection.execute(self._sql["hint_languages"], values)
        told = hints.of_batch(lines.priorities, refresh=lines.scheduled)
        if told:
            connection.execute(self._sql["notify_all"], [self._channel, told])
        return count

    def _copy(self, connection: Connection[TupleRow], jobs: Iterable[NewJob], lines: CopyLines) -> int:
        count = 0
        coming = iter(jobs)
        try:
            with connection.cursor() as cursor, cursor.copy(self._sql["copy_jobs"]) as copy:
                while made := [lines.line(job) for job in islice(coming, _LINES)]:
                    copy.write("".join(made))
                    count += len(made)
        except psycopg.errors.ForeignKeyViolation:
            raise UsageError(
                "one of the jobs names a tenant that does not exist, or a document that is not that tenant's",
                "nothing was enqueued; correct it and enqueue the jobs again",
            ) from None
        except psycopg.errors.UniqueViolation:
            raise UsageError(
                "one of the jobs has a unique key that already waits",
                "nothing was enqueued; enqueue jobs with unique keys one by one",
            ) from None
        except UNSTORABLE as error:
            raise UsageError(f"one of the jobs cannot be stored ({reason(error)})", "nothing was enqueued") from None
        return count
