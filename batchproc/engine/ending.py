"""What a handler returned or raised, as the outcome of its attempt: cleaned, bounded, and plain data.

Nothing here trusts the handler: whatever it gives, its attempt ends, and no other one with it.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
from loguru import logger
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from batchproc.core.job import KindSpec
from batchproc.core.limits import (
    CODE,
    DETAIL_CHARACTERS,
    LONGEST_DELAY,
    RESULT_BYTES,
    Cleaner,
    ResultTooLarge,
    bounded_json,
    bounded_text,
)
from batchproc.core.outcome import Completed, ErrorClass, Failed, FollowUp, Outcome, Snoozed
from batchproc.core.shown_text import redact
from batchproc.database import is_lost
from batchproc.handlers.errors import Failure, Snooze

# Codes that any kind may end with, declared or not.
_RESERVED = frozenset({"internal_error", "no_space", "storage_unavailable"})
_KEY_CHARACTERS = 200
_BLOCKS_LEFT = 1 << 16
_CHAIN = 20
_LARGEST_ID = 2**63 - 1


def completed(returned: Any, follow_ups: Sequence[FollowUp]) -> Completed:
    """The handler returned this, and asked for these jobs.

    Raises:
        ResultTooLarge: the result, or the args of a follow-up, are over 64 kB.
        Exception: they are not what they should be; anything that their own methods raise, too.
    """
    cleaner = Cleaner()
    plain = tuple(_follow_up(item, cleaner) for item in follow_ups)
    result, partial = None, False
    if returned is not None:
        if not isinstance(returned, BaseModel):
            raise TypeError(f"a handler returns a pydantic model or None, not {type(returned).__name__}")
        partial = bool(getattr(returned, "partial", False))
        result = bounded_json(_as_json(returned, cleaner), cleaner)
    return Completed(result, plain, partial, cleaner.stripped)


def declared(spec: KindSpec, failure: Failure) -> Failed:
    """The handler raised a failure of its own; under ``internal_error`` if it has not declared the code."""
    error_class = ErrorClass.TRANSIENT if failure.retry else ErrorClass.PERMANENT
    code: object = failure.code
    if not isinstance(code, str) or code not in spec.failure_codes | _RESERVED:
        logger.error("kind {} raised the failure code {!r:.100}, which it does not declare", spec.name, code)
        # Not the code, which the log has: a word of the document may be one, too.
        return Failed(error_class, "internal_error", place(failure), "undeclared failure code")
    if code == "storage_unavailable":
        error_class = ErrorClass.STORAGE_UNAVAILABLE  # the same as raising StorageUnavailable
    return Failed(error_class, code, place(failure), None if failure.detail is None else _text(failure.detail))


def snoozed(snooze: Snooze) -> Outcome:
    """The handler asked for later; a failure when what it gave is no number of seconds."""
    seconds: object = snooze.seconds
    if not isinstance(seconds, int | float) or seconds != seconds:
        return Failed(
            ErrorClass.TRANSIENT, "internal_error", place(snooze), "the handler snoozed for no number of seconds"
        )
    return Snoozed(float(max(0, min(seconds, LONGEST_DELAY))))


def unexpected(error: BaseException, *, keep_message: bool) -> Failed:
    """The failure that an exception nobody declared stands for; its text may quote a document."""
    detail = _text(error, redact) if keep_message else None
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return Failed(ErrorClass.OUT_OF_MEMORY, "out_of_memory", place(error), detail)
    if is_lost(error):
        return Failed(ErrorClass.TRANSIENT, "database_lost", place(error), detail)
    if _says_full(error):
        return Failed(ErrorClass.TRANSIENT, "no_space", place(error), detail)
    return Failed(ErrorClass.TRANSIENT, "internal_error", place(error), detail)


def _says_full(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    if isinstance(error, subprocess.CalledProcessError):
        return _is_full(os.environ.get("TMPDIR"))  # a program can tell only that it failed
    return isinstance(error, psycopg.errors.DiskFull) or getattr(error, "sqlite_errorname", None) == "SQLITE_FULL"


def _is_full(folder: str | None) -> bool:
    """Whether no file can grow there: by the operating system's own count, a block or two may be left."""
    try:
        found = os.statvfs(folder or "")
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _BLOCKS_LEFT or (found.f_files > 0 and found.f_favail == 0)


def place(error: BaseException) -> str:
    """The exception's type and where it was raised: ``ValueError at scan.py:12``."""
    name = type(error).__name__
    trace = error.__traceback__
    if trace is None:
        return name
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{name} at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def record(error: BaseException, message: str, *values: object) -> None:
    """Logs the exception with its traceback; one that cannot be shown is logged without. It is cut short for that."""
    try:
        _shorten(error)
        logger.opt(exception=error).error(message, *values)
    except BaseException as again:  # noqa: BLE001 - its own methods may raise anything
        logger.error(message + " (its traceback cannot be shown: {})", *values, type(again).__name__)


def _shorten(error: BaseException) -> None:
    """Takes off the end of a long chain of causes: showing 20,000 of them takes longer than a job may."""
    kept, ahead = {id(error)}, [error]
    for shown in ahead:
        for link in ("__cause__", "__context__"):
            other = getattr(shown, link)
            if other is None or id(other) in kept:
                continue
            if len(kept) < _CHAIN:
                kept.add(id(other))
                ahead.append(other)
            else:
                setattr(shown, link, None)


def _follow_up(item: FollowUp, cleaner: Cleaner) -> FollowUp:
    kind: object = item.kind
    if not isinstance(kind, str) or not CODE.match(kind):
        raise ValueError("a follow-up's kind is no name of a kind")
    if not isinstance(item.args, dict):
        raise TypeError(f"the args of a follow-up of kind {item.kind} are no dictionary")
    document: object = item.document_id
    if document is not None and not (isinstance(document, int) and 0 < document <= _LARGEST_ID):
        raise ValueError(f"the document of a follow-up of kind {item.kind} is no document's id")
    args = cleaner.value(item.args)
    if len(json.dumps(args, allow_nan=False)) > RESULT_BYTES:
        raise ResultTooLarge(f"the args of a follow-up of kind {item.kind}: at most {RESULT_BYTES} bytes are stored")
    key = None if item.unique_key is None else cleaner.text(item.unique_key)
    if key is not None and len(key) > _KEY_CHARACTERS:
        raise ValueError(f"the unique key of a follow-up of kind {item.kind} has over {_KEY_CHARACTERS} characters")
    return FollowUp(item.kind, args, item.document_id, key, item.range_of)


def _as_json(returned: BaseModel, cleaner: Cleaner) -> str:
    try:
        return returned.model_dump_json()
    except PydanticSerializationError:
        pass
    # Half a surrogate pair, or a byte that is no UTF-8: without it the result is worth as much.
    try:
        return json.dumps(cleaner.value(returned.model_dump(mode="json")))
    except ValueError:
        return to_json(cleaner.value(returned.model_dump())).decode()


def _text(given: object, change: Callable[[str], str] = str) -> str | None:
    """What the handler gave as a text that can be stored; None when it cannot be made one."""
    try:
        # Far more than is kept, so that what is changed near the cut is not seen, but not megabytes.
        return bounded_text(change(str(given)[: 8 * DETAIL_CHARACTERS]), DETAIL_CHARACTERS)
    except BaseException:  # noqa: BLE001 - its own methods may raise anything
        return None
