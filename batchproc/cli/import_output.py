"""What ``import`` prints: as it goes on, in constant memory, however many files there are."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import click

from batchproc.cli.import_progress import ImportProgress
from batchproc.cli.messages import say
from batchproc.cli.output import figure, json_text, table
from batchproc.core.counted import counted
from batchproc.core.durations import duration
from batchproc.core.shown_text import one_line
from batchproc.core.throughput import per
from batchproc.documents.paths import display_path, terminal_path
from batchproc.ops.imported import Imported, Rejected

_ROWS = 100
"""Documents that are listed one by one; of more there is only the sum, and ``documents list``."""
_SPOOLED = 1024 * 1024


class ImportOutput:
    """Counts outcomes and prints them: a table or a sum, or with ``as_json`` one object. A context manager.

    Whatever ends the import, the object is whole, and the sum says what was done until then.
    """

    def __init__(self, *, as_json: bool, progress: ImportProgress) -> None:
        self._as_json = as_json
        self._json: _JsonObject | None = None
        self._progress = progress
        self._rows: list[tuple[Any, ...]] = []
        self._since = time.monotonic()
        self._failed_again: Counter[str] = Counter()
        self._failed_left: Counter[str] = Counter()
        self.imported = self.known = self.unread = self.enqueued = self.bytes_read = 0
        self.rejected: Counter[str] = Counter()
        self.campaign_id: int | None = None

    @property
    def files(self) -> int:
        """All that were tried."""
        return self.imported + self.known + self.rejected.total()

    def __enter__(self) -> ImportOutput:
        self._json = _JsonObject() if self._as_json else None
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        try:
            # The output itself may be what is gone; and where nothing was done, nothing is to be told.
            if not isinstance(error, OSError) and (error is None or self.files):
                self._end(is_whole=error is None)
        finally:
            if self._json is not None:
                self._json.discard()

    def add(self, outcome: Imported | Rejected) -> None:
        """Takes one outcome; a rejected file is told on stderr at once."""
        if isinstance(outcome, Imported):
            self._count(outcome)
        else:
            self.rejected[outcome.failure_code] += 1
            self._progress.clear()
            tell_rejected(outcome)
        if self._json is not None:
            self._json.add(outcome)
        elif isinstance(outcome, Imported) and len(self._rows) <= _ROWS:
            self._rows.append((outcome.document_id, outcome.job_id, outcome.duplicate, terminal_path(outcome.path)))
        self._progress.show(self.files, self.bytes_read, self.rejected.total())

    def _end(self, *, is_whole: bool) -> None:
        if self._json is not None:
            self._json.close({"campaign_id": self.campaign_id})
        else:
            self._print(is_whole=is_whole)
        self._tell_of_failed()

    def _count(self, document: Imported) -> None:
        self.imported += not document.duplicate
        self.known += document.duplicate
        self.unread += not document.was_read
        self.enqueued += document.job.made
        self.bytes_read += document.bytes if document.was_read else 0
        if document.failure_code is not None and document.job.made:
            self._failed_again[document.failure_code] += 1
        elif document.failure_code is not None and not document.job.waits:
            self._failed_left[document.failure_code] += 1

    def _print(self, *, is_whole: bool) -> None:
        if not self.files:
            say("nothing to import: the folders hold no files (what is in their sub-folders comes with --recursive)")
        elif len(self._rows) > _ROWS:
            self._print_sum()
        elif self._rows:
            table(("document_id", "job_id", "duplicate", "path"), self._rows)
        if not is_whole:
            say("not all of it was done: give the same command again, and it goes on from here")

    def _print_sum(self) -> None:
        seconds = time.monotonic() - self._since
        unread = f" ({self.unread} of them unchanged, and not read again)" if self.unread else ""
        a_second = per(1, self.files, seconds)
        rate = "" if a_second is None else f", {figure(a_second)} a second"
        click.echo(f"{counted(self.files, 'file')} in {duration(seconds)}{rate}, {size(self.bytes_read)} read")
        click.echo(f"{self.imported} imported, {self.known} known already{unread}")
        if self.rejected:
            click.echo(f"{self.rejected.total()} rejected: {_counted(self.rejected)}")
        campaign = f" in campaign {self.campaign_id}" if self.campaign_id is not None else ""
        click.echo(f"{counted(self.enqueued, 'job')} enqueued{campaign}")

    def _tell_of_failed(self) -> None:
        """Of documents whose last OCR failed: those that are read again, and which command does that for the others."""
        again, left = self._failed_again, self._failed_left
        if again:
            say(f"{again.total()} had failed ({_counted(again)}) and {_gets(again.total())} a new job")
        if left:
            code = next(iter(left)) if len(left) == 1 else "CODE"
            say(
                f"{left.total()} had failed ({_counted(left)}) and {_gets(left.total())} no job; when the reason is"
                f" gone: batchproc reprocess --failure-code {code}"
            )


class _JsonObject:
    """``{"documents": [...], "rejected": [...], ...}`` on one line of stdout, written as it grows."""

    def __init__(self) -> None:
        self._documents = 0
        # Rejected ones come in between, and stand at the end.
        self._rejected = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - closed by discard()
            _SPOOLED, mode="w+", encoding="utf-8"
        )

    def add(self, outcome: Imported | Rejected) -> None:
        row = json_text(as_row(outcome))
        if isinstance(outcome, Imported):
            _write(", " if self._documents else '{"documents": [', row)
            self._documents += 1
        else:
            self._rejected.write((", " if self._rejected.tell() else "") + row)

    def close(self, more: Mapping[str, Any]) -> None:
        _write('], "rejected": [' if self._documents else '{"documents": [], "rejected": [')
        self._rejected.seek(0)
        while block := self._rejected.read(_SPOOLED):
            _write(block)
        _write("], ", json_text(more)[1:], "\n")
        sys.stdout.flush()

    def discard(self) -> None:
        """To be called in the end."""
        self._rejected.close()


def as_row(outcome: Imported | Rejected) -> dict[str, Any]:
    """A document, or a rejected file, in JSON."""
    if isinstance(outcome, Rejected):
        return {"path": display_path(outcome.path), "failure_code": outcome.failure_code}
    return {
        "document_id": outcome.document_id,
        "job_id": outcome.job_id,
        "path": display_path(outcome.path),
        "sha256": outcome.sha256.hex(),
        "duplicate": outcome.duplicate,
        "failure_code": outcome.failure_code,
        "enqueued": outcome.job.made,
    }


def tell_rejected(rejected: Rejected) -> None:
    """A line on stderr."""
    path = terminal_path(rejected.path)
    # It is for the log too, and mostly begins with the path.
    detail = one_line(rejected.detail).removeprefix(f"{path}: ")
    say(f"rejected {path}: {rejected.failure_code}: {detail}")


def size(count: int) -> str:
    """``512 B``, ``1.5 MB``, ``2.3 GB``: of 1000 bytes each, as disks and networks are measured."""
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def _write(*texts: str) -> None:
    for text in texts:
        sys.stdout.write(text)


def _gets(documents: int) -> str:
    return "gets" if documents == 1 else "get"


def _counted(codes: Counter[str]) -> str:
    return ", ".join(f"{code} {count}" for code, count in codes.most_common())
