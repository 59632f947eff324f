"""Validating a job before it is enqueued: its kind, args and document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, time, timedelta
from functools import partial
from typing import Any, BinaryIO

from psycopg import Connection
from psycopg.rows import TupleRow
from pydantic import BaseModel, ValidationError

from batchproc.core.errors import UsageError
from batchproc.core.job import Lane, NewJob
from batchproc.core.kinds import OCR
from batchproc.core.languages import asked_for
from batchproc.core.limits import Cleaner
from batchproc.handlers.args import describe_invalid, validated_args
from batchproc.handlers.registry import Registry
from batchproc.ops import strict_json
from batchproc.queue.store import JobStore, Tenant

ARGS_BYTES = 64 * 1024
LINE_BYTES = 256 * 1024
_PLAIN = 32
_LARGEST = 2**63
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}")


class JobLine(BaseModel, extra="forbid"):
    """One line of ``enqueue --stdin``; what it leaves out is as the flags say."""

    args: dict[str, Any] = {}
    document_id: int | None = None
    lane: str | None = None
    priority: int | None = None
    run_at: datetime | None = None
    unique_key: str | None = None


def new_job(registry: Registry, tenant: Tenant, kind: str, line: JobLine, *, lane: str | None, priority: int) -> NewJob:
    """A job whose args fit its kind, where that is known here.

    Args:
        lane, priority: used where the line has none; a lane of None is the kind's own, else bulk.

    Raises:
        UsageError: what does not fit, without quoting args.
    """
    refuse_range(kind, line.args)
    entry = registry.get(kind)
    document_id = _document(kind, line)
    if entry is not None:
        try:
            validated_args(entry, line.args, document_id)
        except ValidationError as error:
            raise UsageError(f"the args do not fit kind {kind}: {describe_invalid(error)}") from None
    chosen = line.lane or lane
    declared = entry.spec.lane if entry is not None else None
    return NewJob(
        tenant_id=tenant.tenant_id,
        kind=kind,
        args=storable_args(line.args),
        document_id=document_id,
        lane=_lane(chosen) if chosen else (declared if declared is not None else Lane.BULK),
        priority=_within(line.priority if line.priority is not None else priority, "priority", 1, 9),
        run_at=aware(line.run_at),
        unique_key=_unique_key(line.unique_key),
        max_attempts=entry.spec.max_attempts if entry is not None else None,
    )


def asked_languages(job: NewJob) -> tuple[str, ...] | None:
    """The languages that the args of a job ask for."""
    asked = asked_for(job.args)
    return None if asked is None else tuple(asked)


def require_known_kind(registry: Registry, jobs: JobStore, connection: Connection[TupleRow], kind: str) -> None:
    """Raises UsageError for a kind that neither these settings nor any live node knows."""
    if kind in registry or kind in jobs.known_kinds(connection):
        return
    raise UsageError(
        f"no handler declares kind {kind!r}, and no node that runs now knows it",
        f"known here: {', '.join(sorted(registry))}; add its module to `handlers`, or enqueue it with --force",
    )


def parse_lines(stream: BinaryIO) -> Iterator[tuple[int, JobLine]]:
    """(line number, job) of NDJSON; empty lines are passed over. Raises UsageError naming the first bad line."""
    # At most one byte more than a line may have is read of it, so that one without an end fills no memory.
    for number, raw in enumerate(iter(partial(stream.readline, LINE_BYTES + 1), b""), start=1):
        if len(raw) > LINE_BYTES:
            raise UsageError(f"line {number} has more than {LINE_BYTES} bytes", "nothing was enqueued")
        if not raw.strip():
            continue
        try:
            yield number, JobLine.model_validate(strict_json.loads(raw))
        except ValidationError as error:
            raise UsageError(f"line {number}: {describe_invalid(error)}", "nothing was enqueued") from None
        except ValueError as error:
            raise UsageError(f"line {number} is not JSON: {error}", "nothing was enqueued") from None


def parse_args(text: str) -> dict[str, Any]:
    """``--args``: a JSON object. Raises UsageError."""
    try:
        args = strict_json.loads(text)
    except strict_json.NestedTooDeeply:
        raise _too_deep() from None
    except ValueError as error:
        raise UsageError(f"--args is not JSON: {error}", """write it as --args '{"name": "value"}'""") from None
    if not isinstance(args, dict):
        raise UsageError("--args is not a JSON object", """write it as --args '{"name": "value"}'""")
    return args


def parse_time(text: str, now: datetime) -> datetime:
    """``--at``: ISO 8601, local time without an offset, or a time of day, which is the next one. Raises UsageError.

    Args:
        now: a time with an offset, from the caller.
    """
    try:
        if not _TIME_OF_DAY.fullmatch(text):
            return datetime.fromisoformat(text).astimezone()
        today = datetime.combine(now.date(), time.fromisoformat(text.zfill(5)))
        moment = today.astimezone()
        return moment if moment > now else (today + timedelta(days=1)).astimezone()
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is not a time", "write it as 22:00, 2026-12-31T22:00 or with an offset") from None


def aware(moment: datetime | None) -> datetime | None:
    """A time without an offset is local time. Raises UsageError for one at the ends of the calendar."""
    try:
        return moment.astimezone() if moment is not None else None
    except (ValueError, OverflowError):
        raise UsageError("run_at is no time that a calendar has", "write it as 2026-12-31T22:00") from None


def refuse_range(kind: str, args: Mapping[str, Any]) -> None:
    """Raises UsageError for a page range that somebody asks for: without its revision the job would be discarded."""
    if kind == OCR and args.get("range") is not None:
        raise UsageError(
            "range is no arg that anybody may enqueue: the job that reads a large document makes those of its ranges",
            "leave range out, and all pages are read; see ocr.split_pages",
        )


def storable_args(args: dict[str, Any]) -> dict[str, Any]:
    """The args as they are stored: plain JSON, and bounded.

    Raises:
        UsageError: more than 64 kB as JSON, nested too deeply, with a character that cannot be stored, or no JSON at
            all.
    """
    cleaner = Cleaner()
    try:
        size = len(json.dumps(args, allow_nan=False))
        if size > ARGS_BYTES:
            raise UsageError(f"args of {size} bytes, at most {ARGS_BYTES}", "put the content elsewhere, pass its id")
        cleaned: dict[str, Any] = cleaner.value(args)
    except RecursionError:
        raise _too_deep() from None
    except (TypeError, ValueError):
        raise UsageError("args that are no JSON", "use texts, finite numbers, lists and objects of those") from None
    if cleaner.stripped:
        raise UsageError("args with a NUL character or half a surrogate pair", "take it out: a database holds neither")
    return cleaned


def of_tenant(jobs: Iterable[NewJob], tenant_id: int) -> Iterator[NewJob]:
    """The jobs as that tenant's, with args that can be stored.

    Raises:
        UsageError: as ``storable_args`` and ``refuse_range``.
    """
    for job in jobs:
        args = job.args if _is_plain(job.args) else storable_args(job.args)
        refuse_range(job.kind, args)
        yield replace(job, tenant_id=tenant_id, args=args)


def _is_plain(args: dict[str, Any]) -> bool:
    """Whether they can be stored as they are, by a quick look.

    So few, short and printable that neither the size nor a character can be refused; others may be fine, too.
    """
    return (
        type(args) is dict
        and len(args) <= _PLAIN
        and all(map(_is_plain_text, args))
        and all(map(_is_plain_value, args.values()))
    )


def _is_plain_text(text: object) -> bool:
    return type(text) is str and len(text) <= _PLAIN and text.isprintable()


def _is_plain_value(value: object) -> bool:
    if type(value) is int:
        return -_LARGEST <= value <= _LARGEST
    return value is None or type(value) is bool or _is_plain_text(value)


def _too_deep() -> UsageError:
    return UsageError("args nested too deeply", "put the content elsewhere, pass its id")


def _document(kind: str, line: JobLine) -> int | None:
    named = line.args.get("document_id")
    if line.document_id is not None and named is not None and named != line.document_id:
        raise UsageError(f"the args of the {kind} job name document {named}, the job document {line.document_id}")
    # A document named in the args is the job's: the database then checks that it is the tenant's own.
    return line.document_id if line.document_id is not None else (named if type(named) is int else None)


def _lane(name: str) -> Lane:
    try:
        return Lane[name.upper()]
    except KeyError:
        raise UsageError(f"there is no lane {name!r}", "it is interactive or bulk") from None


def _within(value: int, name: str, least: int, most: int) -> int:
    if not least <= value <= most:
        raise UsageError(f"{name} must be from {least} to {most}, not {value}")
    return value


def _unique_key(key: str | None) -> str | None:
    if key is not None and not 1 <= len(key) <= 200:
        raise UsageError("a unique key has from 1 to 200 characters")
    if key is not None and not key.isprintable():
        raise UsageError("a unique key has printable characters only")
    return key
