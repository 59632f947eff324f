"""Kinds that reach for what is not theirs, that tell what they see of their process, and that fail with secrets."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from psycopg.errors import Error
from pydantic import BaseModel

from batchproc.documents.store import Tag
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure
from batchproc.handlers.registry import handler

MODULE = __name__


class Other(BaseModel, extra="forbid"):
    """``document_id``: another tenant's document."""

    document_id: int


class Reached(BaseModel):
    """What came of each attempt to reach it: the exception's name, or what was got."""

    found: dict[str, str]


@handler("sec_reach")
def reach(ctx: Context, args: Other) -> Reached:
    """Reaches for another tenant's document in every way that the context offers."""
    documents, other = ctx.documents, args.document_id
    found = {
        "load": _tried(lambda: documents.load(ctx.connection, other)),
        "text": _tried(lambda: documents.text(ctx.connection, other)),
        "tags": _tried(lambda: documents.tags(ctx.connection, other)),
        "paths": _tried(lambda: documents.paths(ctx.connection, other)),
        "other store": _tried(lambda: documents.of_tenant(ctx.tenant_id + 1)),
        "own document": _tried(lambda: ctx.document.tenant_id == ctx.tenant_id),
    }
    with ctx.transaction() as connection:
        found["title"] = _tried(lambda: documents.set_title(connection, other, "stolen", "person"))
        found["failure"] = _tried(lambda: documents.set_failure(connection, other, "stolen", keep_status=False))
        found["field"] = _tried(lambda: documents.set_field(connection, other, "stolen", 1))
        found["drop"] = _tried(lambda: documents.replace_rule_tags(connection, other, []))

    def add_tag() -> None:
        with ctx.transaction() as connection:
            documents.add_tag(connection, other, Tag("stolen"))

    found["tag"] = _tried(add_tag)
    return Reached(found=found)


@handler("sec_follow_up")
def follow_up(ctx: Context, args: Other) -> None:
    """Asks for work on another tenant's document."""
    ctx.follow_up("t_quick", document_id=args.document_id)


@handler("sec_follow_up_args")
def follow_up_args(ctx: Context, args: Other) -> None:
    """The same with the document named in the args alone."""
    ctx.follow_up("ocr", {"document_id": args.document_id})


class Place(BaseModel):
    """What a worker sees of where it runs."""

    command_line: str
    environment: str
    folders: dict[str, int]


@handler("sec_place")
def place(ctx: Context) -> Place:
    """The worker's command line and environment, and the modes of the folders that it works in."""
    folders = [ctx.workdir, *ctx.workdir.parents, Path(os.environ.get("TMPDIR", "/tmp"))]
    own = [folder for folder in folders if folder.stat().st_uid == os.geteuid()]
    return Place(
        command_line=_shown("cmdline"),
        environment=_shown("environ"),
        folders={str(folder): stat.S_IMODE(folder.stat().st_mode) for folder in own},
    )


class Secret(BaseModel, extra="forbid"):
    """``how``: the way to fail, ``text``: what no row may hold."""

    how: str
    text: str


class Model(BaseModel):
    number: int


@handler("sec_fail", max_attempts=1, failure_codes={"declared"})
def fail(ctx: Context, args: Secret) -> None:
    """Fails with an exception that quotes ``text``; it is in a local variable, too."""
    text_of_the_document = args.text
    ways: dict[str, Callable[[], Any]] = {
        "message": lambda: _raise(ValueError(f"cannot read {text_of_the_document}")),
        "key": lambda: {}[text_of_the_document],  # type: ignore[index]  # an empty one
        "validation": lambda: Model.model_validate({"number": text_of_the_document}),
        "database": lambda: _violate(ctx, text_of_the_document),
        "chain": lambda: _chained(text_of_the_document),
        "declared": lambda: _declared(text_of_the_document),
        "class": lambda: _raise(type("Named", (Exception,), {"__str__": lambda _: text_of_the_document})()),
        "notes": lambda: _raise(_noted(text_of_the_document)),
        "group": lambda: _raise(ExceptionGroup("several", [ValueError(text_of_the_document)])),
        "file": lambda: Path("/nonexistent", text_of_the_document).stat(),
    }
    ways[args.how]()


WAYS = ("message", "key", "validation", "database", "chain", "declared", "class", "notes", "group", "file")


def _tried(attempt: Callable[[], Any]) -> str:
    try:
        return repr(attempt())
    except (LookupError, ValueError, Error) as error:
        return type(error).__name__


def _shown(name: str) -> str:
    return Path("/proc/self", name).read_bytes().decode("utf-8", "replace").replace("\0", " ")


def _raise(error: Exception) -> None:
    raise error


def _violate(ctx: Context, text: str) -> None:
    """PostgreSQL's detail quotes the row that it refuses."""
    with ctx.transaction() as connection:
        connection.execute("insert into batchproc.tenants (slug) values (%s)", [text.upper()])


def _chained(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError as error:
        raise RuntimeError("could not go on") from error


def _declared(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError as error:
        raise Failure("declared", detail="no such page") from error


def _noted(text: str) -> Exception:
    error = ValueError("see the notes")
    error.add_note(text)
    return error
