"""What one attempt met and needed, noted by its worker for somebody who looks at that job alone.

Tracebacks go to the local log and to no table, so they reach whoever ran the job through a file in a folder of theirs,
not through the database.
"""

from __future__ import annotations

import contextlib
import json
import resource
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from loguru import logger

from batchproc.core.shown_text import redact
from batchproc.handlers.errors import ClaimLost, Failure, Snooze, StorageUnavailable

_TRACEBACK_CHARACTERS = 32_000
_DECLARED = (Failure, StorageUnavailable)


@dataclass(frozen=True, slots=True)
class AttemptNotes:
    """Of one attempt.

    ``processor_seconds``: of all threads of the worker, and of the programs it has waited for.
    ``peak_bytes``: the most memory that the worker has had resident since it started, what it imported included, or
    the largest of its programs, whichever is more (getrusage(2), ``ru_maxrss``).
    ``traceback``: of what the handler raised, with passwords masked; None when it returned or snoozed.
    """

    processor_seconds: float
    peak_bytes: int
    traceback: str | None = None


@contextlib.contextmanager
def noted(folder: Path, job_id: int) -> Iterator[None]:
    """Notes what is done within for ``read_notes``. What is raised goes on."""
    before = _processor_seconds()
    raised: BaseException | None = None
    try:
        yield
    except BaseException as error:
        raised = None if isinstance(error, Snooze | ClaimLost) else error
        if isinstance(error, _DECLARED):  # others are logged where they are caught
            logger.opt(exception=error).debug("the handler raised {}", type(error).__name__)
        raise
    finally:
        notes = AttemptNotes(
            processor_seconds=round(_processor_seconds() - before, 3),
            peak_bytes=peak_bytes(),
            traceback=None if raised is None else _shown(raised),
        )
        _write(notes, folder, job_id)


def _write(notes: AttemptNotes, folder: Path, job_id: int) -> None:
    """Without them the attempt is what it was: a full disk of the temp folder makes it no failed one."""
    draft = folder / f"{job_id}.part"
    try:
        draft.write_text(json.dumps(asdict(notes)), "utf-8")
        draft.replace(_file(folder, job_id))
    except OSError as error:
        logger.warning("the notes of this attempt cannot be written: {}", error.strerror)


def read_notes(folder: Path, job_id: int) -> AttemptNotes | None:
    """The notes of that job's last attempt; None when its worker did not live to write any."""
    try:
        return AttemptNotes(**json.loads(_file(folder, job_id).read_text("utf-8")))
    except FileNotFoundError:
        return None


def peak_bytes() -> int:
    """The most that this process, or any single program it has waited for, has had resident at a time."""
    # In KiB on Linux (getrusage(2)).
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) << 10


def _processor_seconds() -> float:
    used = time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used + children.ru_utime + children.ru_stime


def _shown(error: BaseException) -> str:
    try:
        lines = "".join(traceback.format_exception(error))
    except Exception as again:  # noqa: BLE001 - its own methods may raise anything
        return f"{type(error).__name__}, which cannot be shown: {type(again).__name__}"
    text = redact(lines[-2 * _TRACEBACK_CHARACTERS :])
    return text if len(text) <= _TRACEBACK_CHARACTERS else text[-_TRACEBACK_CHARACTERS:]


def _file(folder: Path, job_id: int) -> Path:
    return folder / f"{job_id}.json"
