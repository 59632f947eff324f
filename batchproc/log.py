"""The log of the parent and of its workers: loguru on stderr and, if wished, in a file; never on stdout.

Two rules hold for every line. Passwords in URLs, in ``password=...`` and the like are masked, in messages, extras and
tracebacks alike. And nothing that comes from outside, a file name above all, can forge a line: what is not printable
is escaped, and the lines of a traceback, which are lines of their own, are marked as such.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from loguru import logger

from batchproc.core.errors import EnvironmentFault
from batchproc.core.shown_text import MASK, is_secret, one_line, redact
from batchproc.log_file import LogFile

if TYPE_CHECKING:
    from loguru import Record

__all__ = ["CONTEXT_KEYS", "Line", "each", "of_job", "setup"]

Line = tuple[str, Mapping[str, object]]
"""A message, and what is bound to it."""

CONTEXT_KEYS = ("job_id", "tenant", "kind", "attempt")
"""The extras that come first in a line, in this order, when they are bound."""

_of_job: dict[str, object] = {}
_INFO = logger.level("INFO").no

_LONGEST = 16_000
"""A message or traceback of more than twice as many characters is cut to so many at either end."""


def _bounded(text: str) -> str:
    """The text redacted, and its middle left out if it is very long: an exception may quote megabytes."""
    if len(text) <= 2 * _LONGEST:
        return redact(text)
    # Each end is redacted with as much again behind the cut, so that no cut goes through a password.
    head, tail = redact(text[: 2 * _LONGEST])[:_LONGEST], redact(text[-2 * _LONGEST :])[-_LONGEST:]
    return f"{head}\n... {len(text) - 2 * _LONGEST} characters are left out ...\n{tail}"


def of_job(**bound: object) -> None:
    """From now on every line of this process bears these extras, whichever of its threads or libraries writes it.

    For a worker, which does one job at a time; without arguments it is at none. What a line itself binds goes before.
    """
    global _of_job
    _of_job = bound


def setup(
    level: str = "info",
    format: Literal["human", "json"] = "human",  # noqa: A002  # the name of the setting
    file: str | Path | None = None,
    context: Mapping[str, object] | None = None,
    *,
    stderr: bool | TextIO = True,
    tells: bool = True,
    rotate: int | None = None,
    keep: int = 5,
) -> None:
    """Send this process's log to stderr and to ``file``, replacing what was set up before.

    Made of plain values, so that a worker can be set up alike. The standard library's logging and warnings (psycopg,
    pypdfium2, Pillow) arrive here from level warning on.

    Args:
        level: the least severe level shown: debug, info, warning or error.
        format: lines for people, or one JSON object per line.
        file: gets the same lines, with dates, appended; may be moved away while in use. Made for its owner only.
        context: extras of every line, such as the slot of a worker.
        stderr: False where every line would be a mail, as from cron; or the stream that is to be it.
        tells: False in a worker, whose node tells for all when the file cannot be written.
        rotate: bytes; a file that would grow larger is moved away first. None leaves that to others.
        keep: how many that were moved away are kept.

    Raises:
        EnvironmentFault: the file cannot be written.
    """
    logger.remove()
    logger.configure(extra=dict(context or {}), patcher=_render_json if format == "json" else _render_human)
    stamps = ("", "") if format == "json" else ("{time:HH:mm:ss} ", "{time:YYYY-MM-DD HH:mm:ss} ")
    if stderr:
        _add(sys.stderr if stderr is True else stderr, level, stamps[0])
    if file is not None:
        try:
            _add(LogFile(file, tells=tells, rotate=rotate, keep=keep), level, stamps[1])
        except OSError as error:
            raise EnvironmentFault(
                f"cannot write the log file {one_line(str(file))}: {error.strerror}",
                "make it writable or change logging.file in the settings",
            ) from None
    logging.basicConfig(handlers=[_ToLoguru()], level=logging.WARNING, force=True)
    logging.captureWarnings(True)


def each(told: Callable[[], Sequence[Line]]) -> None:
    """A line at level info for each of these messages with its extras, as a call for each would write.

    At a fraction of the cost: most of what a call takes is taken once for all, and nothing where nobody reads it.
    """
    core = logger._core  # type: ignore[attr-defined]  # loguru has no public way to ask what its sinks take
    if core.min_level > _INFO:
        return
    lines = told()
    if len(lines) > 1:
        logger.opt(depth=1).bind(_each=lines).info("{} lines", len(lines))
    for message, bound in lines if len(lines) == 1 else ():
        logger.opt(depth=1).bind(**bound).info("{}", message)


def _add(sink: TextIO | LogFile, level: str, stamp: str) -> None:
    """Loguru's own formatting is only the time stamp: the rest was rendered, and made safe, by the patcher."""
    template = stamp + "{extra[_line]}\n"
    template_of_many = "{extra[_text]}\n"

    def template_of(record: Record) -> str:
        lines = record["extra"].get("_lines")
        if lines is None:
            return template
        stamped = stamp.format(time=record["time"])
        record["extra"]["_text"] = "\n".join([stamped + line for line in lines])
        return template_of_many

    logger.add(sink, level=level.upper(), format=template_of, colorize=False, diagnose=False, backtrace=False)


def _lines(record: Record) -> Iterator[Line]:
    """What was given to ``each``, with what is bound to every line."""
    common = {name: value for name, value in _extra(record).items() if name != "_each"}
    for message, bound in record["extra"]["_each"]:
        yield message, {**common, **bound}


def _extra(record: Record) -> dict[str, object]:
    return {**_of_job, **record["extra"]} if _of_job else record["extra"]


def _render_human(record: Record) -> None:
    extra = record["extra"]
    if "_each" in extra:
        extra["_lines"] = [_human(record, message, bound) for message, bound in _lines(record)]
        return
    line = _human(record, record["message"], _extra(record))
    for row in _traceback(record).splitlines():
        line += "\n  | " + one_line(row)
    extra["_line"] = line


def _human(record: Record, message: str, bound: Mapping[str, object]) -> str:
    extra = {name: value for name, value in bound.items() if not name.startswith("_")}
    names = [name for name in CONTEXT_KEYS if name in extra] + [name for name in extra if name not in CONTEXT_KEYS]
    shown = " ".join([f"{name}={_safe(name, extra[name])}" for name in names])
    line = f"{record['level'].name.lower():<7} {_bounded(message)}"
    return one_line(f"{line} [{shown}]" if shown else line)


def _render_json(record: Record) -> None:
    extra = record["extra"]
    if "_each" in extra:
        extra["_lines"] = [json.dumps(_entry(record, message, bound)) for message, bound in _lines(record)]
        return
    entry = _entry(record, record["message"], _extra(record))
    if found := _traceback(record):
        entry["exception"] = found
    extra["_line"] = json.dumps(entry)


def _entry(record: Record, message: str, bound: Mapping[str, object]) -> dict[str, object]:
    entry: dict[str, object] = {
        "time": record["time"].isoformat(),
        "level": record["level"].name.lower(),
        "message": _bounded(message),
        "logger": record["name"],
        "process": record["process"].id,
    }
    for name, value in bound.items():
        if name == "logger" or name not in entry:
            entry[name] = value if value is None or isinstance(value, bool | int | float) else _safe(name, value)
    return entry


def _safe(name: str, value: object) -> str:
    if type(value) is int:
        return MASK if is_secret(name) else str(value)
    return MASK if is_secret(name) else _bounded(str(value))


def _traceback(record: Record) -> str:
    exception = record["exception"]
    if exception is None:
        return ""
    return _bounded("".join(traceback.format_exception(exception.type, exception.value, exception.traceback)))


class _ToLoguru(logging.Handler):
    """Hands a record of the standard library's logging on, under its own logger's name."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # a wrong format string of somebody else's must not end our work
            message = str(record.msg)
        try:
            level: str | int = logger.level(record.levelname).name
        except ValueError:
            level = record.levelno
        logger.bind(logger=record.name).opt(exception=record.exc_info).log(level, "{}", message)
