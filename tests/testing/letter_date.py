"""A handler as somebody else would write it, and what it is tested with."""

from __future__ import annotations

import re

from pydantic import BaseModel

from batchproc import Context, Failure, Snooze, handler

DATE = re.compile(r"\b\d{1,2}\.? [^\W\d_]{3,12} \d{4}\b")


class LetterDateArgs(BaseModel, extra="forbid"):
    document_id: int


class LetterDate(BaseModel):
    date: str


@handler("letter_date", timeout=60, failure_codes={"no_date"})
def letter_date(ctx: Context, args: LetterDateArgs) -> LetterDate:
    found = DATE.search("\n".join(ctx.documents.text(ctx.connection, args.document_id)))
    if found is None:
        raise Failure("no_date", detail="no page has one")
    with ctx.transaction() as connection:
        ctx.documents.set_field(connection, args.document_id, "letter_date", found[0])
    ctx.follow_up("letter_date_noted")
    return LetterDate(date=found[0])


@handler("letter_date_noted")
def noted(ctx: Context) -> None:
    """Nothing more is to be done."""


@handler("counts_up")
def counts_up(ctx: Context) -> None:
    """Three steps, each of which is kept: what is done is a field of the document."""
    for step in range(ctx.document.fields.get("steps", 0) + 1, 4):
        with ctx.transaction() as connection:
            ctx.documents.set_field(connection, ctx.document.document_id, "steps", step)
            ctx.checkpoint(connection)
        ctx.progress(step, 3)
        if ctx.stopping:
            raise Snooze(0)


@handler("divides")
def divides(ctx: Context) -> None:
    ctx.log.info("{}", 1 / 0)
