"""The options that choose documents, and what they choose."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.shared.ages import Age
from batchproc.cli.shared.app import ID, App
from batchproc.cli.shared.filters import FailureCode, FiniteRange
from batchproc.core.errors import UsageError
from batchproc.documents.languages import hint_problem
from batchproc.documents.paths import path_from_text
from batchproc.documents.selection import Filter, patterns_between
from batchproc.ops.selecting import data_beginning, data_out_of_date, rules_now, versions_before
from batchproc.setting_types import parse_size

Command = Callable[..., Any]

STATUSES = ("pending", "completed", "partial", "failed")
_MOST_PAGES = 2**31 - 1
_TEXTS = frozenset({"tenant", "engine_before", "tags", "paths", "data_hashes", "engine_versions", "read_in"})


class Size(click.ParamType[int]):
    """Bytes, or a size such as ``500MB`` or ``2GiB``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_size(int(value) if str(value).isdecimal() else value)
        except ValueError as error:
            self.fail(f"{value!r} {error}.", param, ctx)


class Moment(click.ParamType[datetime]):
    """A day or a time, ISO 8601; without an offset it is local time."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return value if isinstance(value, datetime) else datetime.fromisoformat(value).astimezone()
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no day or time such as 2026-11-30 or 2026-11-30T22:00.", param, ctx)


_OPTIONS = (
    click.option("--tenant", metavar="SLUG", help="Only this tenant's documents."),
    click.option("--status", "statuses", type=click.Choice(STATUSES), multiple=True, help="In it; repeatable."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="With this tag; repeatable: with any of them."),
    click.option(
        "--path",
        "paths",
        multiple=True,
        metavar="PATTERN",
        help="Imported from this file or from below this folder, or from a path in which * stands for anything;"
        " repeatable. One that is not here is read as --json shows it: \\x2a is the byte *.",
    ),
    click.option(
        "--below-confidence",
        type=FiniteRange(0, 100),
        metavar="N",
        help="Recognised with less confidence, 0 to 100, or with a page on which no word was found.",
    ),
    click.option(
        "--engine-before", metavar="VERSION", help="Recognised by an older version of an engine, such as 5.5."
    ),
    click.option(
        "--engine-version",
        "engine_versions",
        multiple=True,
        metavar="VERSION",
        help="Recognised by exactly this version; repeatable.",
    ),
    click.option(
        "--data-hash",
        "data_hashes",
        multiple=True,
        metavar="HASH",
        help="Read by language data whose hash begins so (documents history shows it, as data); repeatable.",
    ),
    click.option("--stale-data", is_flag=True, help="Read by other language data than is installed here now."),
    click.option("--stale-rules", is_flag=True, help="Not classified by the taxonomy rules that hold here now."),
    click.option(
        "--read-in",
        multiple=True,
        metavar="LANG",
        help="Read in this language, perhaps among others, or waiting to be; repeatable: in any of them.",
    ),
    click.option("--older-than", type=Age(), metavar="AGE", help="Whose text was read longer ago: 90d."),
    click.option("--imported-after", type=Moment(), metavar="TIME", help="First imported then or later: 2026-11-30."),
    click.option("--imported-before", type=Moment(), metavar="TIME", help="First imported earlier."),
    click.option("--min-size", type=Size(), metavar="SIZE", help="Of so many bytes or more: 500kB."),
    click.option("--max-size", type=Size(), metavar="SIZE", help="Of so many bytes or less: 2MiB."),
    click.option("--min-pages", type=click.IntRange(0, _MOST_PAGES), metavar="N", help="Of N pages or more."),
    click.option("--max-pages", type=click.IntRange(0, _MOST_PAGES), metavar="N", help="Of N pages or fewer."),
    click.option(
        "--failure-code",
        "failure_codes",
        type=FailureCode(),
        multiple=True,
        metavar="CODE",
        help="Whose last OCR failed with this code; repeatable.",
    ),
    click.option("--document", "document_ids", type=ID, multiple=True, metavar="ID", help="This document; repeatable."),
    click.option("--all", "everything", is_flag=True, help="All documents, where no other filter is given."),
)
_NAMES = (
    *("tenant", "statuses", "tags", "paths", "below_confidence", "engine_before", "engine_versions", "data_hashes"),
    *("stale_data", "stale_rules", "read_in", "older_than", "imported_after", "imported_before", "min_size"),
    *("max_size", "min_pages", "max_pages", "failure_codes", "document_ids"),
)


def choosing_documents(command: Command) -> Command:
    """Adds the options that choose documents to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def require_choice(options: dict[str, Any]) -> None:
    """Raises UsageError unless a filter says which documents, or ``--all`` that it is all of them."""
    for parameter in click.get_current_context().command.params:
        value = options.get(parameter.name or "")
        if parameter.name in _TEXTS and (value == "" or (isinstance(value, tuple) and "" in value)):
            raise UsageError(f"{parameter.opts[0]} is empty", "leave it out, or give it a value")
    given = any(options[name] not in (None, False, ()) for name in _NAMES)
    if not given and not options["everything"]:
        raise UsageError("nothing says which documents", "give --status, --tenant or another filter, or --all")
    if given and options["everything"]:
        raise UsageError("--all does not go with a filter", "leave one of them out")


def filter_of(app: App, connection: Connection[TupleRow], options: dict[str, Any]) -> Filter:
    """What the options choose.

    Raises:
        UsageError: there is no such tenant, or something else of it does not exist or cannot be compared.
    """
    tenant = options["tenant"]
    return Filter(
        tenant_id=app.jobs.tenant(connection, tenant).tenant_id if tenant is not None else None,
        document_ids=options["document_ids"] or None,
        statuses=options["statuses"] or None,
        below_confidence=options["below_confidence"],
        failure_codes=options["failure_codes"] or None,
        engine_versions=_engine_versions(app, connection, options),
        tags=options["tags"] or None,
        languages=_languages(options["read_in"]),
        data_hashes=_data_hashes(app, connection, options),
        older_than=options["older_than"],
        imported_after=options["imported_after"],
        imported_before=options["imported_before"],
        min_bytes=options["min_size"],
        max_bytes=options["max_size"],
        min_pages=options["min_pages"],
        max_pages=options["max_pages"],
        rules=rules_now(connection, app.jobs, app.settings, tenant) if options["stale_rules"] else None,
        paths=[like for path in options["paths"] for like in _patterns(path)] or None,
    )


def _engine_versions(app: App, connection: Connection[TupleRow], options: dict[str, Any]) -> list[str] | None:
    exact, before = options["engine_versions"], options["engine_before"]
    if before is None:
        return list(exact) or None
    older = versions_before(connection, app.schema, before)
    return [version for version in older if not exact or version in exact]


def _data_hashes(app: App, connection: Connection[TupleRow], options: dict[str, Any]) -> list[str] | None:
    given = options["data_hashes"]
    if not given and not options["stale_data"]:
        return None
    named = {data for start in given for data in data_beginning(connection, app.schema, start)}
    if not options["stale_data"]:
        return sorted(named)
    stale = data_out_of_date(connection, app.settings)
    return [data for data in stale if not given or data in named]


def _languages(given: tuple[str, ...]) -> list[str] | None:
    for language in given:
        if "+" in language or "," in language or hint_problem(language) is not None:
            raise UsageError(
                f"--read-in {language[:80]!r} is no language", "it is one of Tesseract's names, such as deu"
            )
    return list(given) or None


def _patterns(given: str) -> list[bytes]:
    """A path as the shell gave it, where that is there, else as JSON shows it; relative to the current folder."""
    parts = given.split("*")  # before the text is undone: what stands there as \\x2a is no pattern
    if len(parts) == 1:
        is_there = os.path.lexists(given)
        # As an import resolves it.
        return patterns_between([os.path.realpath(_path_of(given, as_given=is_there))])
    if not given.startswith(("/", "*")):
        raise UsageError(f"--path {given[:80]!r} is relative", "with a * in it, begin it with / or *")
    folder = parts[0].rpartition("/")[0]
    is_there = "\\x" in folder and Path(folder).is_dir()
    return patterns_between([_path_of(part, as_given=is_there) for part in parts])


def _path_of(text: str, *, as_given: bool) -> bytes:
    if as_given or "\\x" not in text:
        return os.fsencode(text)
    try:
        path = path_from_text(text)
    except UnicodeEncodeError:  # bytes that are no UTF-8
        return os.fsencode(text)
    if b"\0" in path:
        raise UsageError(f"--path {text[:80]!r}: no path holds a NUL character", "leave the \\x00 out")
    return path
