"""What ``import`` prints: as it goes on, in constant memory, however many files there are."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Any

from batchproc.cli.importing.progress import ImportProgress
from batchproc.cli.importing.rejected import RejectedFiles, by_code
from batchproc.cli.shared.messages import say
from batchproc.cli.shared.output import figure, json_text, print_broken, table
from batchproc.core.counted import counted
from batchproc.core.durations import duration
from batchproc.core.throughput import per
from batchproc.documents.paths import display_path, terminal_path
from batchproc.ops.advice import found_again_advice
from batchproc.ops.imported import Imported, Rejected

_ROWS = 100
"""Documents that are listed one by one; of more there is only the sum, and ``documents list``."""
_SPOOLED = 1024 * 1024


class ImportOutput:
    """Counts outcomes and prints them: a table or a sum, or with ``as_json`` one object. A context manager.

    Whatever ends the import, the object is whole, and the sum says what was done until then.

    Args:
        roots: those of the settings.
        accepted: failure codes that nobody wants to hear of.
        quiet: nothing is said that is no warning.
    """

    def __init__(
        self,
        tenant: str,
        *,
        as_json: bool,
        progress: ImportProgress,
        roots: Sequence[bytes] = (),
        accepted: Collection[str] = (),
        quiet: bool = False,
    ) -> None:
        self._tenant = tenant
        self._accepted = accepted
        self._quiet = quiet
        self._as_json = as_json
        self._json: _JsonObject | None = None
        self._progress = progress
        self._rows: list[tuple[Any, ...]] = []
        self._since = time.monotonic()
        self._failed_again: Counter[str] = Counter()
        self._failed_left: Counter[str] = Counter()
        self.imported = self.known = self.unread = self.enqueued = self.bytes_read = 0
        self.rejected = RejectedFiles(roots)
        self.folders_left_out = 0
        self.campaign_id: int | None = None

    @property
    def files(self) -> int:
        """All that were tried."""
        return self.imported + self.known + self.rejected.total

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
            self._progress.clear()
            self.rejected.tell(outcome)
        if self._json is not None:
            self._json.add(outcome)
        elif isinstance(outcome, Imported) and len(self._rows) <= _ROWS:
            self._rows.append((outcome.document_id, outcome.job_id, outcome.duplicate, terminal_path(outcome.path)))
        self._progress.show(self.files, self.bytes_read, self.rejected.total)

    def _end(self, *, is_whole: bool) -> None:
        if self._json is not None:
            self._json.close({"campaign_id": self.campaign_id})
        else:
            self._print(is_whole=is_whole)
        if self._json is not None or not self._is_summed:
            self.rejected.tell_total()
        self.rejected.tell_remedy()
        self._tell_of_failed()
        # Not in each mail of cron's, whose line names the folder it means; where nothing was found, that may be why.
        if self.folders_left_out and not self._quiet and (sys.stderr.isatty() or not self.files):
            folders, them = counted(self.folders_left_out, "folder"), "it" if self.folders_left_out == 1 else "them"
            say(f"{folders} left out; with -r all files below {them} are taken, too")

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

    @property
    def _is_summed(self) -> bool:
        return len(self._rows) > _ROWS

    def _print(self, *, is_whole: bool) -> None:
        if not self.files:
            say("nothing to import: the folders hold no files")
        elif self._is_summed:
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
        print_broken(f"{counted(self.files, 'file')} in {duration(seconds)}{rate}, {size(self.bytes_read)} read")
        print_broken(f"{self.imported} imported, {self.known} known already{unread}")
        if self.rejected.total:
            print_broken(f"{self.rejected.total} rejected: {by_code(self.rejected.codes)}")
        campaign = f" in campaign {self.campaign_id}" if self.campaign_id is not None else ""
        print_broken(f"{counted(self.enqueued, 'job')} enqueued{campaign}")

    def _tell_of_failed(self) -> None:
        """Of documents whose last OCR failed: those that are read again, and for each code of the others what to do."""
        again = self._failed_again
        if again and not self._quiet:
            say(f"{again.total()} had failed ({by_code(again)}) and {_gets(again.total())} a new job")
        for code, documents in self._failed_left.most_common():
            if code not in self._accepted:
                told = found_again_advice(code, self._tenant)
                say(f"{documents} had failed as {code} and {_gets(documents)} no job: {told}")


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
